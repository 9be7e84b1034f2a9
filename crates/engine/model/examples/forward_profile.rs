//! Times the forward pass of one model and says where the time goes.
//!
//! ```text
//! cargo run --release -p tapri-model --features profile --example forward_profile -- MODEL.gguf DEPTH [THREADS] [--lora RANK]
//! ```
//!
//! Five measurements: a prompt of 512 tokens; reading DEPTH tokens; 64 tokens at that depth with the last one's logits; one token
//! at that depth; one token of each of eight sequences that share what was read. Token ids are arbitrary, since time does not depend on them.
//!
//! With `--lora RANK` what a LoRA adapter costs instead: one of random numbers with that rank for every matrix of the layers, the
//! prompt, the 64 tokens and the one token measured in turn without and with it.
#![allow(clippy::print_stdout, reason = "a measuring program")]

use std::time::{Duration, Instant};

use tapri_gguf::{Gguf, TokenId};
use tapri_kernels::{Compute, Isa, KvStore};
use tapri_model::tiny::TinyAdapter;
use tapri_model::{Adapter, LogitsWanted, Model, Scratch, SequenceBatch, Stage};

const CHUNK: usize = 512;
const BLOCK_TOKENS: usize = 16;
/// Sequences over one start.
const USERS: usize = 8;
/// Blocks of each one's own.
const OWN_BLOCKS: usize = 4;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A model with one sequence.
struct Run<'a> {
    model: &'a Model,
    compute: &'a Compute,
    store: KvStore,
    scratch: Scratch,
    tables: Vec<Vec<u32>>,
    logits: Vec<f32>,
    adapter: Option<Adapter>,
    /// Whether it is applied.
    adapted: bool,
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
            let adapter = self.adapter.as_ref().filter(|_| self.adapted);
            let batch = [SequenceBatch { tokens, start, blocks: &blocks, logits, adapter }];
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
        self.print(what, count, taken);
        Ok(())
    }

    /// Medians without the adapter and with it, in turn.
    fn compare(&mut self, what: &str, start: usize, count: usize, times: usize) -> Outcome<()> {
        let mut taken = [Vec::new(), Vec::new()];
        for _ in 0..times {
            for (adapted, taken) in [false, true].into_iter().zip(&mut taken) {
                self.adapted = adapted;
                taken.push(self.read(start, count)?);
            }
        }
        self.adapted = false;
        let median = |mut taken: Vec<Duration>| {
            taken.sort_unstable();
            taken[times / 2].as_secs_f64() * 1e3
        };
        let [plain, adapted] = taken.map(median);
        println!("{what}: {plain:.2} ms, with the adapter {adapted:.2} ms: {:.3}", adapted / plain);
        Ok(())
    }

    /// One token of each user, after the same start of `depth` tokens in the same blocks.
    fn measure_crowd(&mut self, depth: usize, times: usize) -> Outcome<()> {
        let start = depth.div_ceil(BLOCK_TOKENS);
        let own = self.tables.len() * self.tables[0].len();
        // By user, then by group: the blocks of its own stand behind those of the one sequence.
        let mut tables = Vec::new();
        for user in 0..USERS {
            for (group, table) in self.tables.iter().enumerate() {
                let first = 1 + own + (user * self.tables.len() + group) * OWN_BLOCKS;
                let own = (first..first + OWN_BLOCKS).map(|block| block as u32);
                tables.push(table[..start].iter().copied().chain(own).collect::<Vec<u32>>());
            }
        }
        let blocks: Vec<&[u32]> = tables.iter().map(Vec::as_slice).collect();
        let tokens: Vec<TokenId> = (0..USERS).map(|user| TokenId(user as u32 + 10)).collect();
        self.scratch.reset_profile();
        let mut taken = Vec::new();
        for step in 0..times {
            let batch: Vec<SequenceBatch<'_>> = blocks
                .chunks(self.tables.len())
                .zip(tokens.chunks(1))
                .map(|(blocks, tokens)| SequenceBatch {
                    tokens,
                    start: start * BLOCK_TOKENS + step,
                    blocks,
                    logits: LogitsWanted::Last,
                    adapter: None,
                })
                .collect();
            let begin = Instant::now();
            let (scratch, logits) = (&mut self.scratch, &mut self.logits);
            self.model.forward(self.compute, scratch, &mut self.store, &batch, logits)?;
            taken.push(begin.elapsed());
        }
        self.print(&format!("{USERS} sequences over one start of {depth}"), USERS, taken);
        Ok(())
    }

    fn print(&self, what: &str, count: usize, mut taken: Vec<Duration>) {
        taken.sort_unstable();
        let times = taken.len();
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
    }
}

fn main() -> Outcome<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let lora = arguments.iter().position(|it| it == "--lora");
    let lora: Option<usize> = match lora.map(|at| arguments.drain(at..).nth(1)) {
        Some(rank) => Some(rank.ok_or("--lora RANK")?.parse()?),
        None => None,
    };
    let mut arguments = arguments.into_iter();
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
    let own = groups as usize * USERS * OWN_BLOCKS;
    let store = KvStore::new(plan.layout, (1 + groups * per_group) as usize + own)?;
    let (scratch, logits) = (Scratch::new(), Vec::new());
    let adapter = match lora {
        Some(rank) => {
            let file = TinyAdapter { rank, ..TinyAdapter::of(model.config()) }.gguf();
            let adapter = Adapter::load(&file, &model, &compute)?;
            println!("adapter of rank {rank}: {} bytes", adapter.bytes());
            Some(adapter)
        }
        None => None,
    };
    let adapted = false;
    let mut run =
        Run { model: &model, compute: &compute, store, scratch, tables, logits, adapter, adapted };

    run.read(0, CHUNK)?;
    if lora.is_some() {
        run.read(0, depth)?;
        run.compare("prompt of 512", 0, CHUNK, 9)?;
        run.read(0, depth)?;
        run.compare(&format!("64 tokens at {depth}"), depth, 64, 9)?;
        return run.compare(&format!("1 token at {depth}"), depth, 1, 33);
    }
    run.measure("prompt of 512", 0, CHUNK, 9)?;
    run.measure(&format!("prompt of {depth}, memory untouched"), 0, depth, 1)?;
    run.measure(&format!("prompt of {depth} again"), 0, depth, 1)?;
    run.measure(&format!("64 tokens at {depth}"), depth, 64, 9)?;
    run.measure(&format!("1 token at {depth}"), depth, 1, 33)?;
    run.measure_crowd(depth, 33)?;
    Ok(())
}
