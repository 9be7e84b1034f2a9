//! Two other orders of eviction, for comparison: first in, first out; and the one that knows the future.

use std::collections::{BinaryHeap, VecDeque};

use super::trace::{Call, Counting, Hits, NONE, Node, Shape, Trace};

/// First in, first out: a block goes when it is the one that was stored the longest ago, used since or not. Blocks of one
/// call go tail first. What a lookup can't reach without a block goes with it.
///
/// Calls that are larger than the cache are left out.
#[must_use]
pub fn fifo(trace: &Trace, counting: Counting, capacity: usize) -> Hits {
    let mut cache = Fifo {
        trace,
        stored: trace.table(0u64),
        first_child: trace.table(NONE),
        next: trace.table(NONE),
        prev: trace.table(NONE),
        queue: VecDeque::new(),
        serial: 0,
        free: capacity,
        held: Vec::new(),
    };
    let mut hits = Hits::default();
    let mut path = Vec::new();
    for call in trace.calls() {
        let shape = trace.shape(call, counting);
        if shape.stored + shape.spare <= capacity {
            trace.path(call, shape, &mut path);
            hits += cache.run(call, shape, &path);
        }
    }
    hits
}

struct Fifo<'a> {
    trace: &'a Trace,
    /// The serial number under which a block was stored, 0 where it isn't.
    stored: Vec<u64>,
    /// The stored blocks behind each stored block.
    first_child: Vec<Node>,
    next: Vec<Node>,
    prev: Vec<Node>,
    queue: VecDeque<(Node, u64)>,
    serial: u64,
    free: usize,
    /// Blocks at the queue's front that the running call uses.
    held: Vec<(Node, u64)>,
}

impl Fifo<'_> {
    fn run(&mut self, call: &Call, shape: Shape, path: &[Node]) -> Hits {
        let is_stored = |cache: &Self, node: Node| cache.stored[node as usize] > 0;
        let found = path[..shape.lookup].iter().take_while(|&&node| is_stored(self, node)).count();
        // The last block may be there without being looked up: it is computed into a block of its own first.
        self.take(shape.stored + shape.spare - found, &path[..found]);
        for &node in path[found..].iter().rev() {
            if is_stored(self, node) {
                self.free += 1;
            } else {
                self.serial += 1;
                self.stored[node as usize] = self.serial;
                self.queue.push_back((node, self.serial));
                self.link(node);
            }
        }
        self.free += shape.spare;
        self.trace.worth_of_first(call, found)
    }

    fn take(&mut self, blocks: usize, in_use: &[Node]) {
        while self.free < blocks {
            let Some((node, serial)) = self.queue.pop_front() else { break };
            if self.stored[node as usize] != serial {
                continue;
            }
            // A used block's place on the call's way is known from its depth.
            if in_use.get(self.trace.depth(node) as usize - 1) == Some(&node) {
                self.held.push((node, serial));
            } else {
                self.drop_all_behind(node);
            }
        }
        self.free -= blocks;
        while let Some(entry) = self.held.pop() {
            self.queue.push_front(entry);
        }
    }

    fn drop_all_behind(&mut self, top: Node) {
        loop {
            let mut leaf = top;
            while self.first_child[leaf as usize] != NONE {
                leaf = self.first_child[leaf as usize];
            }
            self.stored[leaf as usize] = 0;
            self.free += 1;
            self.unlink(leaf);
            if leaf == top {
                return;
            }
        }
    }

    fn link(&mut self, node: Node) {
        let Some(parent) = self.trace.parent(node) else { return };
        let first = std::mem::replace(&mut self.first_child[parent as usize], node);
        (self.prev[node as usize], self.next[node as usize]) = (NONE, first);
        if first != NONE {
            self.prev[first as usize] = node;
        }
    }

    fn unlink(&mut self, node: Node) {
        let Some(parent) = self.trace.parent(node) else { return };
        let (prev, next) = (self.prev[node as usize], self.next[node as usize]);
        if prev == NONE {
            self.first_child[parent as usize] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
    }
}

/// Belady's bound: no cache of `capacity` blocks that runs the calls in this order reuses more blocks, however it chooses
/// what goes, and one that knew the future would reuse as many.
///
/// It drops what is looked up again the latest (Belady, 1966), among equals the tail first. Without the rule that a lookup
/// stops at the first missing block that is the best there is, for requests of many blocks as for single ones: whenever a
/// best plan keeps a block that is needed later instead of one needed sooner, exchanging the two loses nothing. The rule
/// takes nothing away from it: a block and those before it that are in the cache for the same later lookup are needed at
/// the same time, and the tail goes first, so at that lookup a block that is there has all before it there. So what bounds
/// a cache without the rule is reached under it. Where the last token is computed anew, its block counts as needed only by
/// lookups that may find it.
///
/// Two things are left out that would only lower it: an engine that drops what is behind a dropped block at once, and the
/// second copy of a block that is computed anew. Blocks are counted, not tokens: a shorter last block is worth one. Calls
/// that are larger than the cache are left out.
#[must_use]
pub fn belady(trace: &Trace, counting: Counting, capacity: usize) -> Hits {
    let future = Future::new(trace, counting, capacity);
    let mut resident = trace.table(false);
    let mut needed_at = trace.table(NEVER);
    let mut used_by = trace.table(u32::MAX);
    let mut count = 0;
    let mut order: BinaryHeap<(u32, u32, Node)> = BinaryHeap::new();
    let mut hits = Hits::default();
    let mut path = Vec::new();
    let mut at = 0;
    for (number, call) in trace.calls().iter().enumerate() {
        let shape = trace.shape(call, counting);
        if shape.stored + shape.spare > capacity {
            continue;
        }
        trace.path(call, shape, &mut path);
        let there = |node: &&Node| resident[**node as usize];
        hits += trace.worth_of_first(call, path[..shape.lookup].iter().take_while(there).count());
        let new = path.iter().filter(|node| !resident[**node as usize]).count();
        for &node in &path {
            used_by[node as usize] = number as u32;
        }
        while count + new + shape.spare > capacity {
            let Some((when, _, node)) = order.pop() else { break };
            let current = resident[node as usize] && needed_at[node as usize] == when;
            // What this call uses is put in again below.
            if current && used_by[node as usize] != number as u32 {
                resident[node as usize] = false;
                count -= 1;
            }
        }
        count += new;
        for &node in &path {
            let when = future.uses[at];
            at += 1;
            resident[node as usize] = true;
            // The entry of the same moment is there still, unless it was taken out above: one more does no harm.
            needed_at[node as usize] = when;
            order.push((when, trace.depth(node), node));
        }
        if order.len() > 4 * count + 4096 {
            order.retain(|(when, _, node)| {
                resident[*node as usize] && needed_at[*node as usize] == *when
            });
        }
    }
    hits
}

/// Not looked up again.
const NEVER: u32 = u32::MAX;

/// For each block of each call, in the order of the replay: the call that looks it up next.
struct Future {
    uses: Vec<u32>,
}

impl Future {
    fn new(trace: &Trace, counting: Counting, capacity: usize) -> Self {
        let mut next = trace.table(NEVER);
        let mut uses = Vec::new();
        let mut path = Vec::new();
        for (number, call) in trace.calls().iter().enumerate().rev() {
            let shape = trace.shape(call, counting);
            if shape.stored + shape.spare > capacity {
                continue;
            }
            trace.path(call, shape, &mut path);
            for (block, &node) in path.iter().enumerate().rev() {
                uses.push(next[node as usize]);
                // It is stored anew at this call in any case, so keeping it until then is worth nothing where this
                // call doesn't look it up.
                next[node as usize] = if block < shape.lookup { number as u32 } else { NEVER };
            }
        }
        uses.reverse();
        Future { uses }
    }
}
