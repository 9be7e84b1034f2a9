//! Pool and tree together: what is stored in which blocks, and what goes when room is needed.

use std::time::Duration;

use crate::config::CacheConfig;
use crate::events::{Events, KvEvent};
use crate::ghost::{Ghosts, Gone};
use crate::ids::{BlockId, GroupIndex, Moment};
use crate::owners::Owners;
use crate::page::Page;
use crate::pool::{OwnerId, Pool, Shelf};
use crate::stats::Counters;
use crate::tree::{NewNode, NodeId, Tree};

pub(crate) struct Store {
    pub(crate) pool: Pool,
    pub(crate) owners: Owners,
    pub(crate) tree: Tree,
    pub(crate) ghosts: Ghosts,
    pub(crate) events: Events,
    pub(crate) counters: Counters,
    /// Per group: blocks needed before a boundary, `None` for all.
    pub(crate) needs: Vec<Option<usize>>,
    /// What made room since the owner last asked, where it wants to know.
    pub(crate) leaving: Vec<Page>,
    spill: bool,
    ttl: Option<Duration>,
    /// The latest moment that the owner named.
    now: Moment,
}

/// What made a node go.
#[derive(Clone, Copy)]
enum Cause {
    Capacity,
    Window,
    Expired,
}

impl Store {
    pub(crate) fn new(config: &CacheConfig) -> Self {
        Self {
            pool: Pool::new(config.blocks, config.groups.len()),
            owners: Owners::default(),
            tree: Tree::new(config.block_tokens, config.groups.len()),
            ghosts: Ghosts::new(config.ghosts),
            events: Events::new(config.events),
            counters: Counters::default(),
            needs: config
                .groups
                .iter()
                .map(|group| group.blocks_needed(config.block_tokens))
                .collect(),
            leaving: Vec::new(),
            spill: config.spill,
            ttl: config.ttl,
            now: Moment::START,
        }
    }

    pub(crate) fn set_now(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    /// Takes a block for `group` and for an owner. What is at the front of the queue goes; of an owner that has all it may
    /// have, what is its own: nobody else's is evicted for it. `None` where there is nothing to be had.
    pub(crate) fn allocate(&mut self, group: usize, owner: OwnerId) -> Option<BlockId> {
        if self.owners.is_full(owner, &self.pool) {
            let own = self.pool.next_of(owner)?;
            self.evict(own);
        }
        let next = self.pool.next()?;
        if self.pool.node(next) != NodeId::NONE {
            self.evict(next);
        }
        self.pool.allocate(group, owner)
    }

    fn evict(&mut self, block: BlockId) {
        let node = self.pool.node(block);
        let group = self.pool.group(block);
        let cause = match (self.is_expired(node), self.pool.shelf(block)) {
            (true, _) => Cause::Expired,
            (false, Shelf::Passed) => Cause::Window,
            (false, _) => Cause::Capacity,
        };
        if self.needs[group].is_none() {
            // Without its full-attention block a node can't be hit, nor can what comes after it.
            self.drop_subtree(node, cause);
        } else {
            self.forget_block(node, group, cause);
            self.prune(node, cause);
        }
    }

    /// Whether a node's time has run out. One in use has all the time in the world.
    pub(crate) fn is_expired(&self, node: NodeId) -> bool {
        let node = self.tree.node(node);
        node.users == 0 && self.ttl.is_some_and(|ttl| self.now.since(node.used_at) >= ttl)
    }

    /// Drops a node whose time ran out, and all behind it (none of them was used later).
    pub(crate) fn expire(&mut self, node: NodeId) {
        self.drop_subtree(node, Cause::Expired);
    }

    /// Drops everything whose time ran out; returns the logical blocks dropped.
    pub(crate) fn expire_all(&mut self) -> usize {
        if self.ttl.is_none() {
            return 0;
        }
        let before = self.tree.len();
        for node in self.tree.ids() {
            if self.tree.is_stored(node) && self.is_expired(node) {
                self.expire(node);
            }
        }
        before - self.tree.len()
    }

    fn drop_subtree(&mut self, top: NodeId, cause: Cause) {
        loop {
            let leaf = self.tree.leaf_below(top);
            debug_assert_eq!(self.tree.node(leaf).users, 0, "what is in use is never dropped");
            // The full-attention block comes last, so that it is the first to be handed out.
            for group in (0..self.needs.len()).rev() {
                self.forget_block(leaf, group, cause);
            }
            if leaf == top {
                self.prune(top, cause);
                return;
            }
            self.remove(leaf, cause);
        }
    }

    /// Drops all chains from a start, those in use as well, and leaves no trace of them: their users keep their blocks,
    /// which nobody else will find. The users must have let go of the nodes. Returns blocks that nobody used, and
    /// blocks in use.
    pub(crate) fn erase(&mut self, start: NodeId) -> (usize, usize) {
        let (mut dropped, mut in_use) = (0, 0);
        loop {
            let leaf = self.tree.leaf_below(start);
            for group in (0..self.needs.len()).rev() {
                let block = self.tree.blocks(leaf)[group];
                if block.is_null() {
                    continue;
                }
                match self.pool.refs(block) {
                    0 => dropped += 1,
                    _ => in_use += 1,
                }
                self.tree.set_block(leaf, group, BlockId::NULL);
                self.pool.detach(block);
                let hash = self.tree.hash(leaf);
                self.events.push(KvEvent::Removed { hash, group: GroupIndex(group) });
            }
            self.tree.node_mut(leaf).users = 0;
            self.tree.remove(leaf);
            self.tree.wipe(leaf);
            if leaf == start {
                self.counters.evictions.reset += (dropped + in_use) as u64;
                return (dropped, in_use);
            }
        }
    }

    fn forget_block(&mut self, node: NodeId, group: usize, cause: Cause) {
        let block = self.tree.blocks(node)[group];
        if block.is_null() {
            return;
        }
        if self.spill && !matches!(cause, Cause::Expired) {
            self.leaving.extend(self.page(node, group));
        }
        self.tree.set_block(node, group, BlockId::NULL);
        self.pool.detach(block);
        let evictions = &mut self.counters.evictions;
        match cause {
            Cause::Capacity => evictions.capacity += 1,
            Cause::Window => evictions.window += 1,
            Cause::Expired => evictions.expired += 1,
        }
        self.events.push(KvEvent::Removed { hash: self.tree.hash(node), group: GroupIndex(group) });
    }

    /// What a node has in a group, as another memory would keep it. Of window blocks those before a retained boundary and
    /// near a prompt's end alone are worth it: few lookups end elsewhere.
    pub(crate) fn page(&self, node: NodeId, group: usize) -> Option<Page> {
        let block = self.tree.blocks(node)[group];
        if block.is_null() || (self.needs[group].is_some() && !self.pool.is_worth_keeping(block)) {
            return None;
        }
        let at = self.tree.node(node);
        let parent = self.tree.parent(node)?;
        Some(Page {
            block,
            group: GroupIndex(group),
            root: self.owners.root(self.pool.owner(block)?),
            hash: self.tree.hash(node),
            parent: self.tree.hash(parent),
            number: at.number as usize,
            tokens: self.tree.tokens(node).to_vec(),
            used_at: at.used_at,
        })
    }

    /// Removes a node that nothing needs any more, and those above it that only it needed.
    fn prune(&mut self, node: NodeId, cause: Cause) {
        let mut at = Some(node);
        while let Some(node) = at
            && self.tree.is_idle(node)
        {
            at = self.tree.parent(node);
            self.remove(node, cause);
        }
    }

    fn remove(&mut self, node: NodeId, cause: Cause) {
        if self.tree.parent(node).is_some() {
            let gone = if matches!(cause, Cause::Expired) { Gone::Expired } else { Gone::Evicted };
            self.ghosts.insert(&self.tree.hash(node), gone);
        }
        self.tree.remove(node);
    }

    /// One more user of a node.
    pub(crate) fn enter(&mut self, node: NodeId) {
        let node = self.tree.node_mut(node);
        node.users += 1;
        node.uses = node.uses.saturating_add(1);
    }

    /// One user less.
    pub(crate) fn leave(&mut self, node: NodeId) {
        self.tree.node_mut(node).users -= 1;
        self.prune(node, Cause::Window);
    }

    /// Stores freshly computed blocks as a new node.
    pub(crate) fn insert(&mut self, new: &NewNode<'_>) -> NodeId {
        self.ghosts.remove(&new.hash);
        self.tree.insert(new)
    }

    /// Makes a used block findable as `node`'s block of `group`.
    pub(crate) fn attach(&mut self, node: NodeId, group: usize, block: BlockId) {
        self.tree.set_block(node, group, block);
        self.pool.attach(block, node);
        let parent =
            self.tree.parent(node).map_or(self.tree.hash(node), |parent| self.tree.hash(parent));
        self.events.push(KvEvent::Stored {
            hash: self.tree.hash(node),
            parent,
            number: self.tree.node(node).number as usize,
            group: GroupIndex(group),
        });
    }
}
