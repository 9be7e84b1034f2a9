//! The figures of a simulation.

use anyhow::Result;
use serde::Serialize;
use tapri_insight::simulate::{
    Counting, Curve, Hits, Replayed, Settings, Trace, belady, fifo, replay,
};

use super::files::Input;
use super::{SimulateArgs, capacity};
use crate::failure::Failure;
use crate::progress::Working;

/// All that is printed. Shares are fractions of the trace's prompt blocks or tokens.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    schema: &'static str,
    pub(super) trace: About,
    pub(super) counting: &'static str,
    pub(super) endless: Reused,
    pub(super) expiry: Vec<Expiry>,
    pub(super) capacities: Vec<At>,
    pub(super) target: Target,
}

#[derive(Debug, Serialize)]
pub(super) struct About {
    pub(super) format: &'static str,
    pub(super) files: usize,
    pub(super) calls: usize,
    pub(super) prompt_tokens: u64,
    pub(super) blocks: u64,
    pub(super) distinct_blocks: usize,
    pub(super) block_tokens: u64,
    pub(super) longest_call_blocks: usize,
    pub(super) seconds: f64,
    pub(super) broken: u64,
    pub(super) without_blocks: u64,
    pub(super) kv_bytes_per_token: Option<u64>,
}

/// What a cache reuses.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Reused {
    pub(super) block_hit: f64,
    pub(super) token_hit: f64,
    pub(super) blocks_saved: u64,
    pub(super) tokens_saved: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Expiry {
    pub(super) after_seconds: f64,
    #[serde(flatten)]
    pub(super) reused: Reused,
}

#[derive(Debug, Serialize)]
pub(super) struct At {
    pub(super) blocks: usize,
    pub(super) tokens: u64,
    pub(super) bytes: Option<u64>,
    /// By the one pass; absent below the longest call.
    pub(super) lru: Option<Reused>,
    /// Through the engine's cache.
    pub(super) replay: Reused,
    /// Calls larger than the cache.
    pub(super) too_large: u64,
    pub(super) fifo: Reused,
    pub(super) belady: Reused,
}

#[derive(Debug, Serialize)]
pub(super) struct Target {
    pub(super) share: f64,
    pub(super) blocks: usize,
    pub(super) tokens: u64,
    pub(super) bytes: Option<u64>,
    #[serde(flatten)]
    pub(super) reused: Reused,
}

pub(super) fn figures(args: &SimulateArgs, input: Input) -> Result<Figures> {
    let counting = Counting::from(args.count);
    let trace = &input.trace;
    let per_block = args.kv_bytes_per_token.map(|bytes| bytes * trace.block_tokens());
    let calls = trace.calls().len() as u64;
    let bar = Working::start("one pass over all capacities", calls);
    let curve = Curve::new(trace, counting, |done| bar.at(done as u64));
    drop(bar);
    let mut capacities = args
        .capacity
        .iter()
        .map(|capacity| capacity::in_blocks(*capacity, per_block))
        .collect::<Result<Vec<_>>>()?;
    if capacities.is_empty() {
        capacities = capacity::ladder(&curve);
    }
    capacities.sort_unstable();
    capacities.dedup();
    let run = Run { trace, counting, per_block };
    let bar = Working::start("replaying", calls * (args.ttl.len() + 3 * capacities.len()) as u64);
    let mut done = 0;
    let mut expiry = Vec::new();
    for ttl in &args.ttl {
        let settings = Settings { capacity: None, ttl: Some(*ttl), counting };
        let replayed = run.replay(settings, |at| bar.at(done + at as u64))?;
        done += calls;
        expiry.push(Expiry { after_seconds: ttl.as_secs_f64(), reused: run.reused(replayed.hits) });
    }
    let mut at = Vec::new();
    for blocks in capacities {
        let settings = Settings { capacity: Some(blocks), ttl: None, counting };
        let replayed = run.replay(settings, |at| bar.at(done + at as u64))?;
        let first_in = fifo(trace, counting, blocks);
        bar.at(done + 2 * calls);
        let best = belady(trace, counting, blocks);
        done += 3 * calls;
        bar.at(done);
        at.push(At {
            blocks,
            tokens: blocks as u64 * trace.block_tokens(),
            bytes: run.bytes(blocks),
            lru: curve.at(blocks).map(|hits| run.reused(hits)),
            replay: run.reused(replayed.hits),
            too_large: replayed.too_large,
            fifo: run.reused(first_in),
            belady: run.reused(best),
        });
    }
    let blocks = curve.capacity_for(args.target);
    Ok(Figures {
        schema: "tapri.simulate/1",
        trace: about(args, &input),
        counting: match counting {
            Counting::Listed => "listed",
            Counting::Engine => "engine",
        },
        endless: run.reused(curve.endless()),
        expiry,
        capacities: at,
        target: Target {
            share: args.target,
            blocks,
            tokens: blocks as u64 * trace.block_tokens(),
            bytes: run.bytes(blocks),
            reused: run.reused(curve.at(blocks).unwrap_or_default()),
        },
    })
}

fn about(args: &SimulateArgs, input: &Input) -> About {
    let trace = &input.trace;
    About {
        format: input.format.as_str(),
        files: input.files,
        calls: trace.calls().len(),
        prompt_tokens: trace.tokens(),
        blocks: trace.blocks(),
        distinct_blocks: trace.distinct(),
        block_tokens: trace.block_tokens(),
        longest_call_blocks: trace.longest(args.count.into()),
        seconds: trace.span().as_secs_f64(),
        broken: input.broken,
        without_blocks: input.without_blocks,
        kv_bytes_per_token: args.kv_bytes_per_token,
    }
}

struct Run<'a> {
    trace: &'a Trace,
    counting: Counting,
    per_block: Option<u64>,
}

impl Run<'_> {
    fn replay(&self, settings: Settings, tick: impl FnMut(usize)) -> Result<Replayed> {
        debug_assert_eq!(settings.counting, self.counting);
        let replayed = replay(self.trace, settings, tick);
        Ok(replayed.map_err(|error| Failure::new(error, None::<String>))?)
    }

    fn reused(&self, hits: Hits) -> Reused {
        let share =
            |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        Reused {
            block_hit: share(hits.blocks, self.trace.blocks()),
            token_hit: share(hits.tokens, self.trace.tokens()),
            blocks_saved: hits.blocks,
            tokens_saved: hits.tokens,
        }
    }

    fn bytes(&self, blocks: usize) -> Option<u64> {
        self.per_block.map(|bytes| bytes * blocks as u64)
    }
}
