//! Tokens written to a cache that no later call read.
//!
//! A write costs more than reading the prompt plainly, and pays only when it is read: 512,521 tokens written and none
//! read cost more than no cache (arXiv 2609.01466). A call that read `cached` tokens and wrote `written` left behind
//! the stretch from `cached` to `cached + written` of its conversation's prompt; a later call of the conversation that
//! reads `c` tokens has read all of it below `c`. The first call of a conversation that reads something reads what
//! another conversation wrote. Prompts aren't seen in a log, so this is an estimate.
//!
//! Tapri's own records carry fingerprints of their prompt's blocks, so there every block is followed by name: what was
//! written is read when a later call finds the same block in the cache.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use tapri_ledger::CallRecord;

use super::Observation;

/// Conversations that are followed at once; the one that was quiet longest is closed first.
const FOLLOWED: usize = 10_000;
/// Conversations of one tenant and model that a new conversation may have read from.
const NEIGHBOURS: usize = 64;

/// A tenant's model, and a conversation.
type Owner = (Option<String>, Option<String>);

#[derive(Debug, Clone, Default)]
pub(super) struct Writes {
    open: HashMap<(Owner, Option<String>), Stretches>,
    /// Conversations by when they spoke last.
    order: BTreeMap<u64, (Owner, Option<String>)>,
    recent: HashMap<Owner, VecDeque<Option<String>>>,
    clock: u64,
    blocks: Blocks,
    written: u64,
    unread: u64,
}

/// Blocks that were written and not read yet, by fingerprint.
#[derive(Debug, Clone, Default)]
struct Blocks {
    unread: HashSet<u64>,
    /// As they were written; those that were read since are still here.
    order: VecDeque<u64>,
}

/// Blocks that are followed at once: 128 million tokens.
const BLOCKS: usize = 1 << 20;
const BLOCK: u64 = CallRecord::TRACE_BLOCK as u64;

impl Blocks {
    /// What a call read and wrote; returns the tokens it wrote, and those of earlier writes that nobody will read.
    fn add(&mut self, trace: &[u64], cached: u64, written: u64) -> (u64, u64) {
        let (mut new, mut lost) = (0, 0);
        for (at, print) in (0u64..).zip(trace) {
            let (start, end) = (at * BLOCK, (at + 1) * BLOCK);
            if end <= cached {
                self.unread.remove(print);
            } else if start >= cached && end <= cached + written {
                new += BLOCK;
                if self.unread.insert(*print) {
                    self.order.push_back(*print);
                } else {
                    lost += BLOCK;
                }
            }
        }
        // A block that was read and written again stands twice in the order, so this keeps a few too many as unread
        // only where over a million blocks wait.
        while self.order.len() > BLOCKS
            && let Some(oldest) = self.order.pop_front()
        {
            lost += if self.unread.remove(&oldest) { BLOCK } else { 0 };
        }
        (new, lost)
    }
}

/// Stretches of a prompt that were written and not read yet; none overlaps another.
#[derive(Debug, Clone, Default)]
struct Stretches {
    unread: Vec<Range<u64>>,
    spoke: u64,
}

impl Stretches {
    /// All below `end` was read.
    fn read(&mut self, end: u64) {
        for stretch in &mut self.unread {
            stretch.start = stretch.start.max(end.min(stretch.end));
        }
        self.unread.retain(|stretch| !stretch.is_empty());
    }

    /// A stretch is written; returns the tokens of earlier writes that it stands in for, which nobody will read.
    fn write(&mut self, new: Range<u64>) -> u64 {
        let mut lost = 0;
        let mut kept = Vec::with_capacity(self.unread.len() + 1);
        for old in self.unread.drain(..) {
            let overlap = old.start.max(new.start)..old.end.min(new.end);
            if overlap.is_empty() {
                kept.push(old);
                continue;
            }
            lost += overlap.end - overlap.start;
            kept.extend(
                [old.start..overlap.start, overlap.end..old.end]
                    .into_iter()
                    .filter(|r| !r.is_empty()),
            );
        }
        kept.push(new);
        self.unread = kept;
        lost
    }

    fn left(&self) -> u64 {
        self.unread.iter().map(|stretch| stretch.end - stretch.start).sum()
    }
}

impl Writes {
    pub(super) fn add(&mut self, call: &Observation) {
        let (cached, written) = (call.cached.unwrap_or(0), call.written.unwrap_or(0));
        if cached == 0 && written == 0 {
            return;
        }
        if !call.trace.is_empty() {
            let (new, lost) = self.blocks.add(&call.trace, cached, written);
            self.written = self.written.saturating_add(new);
            self.unread = self.unread.saturating_add(lost);
            return;
        }
        let owner = (call.tenant.clone(), call.model.clone());
        let key = (owner.clone(), call.conversation.clone());
        self.clock += 1;
        let clock = self.clock;
        let known = self.open.contains_key(&key);
        if !known && cached > 0 {
            self.read_by_stranger(&owner, cached);
        }
        let stretches = self.open.entry(key.clone()).or_default();
        self.order.remove(&stretches.spoke);
        stretches.spoke = clock;
        self.order.insert(clock, key.clone());
        stretches.read(cached);
        if written > 0 {
            self.written = self.written.saturating_add(written);
            self.unread = self.unread.saturating_add(stretches.write(cached..cached + written));
        }
        if !known {
            let recent = self.recent.entry(owner).or_default();
            recent.push_front(key.1);
            recent.truncate(NEIGHBOURS);
            self.close_the_quietest();
        }
    }

    fn read_by_stranger(&mut self, owner: &Owner, cached: u64) {
        for conversation in self.recent.get(owner).into_iter().flatten() {
            if let Some(stretches) = self.open.get_mut(&(owner.clone(), conversation.clone())) {
                stretches.read(cached);
            }
        }
    }

    fn close_the_quietest(&mut self) {
        while self.open.len() > FOLLOWED
            && let Some((_, key)) = self.order.pop_first()
        {
            let left = self.open.remove(&key).map_or(0, |stretches| stretches.left());
            self.unread = self.unread.saturating_add(left);
            if let Some(recent) = self.recent.get_mut(&key.0) {
                recent.retain(|conversation| *conversation != key.1);
                if recent.is_empty() {
                    self.recent.remove(&key.0);
                }
            }
        }
    }

    /// Tokens written, and of those not read by the end.
    pub(super) fn finish(&self) -> (u64, u64) {
        let left = self.open.values().map(Stretches::left).fold(self.unread, u64::saturating_add);
        (self.written, left.saturating_add(self.blocks.unread.len() as u64 * BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(conversation: Option<u64>, cached: u64, written: u64) -> Observation {
        Observation {
            conversation: conversation.map(|id| id.to_string()),
            prompt: Some(cached + written + 10),
            cached: Some(cached),
            written: Some(written),
            ..Observation::default()
        }
    }

    fn finish(calls: &[Observation]) -> (u64, u64) {
        let mut writes = Writes::default();
        calls.iter().for_each(|call| writes.add(call));
        writes.finish()
    }

    #[test]
    fn a_growing_conversation_reads_what_it_wrote() {
        let calls = [call(Some(1), 0, 1000), call(Some(1), 1000, 200), call(Some(1), 1200, 300)];
        // Only the last write was not read yet.
        assert_eq!(finish(&calls), (1500, 300));
    }

    #[test]
    fn the_trap_of_writing_every_time() {
        let calls: Vec<_> = (0..10).map(|_| call(Some(1), 0, 50_000)).collect();
        assert_eq!(finish(&calls), (500_000, 500_000));
    }

    #[test]
    fn another_conversation_reads_the_shared_start() {
        let calls = [call(Some(1), 0, 5000), call(Some(2), 3000, 0)];
        assert_eq!(finish(&calls), (5000, 2000));
    }

    #[test]
    fn blocks_are_followed_by_name() {
        let call = |trace: &[u64], cached, written| Observation {
            trace: trace.to_vec(),
            ..call(None, cached, written)
        };
        // A file of four blocks, read by a second question; another start of two that nobody reads; then the file's
        // last block is written again since it had gone, after it was read once.
        let calls = [
            call(&[1, 2, 3, 4], 0, 512),
            call(&[8, 9], 0, 256),
            call(&[1, 2, 3, 4], 512, 0),
            call(&[1, 2, 3, 4], 384, 128),
        ];
        assert_eq!(finish(&calls), (7 * BLOCK, 3 * BLOCK));
    }

    #[test]
    fn conversations_are_bounded() {
        let calls: Vec<_> = (0..FOLLOWED as u64 + 500).map(|id| call(Some(id), 0, 1)).collect();
        let mut writes = Writes::default();
        calls.iter().for_each(|call| writes.add(call));
        assert_eq!((writes.open.len(), writes.order.len()), (FOLLOWED, FOLLOWED));
        assert_eq!(writes.finish(), (calls.len() as u64, calls.len() as u64));
    }

    proptest! {
        /// Against a model that marks every token of one conversation.
        #[test]
        fn as_marking_every_token(calls in prop::collection::vec((0u64..40, 0u64..40), 1..30)) {
            let mut copies = 0u64;
            let mut lost = 0u64;
            let mut unread: HashSet<u64> = HashSet::new();
            for (cached, written) in &calls {
                unread.retain(|token| token >= cached);
                for token in *cached..cached + written {
                    copies += 1;
                    lost += u64::from(!unread.insert(token));
                }
            }
            let observed: Vec<_> = calls.iter().map(|(cached, written)| call(None, *cached, *written)).collect();
            prop_assert_eq!(finish(&observed), (copies, lost + unread.len() as u64));
        }
    }
}
