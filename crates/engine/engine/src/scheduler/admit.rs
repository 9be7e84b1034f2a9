//! Who may start: first come, first served; whoever can join a prefix that is being computed waits for it. A call whose scope
//! has all of its share waits for that alone: others go past it, and its scope's own calls don't.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tapri_kv::{Admission, Ready, TooLarge};

use crate::event::GenerateError;
use crate::sequence::Sequence;

use super::{Scheduler, plain};

impl Scheduler {
    pub(super) fn admit(&mut self) {
        self.admit_woken();
        let (mut at, mut full) = (0, Vec::new());
        while self.running.len() + self.joining.len() + self.restoring.len()
            < self.config.max_running.get()
        {
            let Some(next) = self.waiting.get(at) else { return };
            if full.contains(&next.keys.root) {
                at += 1;
                continue;
            }
            let Some(sequence) = self.waiting.remove(at) else { return };
            let now = self.now();
            let admission = self.cache.admit(
                sequence.id,
                plain(&sequence.tokens),
                &sequence.keys,
                sequence.options,
                now,
            );
            match admission {
                Ok(Admission::Ready(ready)) => self.read_or_start(sequence, ready),
                Ok(Admission::Wait(_)) => self.joining.push(sequence),
                Ok(Admission::NoRoom(no_room)) => {
                    let root = sequence.keys.root;
                    self.waiting.insert(at, sequence);
                    if !no_room.of_share {
                        // Those behind it wait as well: a large call must not starve.
                        return;
                    }
                    full.push(root);
                }
                Ok(Admission::TooLarge(TooLarge { needed, capacity, of_share })) => {
                    let error = GenerateError::ExceedsKvBudget { needed, capacity, of_share };
                    self.fail(sequence, error);
                }
                Err(error) => {
                    self.fail(sequence, GenerateError::Internal(error.to_string()));
                }
            }
        }
    }

    /// Calls whose wait for another one's prefix is over.
    fn admit_woken(&mut self) {
        for id in self.cache.drain_woken() {
            let Some(index) = self.joining.iter().position(|s| s.id == id) else { continue };
            let now = self.now();
            match self.cache.poll_waiting(id, now) {
                Ok(Admission::Wait(_)) => {}
                Ok(Admission::Ready(ready)) => {
                    let sequence = self.joining.remove(index);
                    self.read_or_start(sequence, ready);
                }
                Ok(Admission::NoRoom(_)) => {
                    let sequence = self.joining.remove(index);
                    self.queue(sequence);
                }
                Ok(Admission::TooLarge(_)) | Err(_) => {
                    let sequence = self.joining.remove(index);
                    self.fail(sequence, GenerateError::Internal("its wait was lost".to_owned()));
                }
            }
        }
    }

    /// A call runs from here on. `restored` of the tokens that it found came from disk.
    pub(super) fn start(&mut self, mut sequence: Sequence, ready: &Ready, restored: usize) {
        if !sequence.admitted {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            self.prompt_tokens += sequence.prompt_tokens as u64;
            if !sequence.options.no_read && self.config.prefix_cache {
                self.recent.add(sequence.prompt_tokens as u64, ready.hit as u64);
            }
        }
        sequence.admit(ready, restored, Instant::now());
        self.run_in_order(sequence);
    }
}
