//! Counters and gauges.

/// Blocks that can't be found any more, by what made them go.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Evictions {
    /// Room was needed; the least recently used went.
    pub capacity: u64,
    /// Room was needed; the window had passed it and no retained boundary was near.
    pub window: u64,
    /// Its time ran out.
    pub expired: u64,
    /// The cache was reset.
    pub reset: u64,
}

/// Counters since the start. Tokens are counted once per call, when it is admitted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Calls admitted with a lookup.
    pub calls: u64,
    /// Calls admitted without one.
    pub bypassed: u64,
    /// Calls that waited for another one's prefix.
    pub waits: u64,
    /// Prompt tokens of the calls with a lookup.
    pub queries: u64,
    /// Tokens that were there.
    pub hits: u64,
    /// Of the hits, tokens whose blocks were read back from elsewhere.
    pub restored: u64,
    /// Tokens that another call computed while this one waited.
    pub joined: u64,
    /// Tokens that were not there and would have been with twice the memory: those of blocks evicted for room no more
    /// than a pool's worth of evictions ago. At least so many, as the ghost list is bounded and a window that was passed
    /// isn't counted.
    pub ghost_hits: u64,
    /// Preemptions of admitted calls.
    pub preemptions: u64,
    /// Tokens of resumed calls.
    pub resumed_queries: u64,
    /// Tokens of resumed calls that were still there; not counted as hits.
    pub resumed_hits: u64,
    /// Blocks that can't be found any more.
    pub evictions: Evictions,
}

/// Blocks of one group of layers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupBlocks {
    /// Used by calls.
    pub in_use: usize,
    /// Used by nobody, still to be found.
    pub cached: usize,
}

/// A picture of the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Counters since the start.
    pub counters: Counters,
    /// Blocks that can be handed out in all (the null block is not one of them).
    pub capacity: usize,
    /// Blocks that can be handed out now, cached ones included.
    pub free: usize,
    /// Blocks promised to admitted calls and not yet handed out.
    pub promised: usize,
    /// Blocks in use that pins hold.
    pub pinned: usize,
    /// Pins.
    pub pins: usize,
    /// By group.
    pub groups: Vec<GroupBlocks>,
    /// Stored logical blocks.
    pub stored: usize,
    /// Hashes on the list of blocks that are gone.
    pub ghosts: usize,
    /// Admitted calls.
    pub running: usize,
    /// Calls that wait for another one's prefix.
    pub waiting: usize,
}

impl Stats {
    /// The share of the pool that calls use, 0 to 1.
    #[must_use]
    pub fn usage(&self) -> f64 {
        let used: usize = self.groups.iter().map(|group| group.in_use).sum();
        used as f64 / self.capacity as f64
    }
}
