//! Least recently used at every capacity in one pass.
//!
//! Mattson, Gecsei, Slutz and Traiger (1970): where a larger cache always holds what a smaller one holds, the capacity from
//! which on an access hits is a number that one pass over the trace finds. The distances are counted with a Fenwick tree,
//! as others do for KV caches ("KV cache working set", arXiv 2609.27746).
//!
//! # Why the numbers are those of the engine's cache
//! Calls run one after another. Let R be all blocks ever stored, by their last use, latest first; a call's blocks enter it
//! tail first, so that its head comes out on top, as the engine's free queue has it.
//!
//! 1. *A cache holds the top of R.* What goes is the least recent that the call doesn't hold, and the call's own blocks are
//!    the most recent afterwards. So after each call a cache of C blocks holds the first k of R, for some k. A block's
//!    ancestors are more recent than it (each use of it was a use of them), so what is held is closed towards the head:
//!    a lookup that stops at the first missing block finds exactly those of its blocks that are held, and each block can be
//!    counted by itself.
//! 2. *k is C less an empty block.* Nothing is left empty once there was something to evict, except what the last call
//!    needed and could not store: its last block, if it is not full (`spare`), or the second copy of its last block z, which
//!    is computed anew for the last token's sake though it is there. The copy finds z still there if z's rank is below C;
//!    at rank C it is z itself that makes room. So k = C - 1 after a call with a spare block; after one that recomputed z,
//!    C - 1 where C > rank(z) and C where not; and C after any other. (k is at most what there is.)
//! 3. *Inclusion.* A block of rank r before the next call is found where r <= k(C): from C = r on, or from r + 1 on after a
//!    spare block, and after a recomputed z from r on if r <= rank(z) and from r + 1 on if not. Each is a bound from below
//!    on C, so larger caches find what smaller ones find, and a call adds to one entry of the histogram for each block.
//!
//! All of it needs C to be at least what the longest call holds at once.

use super::trace::{Counting, Hits, Node, Trace};

/// What every capacity would have reused.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Reused with a capacity of the index or less.
    sums: Vec<Hits>,
    smallest: usize,
}

impl Curve {
    /// One pass. `tick` is told now and then how many calls are done.
    ///
    /// O(log n) for each block of each call; memory is linear in the distinct blocks.
    #[must_use]
    pub fn new(trace: &Trace, counting: Counting, mut tick: impl FnMut(usize)) -> Self {
        let mut recency = Recency::new(trace);
        let mut sums: Vec<Hits> = Vec::new();
        let mut path = Vec::new();
        // Up to this rank a block is found from its rank on, beyond it from one more on.
        let mut exact_up_to = usize::MAX;
        for (number, call) in trace.calls().iter().enumerate() {
            if number.is_multiple_of(1024) {
                tick(number);
            }
            let shape = trace.shape(call, counting);
            trace.path(call, shape, &mut path);
            for (block, &node) in path[..shape.lookup].iter().enumerate() {
                // What comes behind a block that was never seen was never seen.
                let Some(rank) = recency.rank(node) else { break };
                let needed = rank + usize::from(rank > exact_up_to);
                if sums.len() <= needed {
                    sums.resize(needed + 1, Hits::default());
                }
                sums[needed] += trace.worth(call, block);
            }
            let again = path.get(shape.lookup).and_then(|&node| recency.rank(node));
            exact_up_to = if shape.spare > 0 { 0 } else { again.unwrap_or(usize::MAX) };
            recency.make_room(path.len());
            for &node in path.iter().rev() {
                recency.touch(node);
            }
        }
        let mut sum = Hits::default();
        for entry in &mut sums {
            sum += *entry;
            *entry = sum;
        }
        Curve { sums, smallest: trace.longest(counting) }
    }

    /// The smallest capacity that the curve speaks of: that of the longest call.
    #[must_use]
    pub fn smallest(&self) -> usize {
        self.smallest
    }

    /// The capacity beyond which nothing more is reused.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.sums.len().saturating_sub(1).max(self.smallest)
    }

    /// What a cache of `capacity` blocks would have reused; `None` below [`Curve::smallest`].
    #[must_use]
    pub fn at(&self, capacity: usize) -> Option<Hits> {
        (capacity >= self.smallest).then(|| {
            let last = self.sums.len().saturating_sub(1);
            self.sums.get(capacity.min(last)).copied().unwrap_or_default()
        })
    }

    /// What an endless cache would have reused.
    #[must_use]
    pub fn endless(&self) -> Hits {
        self.sums.last().copied().unwrap_or_default()
    }

    /// The smallest capacity that reuses this share (0 to 1) of the tokens that an endless one does.
    #[must_use]
    pub fn capacity_for(&self, share: f64) -> usize {
        let wanted = (self.endless().tokens as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
        self.sums.partition_point(|hits| hits.tokens < wanted).max(self.smallest)
    }
}

/// Blocks by their last use.
///
/// Each touch takes the next slot of a Fenwick tree that counts the slots in use. When the slots are used up, the blocks
/// move down in their order; there are at least as many slots as blocks, so a touch pays for its part of the move.
struct Recency {
    /// The slot of each node, from 1; 0: never seen.
    slots: Vec<u32>,
    /// The node of each slot; a node whose slot is another one has left it.
    nodes: Vec<Node>,
    counts: Vec<u32>,
    used: usize,
    live: usize,
}

impl Recency {
    fn new(trace: &Trace) -> Self {
        let slots = 4096;
        Recency {
            slots: trace.table(0u32),
            nodes: vec![0; slots + 1],
            counts: vec![0; slots + 1],
            used: 0,
            live: 0,
        }
    }

    /// How many blocks were used as late as this one or later, itself included.
    fn rank(&self, node: Node) -> Option<usize> {
        let slot = self.slots[node as usize];
        (slot > 0).then(|| self.live - self.before(slot as usize - 1))
    }

    /// Blocks in the slots up to and with `slot`.
    fn before(&self, mut slot: usize) -> usize {
        let mut sum = 0;
        while slot > 0 {
            sum += self.counts[slot] as usize;
            slot &= slot - 1;
        }
        sum
    }

    fn add(&mut self, mut slot: usize, by: i32) {
        while slot < self.counts.len() {
            self.counts[slot] = self.counts[slot].wrapping_add_signed(by);
            slot += slot & slot.wrapping_neg();
        }
    }

    fn touch(&mut self, node: Node) {
        let old = self.slots[node as usize];
        if old > 0 {
            self.add(old as usize, -1);
        } else {
            self.live += 1;
        }
        self.used += 1;
        self.slots[node as usize] = self.used as u32;
        self.nodes[self.used] = node;
        self.add(self.used, 1);
    }

    /// Sees to it that so many touches find slots.
    fn make_room(&mut self, touches: usize) {
        if self.used + touches < self.counts.len() {
            return;
        }
        let mut kept = Vec::with_capacity(self.live);
        for slot in 1..=self.used {
            let node = self.nodes[slot];
            if self.slots[node as usize] as usize == slot {
                kept.push(node);
                self.slots[node as usize] = kept.len() as u32;
            }
        }
        let slots = (2 * (kept.len() + touches)).max(4096);
        self.nodes.clear();
        self.nodes.resize(slots + 1, 0);
        self.counts.clear();
        self.counts.resize(slots + 1, 0);
        for (slot, node) in (1..).zip(&kept) {
            self.nodes[slot] = *node;
            self.counts[slot] += 1;
        }
        // Each entry hands its sum to the next larger one that covers it: linear, unlike adding one by one.
        for slot in 1..=slots {
            let next = slot + (slot & slot.wrapping_neg());
            if next <= slots {
                self.counts[next] += self.counts[slot];
            }
        }
        self.used = kept.len();
    }
}
