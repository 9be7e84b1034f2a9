//! Who holds which blocks: for an operator who looks for a leak, not for a lookup.

use crate::call::State;
use crate::ids::{BlockId, CallId};
use crate::keys::Root;

use super::PrefixCache;

/// What the calls hold at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holdings {
    /// Every call that the cache knows, pins among them, the oldest first.
    pub calls: Vec<Held>,
    /// Physical blocks that are in use by the pool's count.
    pub in_use: usize,
    /// Physical blocks that stand in some call's tables.
    pub held: usize,
    /// Physical blocks whose count of uses isn't the number of tables they stand in. Anything but 0 is a defect.
    pub leaked: usize,
}

/// What one call holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    /// The call.
    pub call: CallId,
    /// Whose it is.
    pub root: Root,
    /// Physical blocks in its tables, those that it shares included.
    pub blocks: usize,
    /// Of those, blocks that stand in no other call's tables.
    pub alone: usize,
    /// Blocks that are kept for it and not yet handed out.
    pub promised: usize,
    /// Whether it is a pin, which holds what a call that has ended stored.
    pub pinned: bool,
    /// The call whose prefix it waits for.
    pub waits_for: Option<CallId>,
}

impl PrefixCache {
    /// What the calls hold. The work is linear in the pool and in the blocks of all calls.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        let mut uses = vec![0_u32; self.config.blocks];
        for &block in self.calls.values().flat_map(|call| call.tables.iter().flatten()) {
            if let Some(uses) = uses.get_mut(block as usize) {
                *uses += 1;
            }
        }
        let calls = self.calls.iter().map(|(&id, call)| {
            let blocks = || call.tables.iter().flatten().filter(|&&block| block != 0);
            let waits = call.state == State::Waiting;
            Held {
                call: id,
                root: call.sequence.keys().root,
                blocks: blocks().count(),
                alone: blocks().filter(|&&block| uses[block as usize] == 1).count(),
                promised: call.promise,
                pinned: call.state == State::Pinned,
                waits_for: call.writer.filter(|_| waits),
            }
        });
        let calls = calls.collect();
        // Block 0 stands for "none" in a table and belongs to nobody.
        let blocks = uses.iter().enumerate().skip(1);
        let (mut held, mut leaked) = (0, 0);
        for (block, &uses) in blocks {
            held += usize::from(uses > 0);
            leaked += usize::from(self.store.pool.refs(BlockId(block as u32)) != uses);
        }
        let in_use = (0..self.config.groups.len()).map(|group| self.store.pool.used(group)).sum();
        Holdings { calls, in_use, held, leaked }
    }
}
