//! What the pool holds, by last use: for a person who looks, not for a lookup.

use std::collections::HashMap;
use std::time::Duration;

use crate::ids::Moment;
use crate::keys::Root;
use crate::tree::NodeId;

use super::PrefixCache;

/// What the pool holds at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// What is stored, the last used first.
    pub runs: Vec<Run>,
    /// Physical blocks of the runs that were left out, which were used longest ago.
    pub left_out: usize,
    /// Physical blocks that calls are filling, and that no other call can find yet.
    pub private: usize,
    /// Physical blocks with nothing in them.
    pub empty: usize,
    /// Physical blocks of the pool.
    pub capacity: usize,
    /// Tokens of a block.
    pub block_tokens: usize,
}

/// Neighbouring blocks of one prefix that were last used together, by as many calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Whose it is.
    pub root: Root,
    /// The short hash of its last block, which stands for everything up to there. It covers the owner's root.
    pub print: u64,
    /// The block number in the prompt of its first block.
    pub first: usize,
    /// Logical blocks: each covers [`Picture::block_tokens`] tokens.
    pub blocks: usize,
    /// Physical blocks, in all groups of layers.
    pub physical: usize,
    /// Calls and pins that use it now; with none it is cached.
    pub users: u32,
    /// Whether a pin is one of them.
    pub pinned: bool,
    /// Calls that have used it since it was stored, the one that stored it included.
    pub uses: u32,
    /// Since the start of the call that last used it.
    pub age: Duration,
}

impl PrefixCache {
    /// A picture with at most `limit` runs. The work is linear in what is stored.
    #[must_use]
    pub fn picture(&self, now: Moment, limit: usize) -> Picture {
        let store = &self.store;
        let (mut runs, mut stored_in_use) = (Vec::new(), 0);
        let pinned = self.pinned_nodes();
        // The run that a node's parent ends, while no other child has gone on with it.
        let mut open: HashMap<NodeId, usize> = HashMap::new();
        for (root, start) in store.tree.all_starts() {
            let mut ahead: Vec<NodeId> = store.tree.children(start).collect();
            while let Some(id) = ahead.pop() {
                ahead.extend(store.tree.children(id));
                let node = store.tree.node(id);
                let blocks = store.tree.blocks(id).iter().filter(|block| !block.is_null());
                let (mut physical, mut in_use) = (0, 0);
                for &block in blocks {
                    physical += 1;
                    in_use += usize::from(store.pool.refs(block) > 0);
                }
                stored_in_use += in_use;
                let mine = Run {
                    root,
                    print: store.tree.hash(id).short(),
                    first: node.number as usize,
                    blocks: 1,
                    physical,
                    users: node.users,
                    pinned: pinned.contains(&id),
                    uses: node.uses,
                    age: now.since(node.used_at),
                };
                let parent = store.tree.parent(id).and_then(|parent| open.remove(&parent));
                let before = parent.and_then(|at| runs.get_mut(at).map(|run| (at, run)));
                let at = match before {
                    Some((at, run)) if mine.goes_on_with(run) => {
                        run.blocks += 1;
                        run.physical += physical;
                        run.print = mine.print;
                        at
                    }
                    _ => {
                        runs.push(mine);
                        runs.len() - 1
                    }
                };
                open.insert(id, at);
            }
        }
        runs.sort_by(|a: &Run, b| {
            let key = |run: &Run| (run.age, *run.root.as_bytes(), run.first, run.print);
            key(a).cmp(&key(b))
        });
        let left_out = runs.iter().skip(limit).map(|run| run.physical).sum();
        runs.truncate(limit);
        let groups = 0..self.config.groups.len();
        let used: usize = groups.clone().map(|group| store.pool.used(group)).sum();
        let cached: usize = groups.map(|group| store.pool.cached(group)).sum();
        Picture {
            runs,
            left_out,
            private: used.saturating_sub(stored_in_use),
            empty: store.pool.free().saturating_sub(cached),
            capacity: store.pool.capacity(),
            block_tokens: self.config.block_tokens,
        }
    }
}

impl Run {
    fn goes_on_with(&self, before: &Run) -> bool {
        let of = |run: &Run| (run.users, run.pinned, run.uses, run.age);
        of(self) == of(before)
    }
}
