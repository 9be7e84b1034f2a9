//! One batch: which tokens of which calls, room for them, the forward pass.

use std::time::{Duration, Instant};

use tapri_kv::{CallError, CallId, GroupIndex};
use tapri_model::{LogitsWanted, SequenceBatch};
use tapri_text::Tokenizer;

use crate::event::GenerateEvent;
use crate::sampling::prompt_logprobs;
use crate::sequence::Sequence;

use super::Scheduler;
use super::pace::{FEWEST, STEP};

/// Rows of one call from which a step tells what a prompt's tokens cost.
const PREFILL_ROWS: usize = 32;
/// Memory for the logits of prompts whose tokens are to be scored, in one step: with a large vocabulary a row takes a
/// megabyte.
const PROMPT_LOGITS: usize = 16 << 20;

/// What a step computes of one call.
#[derive(Debug, Clone, Copy)]
struct Part {
    id: CallId,
    rows: usize,
}

impl Scheduler {
    /// Computes one step of the running calls and hands out the tokens it gave.
    pub(super) fn compute_batch(&mut self) {
        let parts = self.plan();
        let parts = self.make_room(parts);
        // Before anything else is written to the blocks that made room.
        self.spill();
        if parts.is_empty() {
            return;
        }
        for block in self.fresh.drain(..) {
            self.store.clear_block(block.0);
        }
        let begun = Instant::now();
        if let Err(error) = self.forward(&parts) {
            // The model refused the batch before it computed anything: no call can go on.
            tracing::error!(%error, "the model refused a batch");
            self.recover();
            return;
        }
        self.note_computed(&parts, begun.elapsed());
        self.hand_out(&parts);
    }

    /// What computing prompts costs is what a step beside others may take of them, and what reading them back is held against.
    fn note_computed(&mut self, parts: &[Part], took: Duration) {
        let (mut rows, mut depths) = (0, 0.0);
        for part in parts.iter().filter(|part| part.rows > 1) {
            let start = self.running.iter().find(|s| s.id == part.id).map_or(0, |s| s.computed);
            rows += part.rows;
            depths += part.rows as f64 * (start as f64 + part.rows as f64 / 2.0);
        }
        if rows > 0 {
            self.pace.note(depths / rows as f64, rows, took);
        }
        let Some(disk) = &mut self.disk else { return };
        let Some(largest) = parts.iter().max_by_key(|part| part.rows) else { return };
        let sequence = self.running.iter().find(|s| s.id == largest.id);
        // In a step of few rows, reading the weights is most of the work.
        if let Some(sequence) = sequence.filter(|_| largest.rows >= PREFILL_ROWS) {
            let rows = parts.iter().map(|part| part.rows).sum();
            disk.estimates.note_computed(sequence.computed, rows, took);
        }
    }

    /// One token for each call that decodes; the chunk's prompt tokens for the others, oldest first, and beside decoding no
    /// more of them than a step has time for.
    fn plan(&self) -> Vec<Part> {
        let decoding = |pending: usize| pending == 1;
        let mut chunk = self.config.chunk.get();
        let mut time = self.running.iter().any(|s| decoding(s.pending())).then_some(STEP);
        let mut parts = Vec::with_capacity(self.running.len());
        let row_bytes = self.model.config().vocab_size * size_of::<f32>();
        let mut scored = (PROMPT_LOGITS / row_bytes).max(1);
        for sequence in &self.running {
            let pending = sequence.pending();
            let mut rows = if decoding(pending) { 1 } else { pending.min(chunk) };
            if sequence.scores_prompt() {
                rows = rows.min(scored);
            }
            if !decoding(pending) {
                if let Some(left) = &mut time {
                    let (fits, takes) = self.pace.fit(sequence.computed, *left, rows);
                    // The first goes on, however slowly; those after it rather wait for the next step.
                    rows = if *left == STEP { fits.max(FEWEST.min(rows)) } else { fits };
                    *left = left.saturating_sub(takes);
                }
                chunk -= rows;
            }
            if sequence.scores_prompt() {
                scored -= rows;
            }
            if rows > 0 {
                parts.push(Part { id: sequence.id, rows });
            }
        }
        parts
    }

    /// Finds blocks for the parts; preempts the newest call while there are too few. Where a scope's share has too few, that
    /// is the newest of the scope's.
    fn make_room(&mut self, mut parts: Vec<Part>) -> Vec<Part> {
        let mut index = 0;
        while let Some(&Part { id, rows }) = parts.get(index) {
            let Some(sequence) = self.running.iter().find(|s| s.id == id) else {
                parts.remove(index);
                continue;
            };
            match self.cache.reserve(id, sequence.computed + rows, &mut self.fresh) {
                Ok(()) => index += 1,
                Err(error) => {
                    let root = sequence.keys.root;
                    let rivals = |rival: &Sequence| match &error {
                        CallError::NoRoom(no_room) if no_room.of_share => rival.keys.root == root,
                        CallError::NoRoom(_) => true,
                        _ => false,
                    };
                    let newest = match self.running.iter().filter(|it| rivals(it)).count() {
                        0 | 1 => None,
                        _ => self.running.iter().rposition(rivals),
                    };
                    let Some(newest) = newest else {
                        if self.preempt_joining(rivals) || self.stop_reading_for(rivals) {
                            continue;
                        }
                        // Alone and still no room: the answer has filled the whole budget, or its share.
                        parts.remove(index);
                        self.end_for_want_of_room(id, &error);
                        continue;
                    };
                    let now = self.now();
                    let mut newest = self.running.remove(newest);
                    newest.preemptions += 1;
                    self.cache.preempt(newest.id, now);
                    // Those before it in the list keep their places.
                    let at = parts.iter().position(|part| part.id == newest.id);
                    if let Some(at) = at {
                        parts.remove(at);
                        index -= usize::from(at < index);
                    }
                    self.queue(newest);
                }
            }
        }
        parts
    }

    /// Takes what the newest of the joining calls holds: of a window that its writer has passed it may hold blocks that
    /// the writer needs. `false`: none joins.
    fn preempt_joining(&mut self, rivals: impl Fn(&Sequence) -> bool) -> bool {
        let joining = self.joining.iter().enumerate().filter(|(_, sequence)| rivals(sequence));
        let Some((at, _)) = joining.max_by_key(|(_, sequence)| sequence.id) else { return false };
        let now = self.now();
        let sequence = self.joining.remove(at);
        self.cache.preempt(sequence.id, now);
        self.queue(sequence);
        true
    }

    fn forward(&mut self, parts: &[Part]) -> Result<(), tapri_model::ForwardError> {
        let groups = self.cache.config().groups.len();
        let tables: Vec<&[u32]> = parts
            .iter()
            .flat_map(|part| (0..groups).map(|group| self.cache.table(part.id, GroupIndex(group))))
            .collect();
        let mut batch = Vec::with_capacity(parts.len());
        for (part, blocks) in parts.iter().zip(tables.chunks(groups)) {
            let Some(sequence) = self.running.iter().find(|s| s.id == part.id) else { continue };
            let start = sequence.computed;
            let last = part.rows == sequence.pending() && sequence.max_tokens > 0;
            let logits = match (sequence.scores_prompt(), last) {
                (true, _) => LogitsWanted::All,
                (false, true) => LogitsWanted::Last,
                (false, false) => LogitsWanted::None,
            };
            batch.push(SequenceBatch {
                tokens: &sequence.tokens[start..start + part.rows],
                start,
                blocks,
                logits,
                adapter: sequence.adapter.as_deref(),
            });
        }
        self.model.forward(
            &self.compute,
            &mut self.scratch,
            &mut self.store,
            &batch,
            &mut self.logits,
        )
    }

    /// Notes what is computed now, then chooses the next token of each call whose tokens are all there.
    fn hand_out(&mut self, parts: &[Part]) {
        let vocabulary = self.model.config().vocab_size;
        let logits = std::mem::take(&mut self.logits);
        let mut rows = logits.chunks(vocabulary);
        for part in parts {
            let Some(index) = self.running.iter().position(|s| s.id == part.id) else { continue };
            let sequence = &mut self.running[index];
            let scored = sequence.scores_prompt();
            let mut row = None;
            if scored {
                let all: Vec<&[f32]> = rows.by_ref().take(part.rows).collect();
                row = all.last().copied();
                score_prompt(sequence, &all, &self.tokenizer);
            }
            sequence.computed += part.rows;
            let noted = self
                .cache
                .computed(part.id, sequence.computed)
                .and_then(|()| self.cache.slide(part.id));
            debug_assert!(noted.is_ok(), "a running call has blocks for what it computed");
            if sequence.computed <= sequence.prompt_tokens {
                sequence.progress();
            }
            if sequence.pending() > 0 {
                continue;
            }
            let row = match (sequence.max_tokens > 0, scored) {
                (false, _) => None,
                (true, true) => row,
                (true, false) => rows.next(),
            };
            if !sequence.others.is_empty() {
                self.fork(index, row);
            }
            // Those that were forked stand behind it.
            self.advance(index, row);
        }
        self.logits = logits;
    }
}

/// Tells the logprobs of the prompt's tokens that the rows of a part give: each row is of the place before its token.
fn score_prompt(sequence: &mut Sequence, rows: &[&[f32]], tokenizer: &Tokenizer) {
    let Some(top) = sequence.prompt_logprobs else { return };
    let bytes = |id| tokenizer.token_bytes(id).unwrap_or_default();
    let mut told = Vec::with_capacity(rows.len());
    for (row, place) in rows.iter().zip(sequence.computed + 1..sequence.prompt_tokens) {
        // A call that was preempted computes again what was told.
        if place >= sequence.scored {
            told.push(prompt_logprobs(row, sequence.tokens[place], top as usize, bytes));
            sequence.scored = place + 1;
        }
    }
    if !told.is_empty() {
        sequence.send(GenerateEvent::Prompt(told));
    }
}
