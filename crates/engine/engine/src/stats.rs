//! Counters and gauges, as one snapshot.

use std::collections::VecDeque;
use std::time::Duration;

use crate::disk::DiskStats;

/// What the engine has done and holds; counters only grow, gauges say what is true now.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// Counter: prompt tokens looked up in the prefix cache, once a call.
    pub prefix_queries: u64,
    /// Counter: prompt tokens found there.
    pub prefix_hits: u64,
    /// Counter: prompt tokens joined while another call computed them.
    pub prefix_joined: u64,
    /// Counter: prompt tokens that weren't there and would have been with twice the KV memory, at least.
    pub prefix_ghost_hits: u64,
    /// Counter: calls preempted.
    pub preemptions: u64,
    /// Counter: tokens that resumed calls had to compute again.
    pub recomputed_tokens: u64,
    /// Counter: prompt tokens computed or reused.
    pub prompt_tokens: u64,
    /// Counter: answer tokens.
    pub answer_tokens: u64,
    /// Counter: blocks evicted to make room, least recently used first.
    pub evicted_blocks: u64,
    /// Counter: blocks evicted to make room that a window had passed.
    pub evicted_window_blocks: u64,
    /// Counter: blocks dropped because their time was up.
    pub expired_blocks: u64,
    /// Counter: blocks dropped by a reset.
    pub reset_blocks: u64,
    /// The disk tier, where there is one.
    pub disk: Option<DiskStats>,
    /// Counter: bytes of the prompts' texts that were tokenised, where known beginnings could be used.
    pub text_bytes: u64,
    /// Counter: bytes of them whose tokens were known.
    pub known_text_bytes: u64,
    /// Gauge: calls that run.
    pub running: usize,
    /// Gauge: calls that wait, those that join included.
    pub waiting: usize,
    /// Gauge: of those that wait, calls that wait for a prefix that another one computes.
    pub joining: usize,
    /// Gauge: blocks in use by running calls or pins.
    pub blocks_used: usize,
    /// Gauge: blocks kept for reuse, in no call's use.
    pub blocks_cached: usize,
    /// Gauge: blocks that pins hold, each counted once.
    pub blocks_pinned: usize,
    /// Gauge: pins.
    pub pins: usize,
    /// Gauge: blocks in the pool.
    pub blocks_total: usize,
    /// Tokens of one block.
    pub block_tokens: usize,
    /// Bytes of one block.
    pub block_bytes: usize,
    /// Prefix-cache (tokens looked up, tokens hit) over the last 1,000 calls.
    pub recent: (u64, u64),
    /// How long the engine has run.
    pub uptime: Duration,
}

/// Looked-up and hit tokens of the last calls, for the hit rate that the log shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    calls: VecDeque<(u64, u64)>,
    totals: (u64, u64),
}

impl Recent {
    /// How many calls the rate covers.
    const CALLS: usize = 1000;

    pub(crate) fn add(&mut self, queries: u64, hits: u64) {
        self.calls.push_back((queries, hits));
        self.totals.0 += queries;
        self.totals.1 += hits;
        if self.calls.len() > Self::CALLS
            && let Some((queries, hits)) = self.calls.pop_front()
        {
            self.totals.0 -= queries;
            self.totals.1 -= hits;
        }
    }

    pub(crate) fn totals(&self) -> (u64, u64) {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_recent_rate_forgets_the_thousand_and_first_call() {
        let mut recent = Recent::default();
        recent.add(100, 0);
        for _ in 0..1000 {
            recent.add(10, 9);
        }
        assert_eq!(recent.totals(), (10_000, 9_000));
    }
}
