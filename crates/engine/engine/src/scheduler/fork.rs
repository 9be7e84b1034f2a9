//! Several answers to one prompt: the first reads it, and when it has, the others go on from there.

use std::sync::atomic::Ordering;

use tapri_kv::ForkError;

use crate::event::GenerateError;

use super::Scheduler;

impl Scheduler {
    /// Starts the other answers of a call whose prompt is computed, and gives each its first token from the same logits.
    ///
    /// They run beside the first whatever the limit of running calls: they are one call.
    pub(super) fn fork(&mut self, index: usize, row: Option<&[f32]>) {
        let sequence = &mut self.running[index];
        let others = std::mem::take(&mut sequence.others);
        let parent = sequence.id;
        let mut forked = Vec::with_capacity(others.len());
        for other in others {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            let child = self.running[index].fork(other);
            let now = self.now();
            match self.cache.fork(parent, child.id, child.options, now) {
                Ok(fork) => {
                    self.spill();
                    for (from, to) in fork.copies {
                        self.store.copy_block(from.0, to.0);
                    }
                    forked.push(child.id);
                    self.run_in_order(child);
                }
                // It comes back as one that was preempted.
                Err(ForkError::NoRoom(_)) => self.queue(child),
                Err(error) => self.fail(child, GenerateError::Internal(error.to_string())),
            }
        }
        // Before the first takes its own, which may move it.
        for id in forked.into_iter().rev() {
            if let Some(index) = self.running.iter().position(|s| s.id == id) {
                if let Some(guide) = &mut self.running[index].guide {
                    self.masks.begin(id, guide);
                }
                self.advance(index, row);
            }
        }
    }
}
