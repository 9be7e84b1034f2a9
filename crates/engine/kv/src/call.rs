//! One call as the cache sees it.

use crate::ids::{BlockId, CallId, Moment};
use crate::pool::OwnerId;
use crate::reason::Stop;
use crate::sequence::Sequence;
use crate::store::Store;
use crate::tree::NodeId;

/// What a call asks of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AdmitOptions {
    /// Don't look: everything is computed. What is computed is still stored.
    pub no_read: bool,
    /// Leave nothing behind. What is there is still used.
    pub no_store: bool,
    /// Don't wait for a prefix that another call is computing.
    pub no_join: bool,
    /// Positions to find room for at admission (prompt and answer); 0 stands for the prompt's length.
    pub reserve_tokens: usize,
    /// The most blocks that all calls under the prompt's root may use and leave behind together; `None` for no limit. The
    /// latest admission's word holds for the root.
    pub share: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Known, holds nothing: not admitted for want of room, or preempted.
    Queued,
    /// Waits for another call; holds only shared blocks.
    Waiting,
    /// Admitted.
    Running,
    /// Ended, and holds what it has stored.
    Pinned,
}

pub(crate) struct Call {
    pub(crate) sequence: Sequence,
    pub(crate) options: AdmitOptions,
    /// Whose its blocks are.
    pub(crate) owner: OwnerId,
    pub(crate) state: State,
    pub(crate) prompt_tokens: usize,
    pub(crate) started: Moment,
    /// The stored nodes that it uses, from block 0 on.
    pub(crate) chain: Vec<NodeId>,
    /// Start of its scope's chains, while it may store.
    pub(crate) scope: Option<NodeId>,
    /// Physical blocks per group by block number.
    pub(crate) tables: Vec<Vec<u32>>,
    /// Per group the first block number that is still held.
    pub(crate) kept: Vec<usize>,
    pub(crate) computed: usize,
    /// Blocks found at admission.
    pub(crate) hit_blocks: usize,
    /// Blocks that are counted on for it and not yet handed out.
    pub(crate) promise: usize,
    pub(crate) preempted: bool,
    /// Blocks of its prompt that nobody had stored before it.
    pub(crate) written: usize,
    /// Block numbers below this have been counted: a preempted call computes them again.
    pub(crate) written_upto: usize,
    /// Blocks that were there when it began to wait.
    pub(crate) found: Option<usize>,
    /// Whom it waits for, and up to which block.
    pub(crate) writer: Option<CallId>,
    pub(crate) target: usize,
    /// Where it leaves the call that it waited for.
    pub(crate) parting: Option<Stop>,
    /// Blocks that are read back from elsewhere: from which number on, and up to which.
    pub(crate) restoring: Option<(usize, usize)>,
    /// Calls that wait for this one, first come first.
    pub(crate) waiters: Vec<CallId>,
}

impl Call {
    pub(crate) fn new(
        sequence: Sequence,
        options: AdmitOptions,
        owner: OwnerId,
        groups: usize,
        now: Moment,
    ) -> Self {
        Self {
            prompt_tokens: sequence.len(),
            sequence,
            options,
            owner,
            state: State::Queued,
            started: now,
            chain: Vec::new(),
            scope: None,
            tables: vec![Vec::new(); groups],
            kept: vec![0; groups],
            computed: 0,
            hit_blocks: 0,
            promise: 0,
            preempted: false,
            written: 0,
            written_upto: 0,
            found: None,
            writer: None,
            target: 0,
            parting: None,
            restoring: None,
            waiters: Vec::new(),
        }
    }

    /// Blocks held of a group.
    pub(crate) fn held(&self, group: usize) -> usize {
        self.tables[group].len() - self.kept[group].min(self.tables[group].len())
    }

    /// Uses the stored nodes `chain` and no others: what is new is taken, what a window doesn't need before the chain's end is given back.
    pub(crate) fn hold(&mut self, store: &mut Store, chain: &[NodeId], id: CallId) {
        let had = self.chain.len();
        for number in (chain.len()..had).rev() {
            self.let_go(store, number);
        }
        self.chain.truncate(chain.len());
        for &node in chain.get(had..).unwrap_or_default() {
            store.enter(node);
            self.chain.push(node);
        }
        for group in 0..self.tables.len() {
            // A full group holds all that was there before; a window may have to reach back for blocks that it had left.
            let (first, new) = match store.needs[group] {
                None => (0, had.min(chain.len())),
                Some(need) => (chain.len().saturating_sub(need), chain.len().saturating_sub(need)),
            };
            self.tables[group].resize(chain.len(), 0);
            for (number, &node) in chain.iter().enumerate().skip(new) {
                let block = store.tree.blocks(node)[group];
                if self.tables[group][number] == 0 && !block.is_null() {
                    store.pool.take(block);
                    self.tables[group][number] = block.0;
                }
            }
            for number in self.kept[group]..first {
                self.drop_block(store, group, number);
            }
            self.kept[group] = first;
        }
        self.touch(store, had.min(chain.len()), id);
    }

    /// Notes the use of the chain's nodes from `from` on.
    pub(crate) fn touch(&self, store: &mut Store, from: usize, id: CallId) {
        for &node in &self.chain[from..] {
            let node = store.tree.node_mut(node);
            node.used_at = node.used_at.max(self.started);
            if !self.options.no_store {
                node.call = id;
            }
        }
    }

    /// Gives back one block number in every group, and the node behind it.
    fn let_go(&mut self, store: &mut Store, number: usize) {
        for group in 0..self.tables.len() {
            self.drop_block(store, group, number);
        }
        if let Some(&node) = self.chain.get(number) {
            store.leave(node);
        }
    }

    pub(crate) fn drop_block(&mut self, store: &mut Store, group: usize, number: usize) {
        if let Some(entry) = self.tables[group].get_mut(number)
            && *entry != 0
        {
            store.pool.give_back(BlockId(std::mem::take(entry)));
        }
    }

    /// Marks all window blocks it holds: they lie before its end, where the next turn goes on.
    pub(crate) fn retain_held(&self, store: &mut Store) {
        for block in self.tables.iter().flatten().filter(|&&block| block != 0) {
            store.pool.retain(BlockId(*block));
        }
    }

    /// Gives the blocks back that no lookup could find: from the chain's end on nothing is stored.
    pub(crate) fn drop_unstored(&mut self, store: &mut Store) {
        let blocks = self.tables.iter().map(Vec::len).max().unwrap_or(0);
        // Going upwards leaves the last block at the queue's front.
        for number in self.chain.len()..blocks {
            for group in 0..self.tables.len() {
                self.drop_block(store, group, number);
            }
        }
        let stored = self.chain.len();
        self.tables.iter_mut().for_each(|table| table.truncate(stored));
    }

    /// Gives everything back: what can't be hit to the queue's front, the rest tail first.
    pub(crate) fn release(&mut self, store: &mut Store) {
        self.drop_unstored(store);
        for number in (0..self.chain.len()).rev() {
            self.let_go(store, number);
        }
        self.chain.clear();
        self.tables.iter_mut().for_each(Vec::clear);
        self.kept.fill(0);
        self.computed = 0;
        self.restoring = None;
        if let Some(scope) = self.scope.take() {
            store.leave(scope);
        }
    }
}
