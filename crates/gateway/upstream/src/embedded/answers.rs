//! The events of a call: one answer token by token, or pieces of several and of calls of tools.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::select_all;
use tapri_api::usage::Parts;
use tapri_api::{
    ApiError, CallEvent, CallId, Delta, Finish, FinishReason, Piece, Says, TemplateUse, Token,
    Usage,
};
use tapri_engine::{CallHandle, GenerateEvent, Outcome};

use super::convert;
use super::told::Told;
use super::tools::{Dialect, Found, Parser};
use crate::EventSource;

/// What is known of a call's answers before they come.
pub(super) struct Shape {
    /// How the conversation was laid out.
    pub(super) template: Option<TemplateUse>,
    /// The request's field that the prompt came from.
    pub(super) field: &'static str,
    /// For the admission.
    pub(super) prompt_ids: Arc<[u32]>,
    /// What finds calls of tools, if there may be any.
    pub(super) parser: Option<Parser>,
    /// What is told of the prompt, if anything.
    pub(super) told: Option<Told>,
}

/// A call's events. Dropping them drops the handles, which cancels what still runs.
pub(super) struct Answers {
    lanes: Vec<Lane>,
    shape: Shape,
    dialect: Arc<Dialect>,
    admitted: bool,
    /// What comes before the engine's next event.
    ahead: Option<CallEvent>,
    choices: usize,
}

/// One of the answers.
struct Lane {
    choice: usize,
    /// Gone when it has ended.
    handle: Option<CallHandle>,
    parser: Option<Parser>,
    calls: usize,
    finish: Option<Finish>,
}

impl Answers {
    /// One handle for each answer.
    pub(super) fn new(handles: Vec<CallHandle>, shape: Shape, dialect: Arc<Dialect>) -> Self {
        let lanes = handles.into_iter().enumerate().map(|(choice, handle)| Lane {
            choice,
            handle: Some(handle),
            parser: shape.parser.clone(),
            calls: 0,
            finish: None,
        });
        let lanes: Vec<Lane> = lanes.collect();
        let choices = lanes.len();
        Answers { lanes, shape, dialect, admitted: false, ahead: None, choices }
    }

    /// The next event of any answer; `None` when all have ended.
    async fn event(&mut self) -> Option<(usize, Option<GenerateEvent>)> {
        let waiting = self.lanes.iter_mut().enumerate().filter_map(|(at, lane)| {
            let handle = lane.handle.as_mut()?;
            Some(Box::pin(async move { (at, handle.next_async().await) }))
        });
        let waiting: Vec<_> = waiting.collect();
        if waiting.is_empty() {
            return None;
        }
        Some(select_all(waiting).await.0)
    }

    /// Whether the answer is told token by token: one, without tools.
    fn is_plain(&self) -> bool {
        self.lanes.len() == 1 && self.shape.parser.is_none()
    }

    /// What is told of the prompt, the same in each answer.
    fn of_prompt(&self, says: Vec<Says>) -> Option<CallEvent> {
        let each = (0..self.choices)
            .flat_map(|choice| says.iter().map(move |says| Delta { choice, says: says.clone() }));
        piece(each.collect())
    }

    /// What an engine's event means to the caller; nothing for those that no one needs.
    fn take(&mut self, at: usize, event: GenerateEvent) -> Option<CallEvent> {
        let plain = self.is_plain();
        if let GenerateEvent::Prompt(scores) = event {
            let says = self.shape.told.as_mut()?.go_on(scores);
            return self.of_prompt(says);
        }
        let lane = self.lanes.get_mut(at)?;
        match event {
            // Told above.
            GenerateEvent::Prompt(_) => None,
            GenerateEvent::Admitted(admitted) => {
                // The others read the same prompt.
                if std::mem::replace(&mut self.admitted, true) {
                    return None;
                }
                let prompt_ids = Some(Arc::clone(&self.shape.prompt_ids));
                let admission = convert::admission(&admitted, self.shape.template, prompt_ids);
                let says = self.shape.told.as_mut().map(Told::begin).unwrap_or_default();
                self.ahead = self.of_prompt(says);
                Some(CallEvent::Admitted(admission))
            }
            GenerateEvent::Prefill { ready, total } if at == 0 => {
                Some(CallEvent::Prefill { ready, total })
            }
            GenerateEvent::Prefill { .. } => None,
            GenerateEvent::Token(token) if plain => Some(CallEvent::Token(convert::token(token))),
            GenerateEvent::Token(token) => {
                let control = self.dialect.control(token.id);
                lane.token(convert::token(token), control)
            }
            GenerateEvent::Done(outcome) if plain => {
                lane.handle = None;
                Some(match convert::outcome(outcome) {
                    Ok(finish) => CallEvent::Finished(finish),
                    Err(error) => CallEvent::Failed(error),
                })
            }
            GenerateEvent::Done(outcome) => match lane.end(outcome) {
                Ok(piece) => Some(piece),
                Err(error) => Some(self.fail(error)),
            },
            GenerateEvent::Failed(error) => {
                let error = convert::failure(&error, self.shape.field);
                Some(self.fail(error))
            }
        }
    }

    /// One answer failed, and with it the call: the others are cancelled.
    fn fail(&mut self, error: ApiError) -> CallEvent {
        self.lanes.clear();
        CallEvent::Failed(error)
    }

    /// The end of all answers: the prompt counts once, the answers together.
    fn finish(&mut self) -> Option<CallEvent> {
        let mut finishes = std::mem::take(&mut self.lanes).into_iter().map(|lane| lane.finish);
        let first = finishes.next()??;
        let finish = finishes.flatten().fold(first, |mut all, one| {
            let parts = all.usage.parts();
            let answer = parts.answer.zip(one.usage.answer()).map(|(all, one)| all + one);
            all.usage = Usage::of(Parts { answer, ..parts });
            all.timings.total = all.timings.total.max(one.timings.total);
            all
        });
        Some(CallEvent::Finished(finish))
    }
}

impl Lane {
    fn says(&self, says: Says) -> Delta {
        Delta { choice: self.choice, says }
    }

    fn token(&mut self, token: Token, control: Option<&str>) -> Option<CallEvent> {
        let Some(parser) = &mut self.parser else {
            return piece(vec![self.says(Says::Token(token))]);
        };
        let mut found = Vec::new();
        parser.push(&token.text, &mut found);
        if let Some(marker) = control {
            parser.push(marker, &mut found);
        }
        let mut deltas = Vec::new();
        // The token's logprobs go with its text; a call's tokens have none.
        let mut token = Some(token);
        for it in found {
            match it {
                Found::Text(text) => deltas.push(match token.take() {
                    Some(token) => self.says(Says::Token(Token { text, ..token })),
                    None => self.says(Says::Text(text)),
                }),
                call => deltas.push(self.found(call)),
            }
        }
        piece(deltas)
    }

    fn found(&mut self, found: Found) -> Delta {
        let says = match found {
            Found::Text(text) => Says::Text(text),
            Found::Call { index, name } => {
                self.calls += 1;
                Says::ToolCall { index, id: call_id(), name }
            }
            Found::Arguments { index, json } => Says::ToolArguments { index, json },
        };
        self.says(says)
    }

    /// The answer has ended: what was held back, and why.
    fn end(&mut self, outcome: Outcome) -> Result<CallEvent, ApiError> {
        self.handle = None;
        let mut finish = convert::outcome(outcome)?;
        let tail = std::mem::take(&mut finish.tail);
        let mut found = Vec::new();
        match &mut self.parser {
            Some(parser) => {
                parser.push(&tail, &mut found);
                parser.finish(&mut found);
            }
            None if tail.is_empty() => {}
            None => found.push(Found::Text(tail)),
        }
        let mut deltas: Vec<Delta> = found.into_iter().map(|it| self.found(it)).collect();
        if self.calls > 0 && finish.reason == FinishReason::Stop {
            finish.reason = FinishReason::ToolCalls;
        }
        let matched_stop = finish.matched_stop.clone();
        deltas.push(self.says(Says::End { reason: finish.reason, matched_stop }));
        self.finish = Some(finish);
        Ok(CallEvent::Piece(Piece { raw: None, deltas }))
    }
}

fn piece(deltas: Vec<Delta>) -> Option<CallEvent> {
    (!deltas.is_empty()).then_some(CallEvent::Piece(Piece { raw: None, deltas }))
}

/// An id that no other call has.
fn call_id() -> String {
    format!("call_{:024x}", CallId::random().0 >> 32)
}

impl EventSource for Answers {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(async {
            if let Some(event) = self.ahead.take() {
                return Some(event);
            }
            loop {
                let Some((at, event)) = self.event().await else { return self.finish() };
                // An engine that ends in the middle is told apart from one that has nothing to say.
                let event = self.take(at, event?);
                if event.is_some() {
                    return event;
                }
            }
        })
    }
}
