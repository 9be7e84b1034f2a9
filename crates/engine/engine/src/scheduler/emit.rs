//! From logits to a token, its text, and the end of a call.

use std::time::Instant;

use tapri_gguf::TokenId;
use tapri_kv::{CallError, CallId};

use crate::event::{FinishReason, GenerateError, GenerateEvent, Outcome, TokenEvent};
use crate::sampling::{Unpickable, logprobs};
use crate::sequence::Sequence;

use super::Scheduler;
use super::masks::{Guide, Masks};

/// How a call goes on after a token.
enum Next {
    /// The token is to be computed.
    Token(TokenId),
    /// The answer is complete.
    End(FinishReason, Option<String>),
}

impl Scheduler {
    /// Chooses the next token of a call from `row`, its logits; without any (nothing was asked for) it ends.
    pub(super) fn advance(&mut self, index: usize, row: Option<&[f32]>) {
        let sequence = &mut self.running[index];
        let Some(row) = row else {
            let sequence = self.running.remove(index);
            self.end(sequence, FinishReason::Length, None);
            return;
        };
        let mask = match &sequence.guide {
            None => None,
            Some(Guide::Ready(_, mask)) => Some(mask),
            Some(Guide::Idle(_) | Guide::Away) => {
                // The others don't wait for this one's mask.
                sequence.parked = Some(row.to_vec());
                return;
            }
            Some(Guide::Failed(reason)) => {
                let error = GenerateError::Constraint(reason.clone());
                let sequence = self.running.remove(index);
                self.fail(sequence, error);
                return;
            }
        };
        let token = match sequence.sampler.pick(row, mask) {
            Ok(token) => token,
            Err(unpickable) => {
                let error = match unpickable {
                    Unpickable::NotANumber => {
                        GenerateError::NotANumber { position: sequence.computed }
                    }
                    Unpickable::NothingFits => {
                        GenerateError::Constraint("no token of the vocabulary fits it".to_owned())
                    }
                };
                let sequence = self.running.remove(index);
                self.fail(sequence, error);
                return;
            }
        };
        sequence.count_token(Instant::now());
        self.answer_tokens += 1;
        match self.take_token(index, token, row) {
            Next::End(reason, matched) => {
                let sequence = self.running.remove(index);
                self.end(sequence, reason, matched);
            }
            Next::Token(token) => {
                let sequence = &mut self.running[index];
                sequence.tokens.push(token);
                let appended = self.cache.append(sequence.id, &[token.0]);
                debug_assert!(appended.is_ok(), "a running call can grow");
            }
        }
    }

    fn take_token(&mut self, index: usize, token: TokenId, row: &[f32]) -> Next {
        let context = self.model.config().context_length;
        let tokenizer = &self.tokenizer;
        let sequence = &mut self.running[index];
        let ends = tokenizer.is_end_of_generation(token)
            && (!sequence.rules.ignore_eos || sequence.guide.is_some());
        if ends || sequence.rules.tokens.contains(&token) {
            return Next::End(FinishReason::Stop, None);
        }
        let step = sequence.matcher.push(sequence.detokenizer.push(token));
        let bytes = |id| tokenizer.token_bytes(id).unwrap_or_default();
        let logprobs = sequence.logprobs.map(|top| logprobs(row, token, top as usize, bytes));
        sequence.send(GenerateEvent::Token(TokenEvent { id: token, text: step.text, logprobs }));
        if step.stopped_by.is_some() {
            return Next::End(FinishReason::Stop, step.stopped_by);
        }
        if guide(sequence, token, &mut self.masks) {
            return Next::End(FinishReason::Stop, None);
        }
        let full = sequence.tokens.len() >= context;
        if full || sequence.usage.answer_tokens >= sequence.max_tokens {
            return Next::End(FinishReason::Length, None);
        }
        Next::Token(token)
    }

    /// The call is complete: its blocks go back, and its caller is told.
    pub(super) fn end(
        &mut self,
        mut sequence: Sequence,
        finish: FinishReason,
        matched_stop: Option<String>,
    ) {
        let (tail, matched_stop) = match matched_stop {
            Some(stop) => (String::new(), Some(stop)),
            None => held_back(&mut sequence),
        };
        sequence.usage.written_tokens = self.cache.written(sequence.id);
        let pinned = match self.pin(&mut sequence, finish) {
            Ok(pinned) => pinned,
            Err(error) => return self.fail(sequence, error),
        };
        let outcome = Outcome {
            finish,
            matched_stop,
            tail,
            usage: sequence.usage,
            timings: sequence.timings(Instant::now()),
            pinned,
        };
        self.close(sequence, GenerateEvent::Done(outcome));
    }

    /// The whole budget is one call's and it is full: the answer ends as it does at the context's end.
    pub(super) fn end_for_want_of_room(&mut self, id: CallId, error: &CallError) {
        let Some(index) = self.running.iter().position(|s| s.id == id) else { return };
        let sequence = self.running.remove(index);
        if sequence.usage.answer_tokens > 0 {
            self.end(sequence, FinishReason::Length, None);
        } else {
            self.fail(sequence, GenerateError::Internal(error.to_string()));
        }
    }
}

/// Tells a call's grammar its token and begins the next mask. `true`: the grammar allows nothing more.
fn guide(sequence: &mut Sequence, token: TokenId, masks: &mut Masks) -> bool {
    let Some(Guide::Ready(mut constraint, _)) = sequence.guide.take() else { return false };
    let (next, complete) = match constraint.push(token) {
        Ok(complete) => (Guide::Idle(constraint), complete),
        Err(reason) => (Guide::Failed(reason), false),
    };
    let next = sequence.guide.insert(next);
    if !complete {
        masks.begin(sequence.id, next);
    }
    complete
}

/// What was held back of an answer that ends: half a character, the beginning of a stop string. The half may complete one.
fn held_back(sequence: &mut Sequence) -> (String, Option<String>) {
    let step = sequence.matcher.push(sequence.detokenizer.finish());
    match step.stopped_by {
        Some(stop) => (step.text, Some(stop)),
        None => (step.text + &sequence.matcher.finish(), None),
    }
}
