//! The figures of a simulation.

use std::num::NonZeroUsize;

use anyhow::Result;
use serde::Serialize;
use tapri_insight::simulate::{
    Counting, Curve, Hits, Replayed, Settings, Trace, belady, fifo, replay,
};

use super::files::Input;
use super::model::Work;
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
    /// Least recently used, by the one pass.
    pub(super) curve: Vec<Point>,
}

/// A point of the curve.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    pub(super) blocks: usize,
    pub(super) token_hit: f64,
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
    /// Layers of the model that slide a window: its KV bytes are an upper estimate.
    pub(super) window_layers: usize,
    pub(super) prefill_tokens_per_second: Option<usize>,
}

/// What a cache reuses.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Reused {
    pub(super) block_hit: f64,
    pub(super) token_hit: f64,
    pub(super) blocks_saved: u64,
    pub(super) tokens_saved: u64,
    /// Share of the pairs of tokens that attention would have gone through.
    pub(super) attention_saved: f64,
    /// Share of the prefill's multiplications, an estimate; absent without a model. It lies between the two shares above.
    pub(super) prefill_saved: Option<f64>,
    /// Time of reading those tokens, an estimate; absent without a rate.
    pub(super) prefill_seconds_saved: Option<f64>,
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
    /// The same, forgetting what was not used for so long.
    pub(super) expiry: Vec<Expiry>,
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
    let work = args.model.as_ref().map(|model| Work::of(model, args.kv_type)).transpose()?;
    let per_token = work.map(|work| work.kv_bytes_per_token).or(args.kv_bytes_per_token);
    let per_block = per_token.map(|bytes| bytes * trace.block_tokens());
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
    let rate = args.prefill_rate.map(NonZeroUsize::get);
    let run = Run { trace, pairs: trace.pairs(), counting, per_block, work, rate };
    let bar = Working::start(
        "replaying",
        calls * (args.ttl.len() + (3 + args.ttl.len()) * capacities.len()) as u64,
    );
    let mut done = 0;
    let expiries = |capacity: Option<usize>, done: &mut u64| -> Result<Vec<Expiry>> {
        let mut expiries = Vec::new();
        for ttl in &args.ttl {
            let settings = Settings { capacity, ttl: Some(*ttl), counting };
            let replayed = run.replay(settings, |at| bar.at(*done + at as u64))?;
            *done += calls;
            let reused = run.reused(replayed.hits);
            expiries.push(Expiry { after_seconds: ttl.as_secs_f64(), reused });
        }
        Ok(expiries)
    };
    let expiry = expiries(None, &mut done)?;
    let mut at = Vec::new();
    for blocks in capacities {
        let settings = Settings { capacity: Some(blocks), ttl: None, counting };
        let replayed = run.replay(settings, |at| bar.at(done + at as u64))?;
        let first_in = fifo(trace, counting, blocks);
        bar.at(done + 2 * calls);
        let best = belady(trace, counting, blocks);
        done += 3 * calls;
        let expiry = expiries(Some(blocks), &mut done)?;
        at.push(At {
            blocks,
            tokens: blocks as u64 * trace.block_tokens(),
            bytes: run.bytes(blocks),
            lru: curve.at(blocks).map(|hits| run.reused(hits)),
            replay: run.reused(replayed.hits),
            too_large: replayed.too_large,
            expiry,
            fifo: run.reused(first_in),
            belady: run.reused(best),
        });
    }
    let blocks = curve.capacity_for(args.target);
    Ok(Figures {
        schema: "tapri.simulate/1",
        trace: About {
            kv_bytes_per_token: per_token,
            window_layers: work.map_or(0, |work| work.window_layers),
            ..about(args, &input)
        },
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
        curve: points(&curve)
            .into_iter()
            .filter_map(|blocks| {
                let token_hit = run.reused(curve.at(blocks)?).token_hit;
                Some(Point { blocks, token_hit })
            })
            .collect(),
    })
}

/// Capacities in equal ratios from the curve's one end to the other.
fn points(curve: &Curve) -> Vec<usize> {
    const STEPS: i32 = 60;
    let (low, high) = (curve.smallest().max(1), curve.largest().max(1));
    let ratio = (high as f64 / low as f64).powf(1.0 / f64::from(STEPS));
    let mut points: Vec<usize> =
        (0..STEPS).map(|step| (low as f64 * ratio.powi(step)) as usize).collect();
    points.push(high);
    points.dedup();
    points
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
        kv_bytes_per_token: None,
        window_layers: 0,
        prefill_tokens_per_second: args.prefill_rate.map(NonZeroUsize::get),
    }
}

struct Run<'a> {
    trace: &'a Trace,
    /// Attention pairs of all prompts.
    pairs: u64,
    counting: Counting,
    per_block: Option<u64>,
    work: Option<Work>,
    rate: Option<usize>,
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
            attention_saved: share(hits.pairs, self.pairs),
            prefill_saved: self.work.map(|work| {
                work.share((hits.tokens, hits.pairs), (self.trace.tokens(), self.pairs))
            }),
            prefill_seconds_saved: self.rate.map(|rate| hits.tokens as f64 / rate as f64),
        }
    }

    fn bytes(&self, blocks: usize) -> Option<u64> {
        self.per_block.map(|bytes| bytes * blocks as u64)
    }
}
