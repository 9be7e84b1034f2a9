//! Counters and gauges, as one snapshot.

use std::time::Duration;

/// What the engine has done and holds; counters only grow, gauges say what is true now.
#[derive(Debug, Clone, Default)]
pub struct EngineStats {
    /// Counter: prompt tokens looked up in the prefix cache, once a call.
    pub prefix_queries: u64,
    /// Counter: prompt tokens found there.
    pub prefix_hits: u64,
    /// Counter: prompt tokens joined while another call computed them.
    pub prefix_joined: u64,
    /// Counter: calls preempted.
    pub preemptions: u64,
    /// Counter: prompt tokens computed or reused.
    pub prompt_tokens: u64,
    /// Counter: answer tokens.
    pub answer_tokens: u64,
    /// Counter: blocks evicted to make room.
    pub evicted_blocks: u64,
    /// Counter: blocks dropped because their time was up.
    pub expired_blocks: u64,
    /// Counter: blocks dropped by a reset.
    pub reset_blocks: u64,
    /// Gauge: calls that run.
    pub running: usize,
    /// Gauge: calls that wait.
    pub waiting: usize,
    /// Gauge: blocks in use by running calls.
    pub blocks_used: usize,
    /// Gauge: blocks kept for reuse, in no call's use.
    pub blocks_cached: usize,
    /// Gauge: blocks in the pool.
    pub blocks_total: usize,
    /// Bytes of one block.
    pub block_bytes: usize,
    /// Prefix-cache (tokens looked up, tokens hit) over the last 1,000 calls.
    pub recent: (u64, u64),
    /// How long the engine has run.
    pub uptime: Duration,
}
