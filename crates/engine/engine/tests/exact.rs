//! A hit changes nothing, over everything at once: models, instruction-set paths, threads, chunks, company, and the ways
//! in which a prefix comes to be there.
//!
//! The rounds of the first test are a matrix. Each plays one cell of it with random prompts; the first 24 have every pair
//! of model and path, and of path and chunk. `TAPRI_TEST_FOR=1m` runs the whole matrix and then goes on with other prompts for what is
//! left of the time. See `docs/exactness.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../../../../tests/effort.rs"]
mod effort;
mod support;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use effort::Random;
use support::{Answer, Seen, ask, config, finish, prompt, request, start, threads};
use tapri_engine::{Engine, EngineConfig, GenerateError, Isa, StartError, TokenId};
use tapri_gguf::Gguf;
use tapri_model::tiny::{TinyModel, TinyWeights};

const CHUNKS: [usize; 5] = [1, 7, 16, 100, 512];

/// Each model, path and chunk: their numbers have no common divisor on a machine with three paths, so that a number below
/// their product names a cell of each; and for each of them the four of threads and company.
const MATRIX: u64 = 4 * PLACES;
const PLACES: u64 = 8 * 3 * 5;

fn models() -> [TinyModel; 8] {
    [
        TinyModel::llama(),
        TinyModel::gemma3(),
        TinyModel::qwen2().weights(TinyWeights::Q8_0),
        TinyModel::qwen3(),
        TinyModel::llama3().weights(TinyWeights::Q5_0),
        TinyModel::gemma3().weights(TinyWeights::Mixed),
        TinyModel::llama().weights(TinyWeights::Q4_1),
        TinyModel::gemma3().weights(TinyWeights::Q8_0),
    ]
}

/// One cell of the matrix.
#[derive(Debug)]
struct Cell {
    round: u64,
    model: TinyModel,
    isa: Isa,
    threads: usize,
    chunk: usize,
    alone: bool,
}

impl Cell {
    fn of(round: u64) -> Cell {
        let (place, turn) = (round % PLACES, round / PLACES % 4);
        let mixed = Random::new(place).next() ^ turn;
        let place = place as usize;
        let isas = Isa::available();
        Cell {
            round,
            model: models()[place % 8].clone(),
            isa: isas[place % 3 % isas.len()],
            threads: 1 + (mixed & 1) as usize,
            chunk: CHUNKS[place % 5],
            alone: mixed & 2 == 0,
        }
    }

    fn config(&self) -> EngineConfig {
        EngineConfig {
            threads: threads(self.threads),
            chunk: NonZeroUsize::new(self.chunk).unwrap(),
            isa: Some(self.isa),
            ..config()
        }
    }

    /// Reads every prompt alone, in one chunk, on one thread, and reuses nothing.
    fn reference(&self) -> Engine {
        start(
            &self.model,
            EngineConfig {
                threads: threads(1),
                prefix_cache: false,
                chunk: NonZeroUsize::new(4096).unwrap(),
                ..self.config()
            },
        )
    }
}

/// Answers of an engine to prompts, side by side or one after another.
fn answers(
    engine: &Engine,
    alone: bool,
    prompts: &[Vec<TokenId>],
    max_tokens: usize,
) -> Vec<Answer> {
    let request = |prompt: &Vec<TokenId>| request(prompt.clone(), max_tokens);
    if alone {
        return prompts.iter().map(|prompt| ask(engine, request(prompt))).collect();
    }
    let calls: Vec<_> = prompts.iter().map(|p| engine.submit(request(p)).unwrap()).collect();
    calls.into_iter().map(|call| finish(call).unwrap()).collect()
}

/// Up to 16 prompts of mixed lengths, some of which begin as others do.
fn prompts(random: &mut Random, count: usize) -> Vec<Vec<TokenId>> {
    let mut all: Vec<Vec<TokenId>> = Vec::new();
    for _ in 0..count {
        let mut tokens = Vec::new();
        if !all.is_empty() && !random.one_in(3) {
            let other = random.below(all.len());
            let shared = random.within(1, all[other].len());
            tokens.extend_from_slice(&all[other][..shared]);
        }
        let own = if random.one_in(4) { random.within(60, 160) } else { random.within(1, 50) };
        tokens.extend(prompt(own, random.next() as u32));
        all.push(tokens);
    }
    all
}

/// The memory in which a call of so many tokens has all that it may need, in all groups of layers: the engine names it
/// when it has less.
fn memory_for(cell: &Cell, tokens: usize) -> u64 {
    let none = EngineConfig { kv_memory: 0, ..cell.config() };
    let least = match Engine::start_from(&cell.model.gguf(), PathBuf::from("tiny"), none) {
        Err(StartError::KvMemory { least, .. }) => least,
        other => panic!("{other:?}"),
    };
    let engine = start(&cell.model, EngineConfig { kv_memory: least, ..cell.config() });
    let block = engine.stats().block_bytes as u64;
    match finish(engine.submit(request(prompt(tokens, 1), 1)).unwrap()) {
        Ok(_) => least,
        Err(GenerateError::ExceedsKvBudget { needed, .. }) => (1 + needed as u64) * block,
        Err(error) => panic!("{error}"),
    }
}

/// What a round has come across, for the test to know that it is about something.
#[derive(Debug, Default)]
struct Met {
    hits: u64,
    joined: u64,
    evicted: u64,
    preempted: u64,
}

fn expect(cell: &Cell, what: &str, answers: &[Answer], expected: &[Seen]) {
    assert_eq!(answers.len(), expected.len());
    for (at, (answer, expected)) in answers.iter().zip(expected).enumerate() {
        assert_eq!(
            &answer.seen(),
            expected,
            "round {}, {what}, prompt {at}: {cell:#?}",
            cell.round
        );
    }
}

fn play(round: u64) -> (Cell, Met) {
    let cell = Cell::of(round);
    let mut random = Random::new(round);
    let random = &mut random;
    let company = if cell.alone { 2 } else { random.within(2, 16) };
    let texts = prompts(random, company);
    let reference = cell.reference();
    let read = |texts: &[Vec<TokenId>], max_tokens| -> Vec<Seen> {
        answers(&reference, true, texts, max_tokens).iter().map(Answer::seen).collect()
    };
    let expected = read(&texts, 8);

    // Cold, and, where they begin alike, joined while they are written; then warm.
    let engine = start(&cell.model, cell.config());
    expect(&cell, "cold", &answers(&engine, cell.alone, &texts, 8), &expected);
    let warm = answers(&engine, cell.alone, &texts, 8);
    expect(&cell, "warm", &warm, &expected);
    for (text, answer) in texts.iter().zip(&warm) {
        assert_eq!(answer.admitted.cached_tokens, (text.len() - 1) / 16 * 16, "{cell:#?}");
    }

    // Partly warm: they leave what is there anywhere.
    let other: Vec<Vec<TokenId>> = texts
        .iter()
        .map(|text| {
            let mut text = text[..random.within(0, text.len())].to_vec();
            text.extend(prompt(random.within(1, 60), random.next() as u32));
            text
        })
        .collect();
    let expected_other = read(&other, 8);
    expect(&cell, "partly warm", &answers(&engine, cell.alone, &other, 8), &expected_other);
    let roomy = engine.stats();

    // In a memory that has hardly more than the largest call needs: what was read is evicted and read again, and who
    // joins may have to give way.
    let longest = texts.iter().chain(&other).map(Vec::len).max().unwrap();
    let need = memory_for(&cell, longest + 8);
    let kv_memory = need + random.next() % need;
    let engine = start(&cell.model, EngineConfig { kv_memory, ..cell.config() });
    for what in ["in a small memory", "read again after eviction"] {
        expect(&cell, what, &answers(&engine, cell.alone, &texts, 8), &expected);
        expect(&cell, what, &answers(&engine, cell.alone, &other, 8), &expected_other);
    }
    let tight = engine.stats();
    assert_eq!(tight.blocks_used, 0, "{cell:#?}");

    let mut met = Met {
        hits: roomy.prefix_hits,
        joined: roomy.prefix_joined + tight.prefix_joined,
        evicted: tight.evicted_blocks + tight.evicted_window_blocks,
        preempted: tight.preemptions,
    };
    if !cell.alone && random.one_in(2) {
        met.preempted += preempted(&cell, random, &reference);
    }
    (cell, met)
}

/// Unrelated prompts whose answers outgrow the memory: calls are preempted, go on, and hit nothing.
fn preempted(cell: &Cell, random: &mut Random, reference: &Engine) -> u64 {
    // Room for 256 tokens of an answer is kept from the start.
    const TOKENS: usize = 256 + 64;
    let texts: Vec<_> =
        (0..3).map(|_| prompt(random.within(20, 60), random.next() as u32)).collect();
    let expected: Vec<Seen> =
        answers(reference, true, &texts, TOKENS).iter().map(Answer::seen).collect();
    let kv_memory = texts[..2].iter().map(|text| memory_for(cell, text.len() + 256)).sum();
    let engine = start(&cell.model, EngineConfig { kv_memory, ..cell.config() });
    expect(cell, "preempted", &answers(&engine, false, &texts, TOKENS), &expected);
    let stats = engine.stats();
    assert_eq!((stats.prefix_hits, stats.prefix_joined), (0, 0), "own blocks are no hits");
    assert_eq!((stats.recent.1, stats.blocks_used), (0, 0), "{cell:#?}");
    stats.preemptions
}

#[test]
fn the_matrix() {
    // Models with sliding windows, and others.
    let mut met: BTreeMap<bool, Met> = BTreeMap::new();
    let mut rounds = 0;
    for round in effort::rounds(24, MATRIX) {
        let (cell, one) = play(round);
        rounds += 1;
        let sum = met.entry(cell.model.window > 0).or_default();
        sum.hits += one.hits;
        sum.joined += one.joined;
        sum.evicted += one.evicted;
        sum.preempted += one.preempted;
    }
    println!("{rounds} rounds, by whether there are sliding windows: {met:#?}");
    if rounds >= 24 {
        for (windows, met) in &met {
            let Met { hits, joined, evicted, preempted } = met;
            let all = [hits, joined, evicted, preempted];
            assert!(all.iter().all(|&&met| met > 0), "windows {windows}: not all was met: {met:?}");
        }
    }
}

/// A bounded sample of the same on the two real models.
fn real(name: &str) {
    let path = tapri_registry::test_model(name);
    let start = |isa: Isa, n: usize, chunk: usize, prefix_cache: bool| {
        let config = EngineConfig {
            threads: threads(n),
            chunk: NonZeroUsize::new(chunk).unwrap(),
            isa: Some(isa),
            prefix_cache,
            kv_memory: 256 << 20,
            ..config()
        };
        Engine::start_from(&Gguf::open(&path).unwrap(), PathBuf::from(name), config).unwrap()
    };
    let mut random = Random::new(1);
    // The portable path would take minutes.
    for isa in Isa::available().into_iter().filter(|isa| *isa != Isa::Scalar) {
        let reference = start(isa, 1, 4096, false);
        let shared = prompt(100, 7);
        let texts: Vec<Vec<TokenId>> = (0..4)
            .map(|at| {
                let mut text = if at == 3 { Vec::new() } else { shared.clone() };
                text.extend(prompt(random.within(3, 40), random.next() as u32));
                text
            })
            .collect();
        let expected: Vec<Seen> =
            answers(&reference, true, &texts, 6).iter().map(Answer::seen).collect();
        drop(reference);
        let narrow = (isa == Isa::best()).then_some((1, 7));
        for (n, chunk) in std::iter::once((2, 512)).chain(narrow) {
            let engine = start(isa, n, chunk, true);
            for what in ["cold and joined", "warm"] {
                for (at, answer) in answers(&engine, false, &texts, 6).iter().enumerate() {
                    let said = format!("{name}, {isa}, {n} threads, chunk {chunk}, {what}, {at}");
                    assert_eq!(answer.seen(), expected[at], "{said}");
                }
            }
            let stats = engine.stats();
            // Three begin alike, and all come again.
            assert!(stats.prefix_joined + stats.prefix_hits >= 5 * 96, "{stats:?}");
        }
    }
}

#[test]
fn smollm2() {
    real("smollm2");
}

#[test]
fn gemma() {
    real("gemma-3-270m");
}
