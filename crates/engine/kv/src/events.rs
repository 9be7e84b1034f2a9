//! What was stored and removed, for an owner that tells others (a router, a disk tier).

use std::collections::VecDeque;

use crate::hash::BlockHash;
use crate::ids::GroupIndex;

/// A change of what a lookup could find. Carries hashes only: no tokens, no salts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KvEvent {
    /// A block can be found.
    Stored {
        /// Its hash.
        hash: BlockHash,
        /// The hash of the block before it, or the chain's root.
        parent: BlockHash,
        /// Block number in the prompt.
        number: usize,
        /// The group of layers.
        group: GroupIndex,
    },
    /// A block can't be found any more.
    Removed {
        /// Its hash.
        hash: BlockHash,
        /// The group of layers.
        group: GroupIndex,
    },
    /// Nothing can be found any more.
    Cleared,
}

/// Events since the last drain, oldest dropped first.
pub(crate) struct Events {
    capacity: usize,
    queue: VecDeque<KvEvent>,
    lost: u64,
}

impl Events {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, queue: VecDeque::new(), lost: 0 }
    }

    pub(crate) fn push(&mut self, event: KvEvent) {
        if self.capacity == 0 {
            return;
        }
        if self.queue.len() == self.capacity {
            self.queue.pop_front();
            self.lost += 1;
        }
        self.queue.push_back(event);
    }

    pub(crate) fn drain(&mut self) -> (Vec<KvEvent>, u64) {
        (self.queue.drain(..).collect(), std::mem::take(&mut self.lost))
    }
}
