//! Counters and gauges of a backend, as one snapshot.

use tapri_engine::DiskStats;

/// What a backend has done and holds. Counters only grow; gauges say what is true now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackendStats {
    /// Counter: prompt tokens looked up in the prefix cache, once a call.
    pub prefix_queries: u64,
    /// Counter: prompt tokens found there.
    pub prefix_hits: u64,
    /// Counter: prompt tokens that one call computed and another waited for.
    pub prefix_joined: u64,
    /// Counter: prompt tokens that weren't there and would have been with twice the KV memory, at least: counted on the
    /// list of evicted blocks.
    pub prefix_ghost_hits: u64,
    /// Counter: calls preempted.
    pub preemptions: u64,
    /// Counter: prompt tokens, reused or computed.
    pub prompt_tokens: u64,
    /// Counter: answer tokens.
    pub answer_tokens: u64,
    /// Counter: tokens that preempted calls had to compute again.
    pub recomputed_tokens: u64,
    /// Counter: KV blocks evicted to make room, least recently used first.
    pub evicted_blocks: u64,
    /// Counter: KV blocks evicted to make room that a window had passed.
    pub evicted_window_blocks: u64,
    /// Counter: KV blocks dropped because their time was up.
    pub expired_blocks: u64,
    /// Counter: KV blocks dropped by a reset.
    pub reset_blocks: u64,
    /// The KV blocks on disk, where there is a disk tier.
    pub disk: Option<DiskStats>,
    /// Counter: bytes of the prompts' texts that were tokenised, where known beginnings could be used.
    pub text_bytes: u64,
    /// Counter: bytes of them whose tokens were known from an earlier prompt.
    pub known_text_bytes: u64,
    /// Gauge: calls that run.
    pub running: usize,
    /// Gauge: calls that wait, those that join included.
    pub waiting: usize,
    /// Gauge: of those that wait, calls that wait for a prefix that another one computes.
    pub joining: usize,
    /// Gauge: KV blocks that running calls use, or pins hold.
    pub blocks_used: usize,
    /// Gauge: KV blocks kept for reuse, in no call's use.
    pub blocks_cached: usize,
    /// Gauge: KV blocks that pins hold, each counted once.
    pub blocks_pinned: usize,
    /// Gauge: pins.
    pub pins: usize,
    /// Gauge: KV blocks in the pool.
    pub blocks_total: usize,
    /// Tokens of one KV block; 0 where that isn't known.
    pub block_tokens: usize,
    /// Bytes of one KV block.
    pub block_bytes: usize,
    /// Prompt tokens looked up by the last 1,000 calls.
    pub recent_queries: u64,
    /// Of those, tokens found.
    pub recent_hits: u64,
}
