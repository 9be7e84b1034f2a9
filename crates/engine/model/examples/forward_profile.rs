//! Times the forward pass of one model and says where the time goes.
//!
//! ```text
//! cargo run --release -p tapri-model --features profile --example forward_profile -- MODEL.gguf DEPTH [THREADS]
//! ```
//!
//! Four measurements: a prompt of 512 tokens; reading DEPTH tokens; 64 tokens at that depth with the last one's logits; one token
//! at that depth. Token ids are arbitrary, since time does not depend on them.
#![allow(clippy::print_stdout, reason = "a measuring program")]

use std::time::{Duration, Instant};

use tapri_gguf::{Gguf, TokenId};
use tapri_kernels::{Compute, Isa, KvStore};
use tapri_model::{LogitsWanted, Model, Scratch, SequenceBatch, Stage};

const CHUNK: usize = 512;
const BLOCK_TOKENS: usize = 16;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A model with one sequence.
struct Run<'a> {
    model: &'a Model,
    compute: &'a Compute,
    store: KvStore,
    scratch: Scratch,
    tables: Vec<Vec<u32>>,
    logits: Vec<f32>,
}

impl Run<'_> {
    /// Computes `count` tokens from `start` on, and the last one's logits.
    fn read(&mut self, start: usize, count: usize) -> Outcome<Duration> {
        let vocab = self.model.config().vocab_size;
        let tokens: Vec<TokenId> =
            (start..start + count).map(|i| TokenId((i * 7919 % vocab) as u32)).collect();
        let blocks: Vec<&[u32]> = self.tables.iter().map(Vec::as_slice).collect();
        let begin = Instant::now();
        for (index, tokens) in tokens.chunks(CHUNK).enumerate() {
            let last = (index + 1) * CHUNK >= count;
            let logits = if last { LogitsWanted::Last } else { LogitsWanted::None };
            let start = start + index * CHUNK;
            let batch = [SequenceBatch { tokens, start, blocks: &blocks, logits, adapter: None }];
            let (scratch, logits) = (&mut self.scratch, &mut self.logits);
            self.model.forward(self.compute, scratch, &mut self.store, &batch, logits)?;
        }
        Ok(begin.elapsed())
    }

    /// The median of some repetitions, and the stages of all of them.
    fn measure(&mut self, what: &str, start: usize, count: usize, times: usize) -> Outcome<()> {
        self.scratch.reset_profile();
        let mut taken = Vec::new();
        for _ in 0..times {
            taken.push(self.read(start, count)?);
        }
        taken.sort_unstable();
        let median = taken[times / 2];
        println!(
            "{what}: {:.2} ms (fastest {:.2}), {:.0} tokens/s",
            median.as_secs_f64() * 1e3,
            taken[0].as_secs_f64() * 1e3,
            count as f64 / median.as_secs_f64(),
        );
        let profile = self.scratch.profile();
        for stage in Stage::ALL {
            let time = profile.time(stage).as_secs_f64() * 1e3 / times as f64;
            println!("    {:<16} {time:>9.3} ms", format!("{stage:?}"));
        }
        Ok(())
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: forward_profile MODEL.gguf DEPTH [THREADS]")?;
    let depth: usize = arguments.next().ok_or("how deep?")?.parse()?;
    let threads: usize = arguments.next().map_or(Ok(2), |n| n.parse())?;
    let compute = Compute::new(Isa::from_env()?, threads);

    let begin = Instant::now();
    let gguf = Gguf::open(&path)?;
    let model = Model::load(&gguf, &compute)?;
    println!("load: {:.0} ms", begin.elapsed().as_secs_f64() * 1e3);
    let begin = Instant::now();
    let fingerprint = Model::load(&gguf, &compute)?.fingerprint();
    println!(
        "load again: {:.0} ms ({:02x?})",
        begin.elapsed().as_secs_f64() * 1e3,
        &fingerprint[..4]
    );

    let length = (depth + 64).max(CHUNK);
    let plan = model.kv_plan(BLOCK_TOKENS);
    let per_group = length.div_ceil(BLOCK_TOKENS) as u32;
    let groups = plan.groups.len() as u32;
    let tables = (0..groups).map(|g| (1 + g * per_group..=(g + 1) * per_group).collect()).collect();
    let store = KvStore::new(plan.layout, (1 + groups * per_group) as usize)?;
    let (scratch, logits) = (Scratch::new(), Vec::new());
    let mut run = Run { model: &model, compute: &compute, store, scratch, tables, logits };

    run.read(0, CHUNK)?;
    run.measure("prompt of 512", 0, CHUNK, 9)?;
    run.measure(&format!("prompt of {depth}, memory untouched"), 0, depth, 1)?;
    run.measure(&format!("prompt of {depth} again"), 0, depth, 1)?;
    run.measure(&format!("64 tokens at {depth}"), depth, 64, 9)?;
    run.measure(&format!("1 token at {depth}"), depth, 1, 33)?;
    Ok(())
}
