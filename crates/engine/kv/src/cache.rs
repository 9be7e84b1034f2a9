//! The prefix cache: what its owner calls.

use std::collections::{BTreeMap, BTreeSet};

use crate::call::{Call, State};
use crate::config::{CacheConfig, ConfigError};
use crate::events::KvEvent;
use crate::ids::{BlockId, CallId, GroupIndex, Moment};
use crate::keys::Root;
use crate::stats::{GroupBlocks, Stats};
use crate::store::Store;
use crate::tree::NodeId;

mod admit;
mod explain;
mod fork;
mod holdings;
mod lookup;
mod picture;
mod pin;
mod progress;
mod release;
mod restore;

pub use admit::{Admission, AdmitError, NoRoom, Ready, TooLarge, Wait};
pub use fork::{Fork, ForkError};
pub use holdings::{Held, Holdings};
pub use picture::{Picture, Run};
pub use pin::{Pin, PinError, PinLimits, PinsFull};
pub use progress::CallError;
pub use release::ResetReport;
pub use restore::{Restorable, WantedPage};

/// The prefix cache. One owner drives it; every method returns at once.
///
/// A call goes through [`admit`](Self::admit), then for each step [`reserve`](Self::reserve), [`computed`](Self::computed) and
/// [`slide`](Self::slide), with [`append`](Self::append) for each generated token, and ends with [`finish`](Self::finish),
/// [`abort`](Self::abort) or (to come back later through `admit`) [`preempt`](Self::preempt).
pub struct PrefixCache {
    config: CacheConfig,
    store: Store,
    calls: BTreeMap<CallId, Call>,
    /// For each running call that stores: the last node of its chain. Whoever matches up to there may find the next block being computed.
    tips: BTreeSet<(NodeId, CallId)>,
    woken: Vec<CallId>,
    promised: usize,
    pinned: pin::Pinned,
    /// Reused by every lookup.
    path: Vec<NodeId>,
    runs: Vec<usize>,
}

impl PrefixCache {
    /// An empty cache.
    ///
    /// # Errors
    /// When the settings contradict themselves.
    pub fn new(config: CacheConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            store: Store::new(&config),
            calls: BTreeMap::new(),
            tips: BTreeSet::new(),
            woken: Vec::new(),
            promised: 0,
            pinned: pin::Pinned::default(),
            path: Vec::new(),
            runs: Vec::new(),
            config,
        })
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// Physical blocks of a call by block number, 0 where there is none (below a window). Empty for an unknown call.
    ///
    /// Read it anew for each step: [`computed`](Self::computed) replaces a block whose content is stored already by the stored one.
    #[must_use]
    pub fn table(&self, call: CallId, group: GroupIndex) -> &[u32] {
        self.calls.get(&call).and_then(|call| call.tables.get(group.0)).map_or(&[], Vec::as_slice)
    }

    /// The tokens of a call that the cache knows of, or `None` for an unknown call.
    #[must_use]
    pub fn tokens(&self, call: CallId) -> Option<&[u32]> {
        self.calls.get(&call).map(|call| call.sequence.tokens())
    }

    /// Whether the call was admitted and has not ended.
    #[must_use]
    pub fn is_running(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(|call| call.state == State::Running)
    }

    /// Whether the call waits for another one's prefix.
    #[must_use]
    pub fn is_waiting(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(|call| call.state == State::Waiting)
    }

    /// Blocks that can be handed out now, cached ones included.
    #[must_use]
    pub fn free_blocks(&self) -> usize {
        self.store.pool.free()
    }

    /// The free queue from the front: the order in which blocks will be handed out and what is in them will go.
    pub fn free_queue(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.store.pool.queue()
    }

    /// How many calls use a block.
    #[must_use]
    pub fn references(&self, block: BlockId) -> u32 {
        if (block.0 as usize) < self.config.blocks { self.store.pool.refs(block) } else { 0 }
    }

    /// What is under a root: blocks that its calls use, and blocks that nobody uses but a lookup could find.
    #[must_use]
    pub fn owned(&self, root: &Root) -> GroupBlocks {
        let owner = self.store.owners.find(root);
        let (in_use, cached) = owner.map_or((0, 0), |owner| self.store.pool.owned(owner));
        GroupBlocks { in_use, cached }
    }

    /// Whether a block holds what is under a root.
    #[must_use]
    pub fn is_owned(&self, block: BlockId, root: &Root) -> bool {
        let known = (block.0 as usize) < self.config.blocks;
        let owner = self.store.owners.find(root);
        known && owner.is_some() && self.store.pool.owner(block) == owner
    }

    /// A picture of the cache.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (pinned, pins) = self.pinned();
        let count = |state| self.calls.values().filter(|call| call.state == state).count();
        Stats {
            counters: self.store.counters,
            capacity: self.store.pool.capacity(),
            free: self.store.pool.free(),
            promised: self.promised,
            pinned,
            pins,
            groups: (0..self.config.groups.len())
                .map(|group| GroupBlocks {
                    in_use: self.store.pool.used(group),
                    cached: self.store.pool.cached(group),
                })
                .collect(),
            stored: self.store.tree.len(),
            ghosts: self.store.ghosts.len(),
            running: count(State::Running),
            waiting: count(State::Waiting),
        }
    }

    /// Takes the KV events since the last time, and how many were lost because nobody took them.
    pub fn drain_events(&mut self) -> (Vec<KvEvent>, u64) {
        self.store.events.drain()
    }

    /// Drops everything whose time ran out, so that gauges and events show it; returns the logical blocks dropped.
    /// Lookups don't need it: they never find what has expired. The work is linear in what is stored.
    pub fn expire(&mut self, now: Moment) -> usize {
        self.store.set_now(now);
        self.store.expire_all()
    }

    /// The most blocks that a call of `tokens` positions ever holds of one group.
    fn peak(&self, group: usize, tokens: usize) -> usize {
        let size = self.config.block_tokens;
        let all = tokens.div_ceil(size);
        match self.store.needs[group] {
            None => all,
            // A step starts up to a block's length behind the boundary that the window is kept for.
            Some(need) => all.min(need + (self.config.step_tokens + size - 1).div_ceil(size)),
        }
    }

    fn peak_of_all(&self, tokens: usize) -> usize {
        (0..self.config.groups.len()).map(|group| self.peak(group, tokens)).sum()
    }

    /// Brings the promise of a running call up to date.
    fn renew_promise(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        let promise = if call.state == State::Running {
            let tokens = call.options.reserve_tokens.max(call.prompt_tokens);
            (0..self.config.groups.len())
                .map(|g| self.peak(g, tokens).saturating_sub(call.held(g)))
                .sum()
        } else {
            0
        };
        if let Some(call) = self.calls.get_mut(&id) {
            self.promised = self.promised - call.promise + promise;
            self.store.owners.promise(call.owner, call.promise, promise);
            call.promise = promise;
        }
    }
}
