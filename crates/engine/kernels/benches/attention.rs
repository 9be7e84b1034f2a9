//! Attention of one layer over a long prompt, pages permuted: chunks of a cold read, questions on a hit, decoding; and the
//! decoding of eight sequences, over one start in the same pages and over copies of it.
//!
//! `cargo bench -p tapri-kernels --bench attention`. Throughput is in floating-point operations (4 per row, key and dimension) for
//! prefill and in bytes of keys and values, counted as bf16, for decoding.

#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tapri_kernels::{
    AttnScratch, Compute, Isa, KvLayout, KvStore, KvType, SeqRows, attention, write_kv,
};

struct Case {
    name: &'static str,
    q_heads: usize,
    kv_heads: usize,
    head_dim: usize,
    window: Option<usize>,
    rows: usize,
    start: usize,
}

const CASES: [Case; 9] = [
    Case {
        name: "hd256_512_at_30208",
        q_heads: 4,
        kv_heads: 1,
        head_dim: 256,
        window: None,
        rows: 512,
        start: 30_208,
    },
    Case {
        name: "hd256_64_at_30681",
        q_heads: 4,
        kv_heads: 1,
        head_dim: 256,
        window: None,
        rows: 64,
        start: 30_681,
    },
    Case {
        name: "hd256_20_at_30700",
        q_heads: 4,
        kv_heads: 1,
        head_dim: 256,
        window: None,
        rows: 20,
        start: 30_700,
    },
    Case {
        name: "hd256_decode_at_30745",
        q_heads: 4,
        kv_heads: 1,
        head_dim: 256,
        window: None,
        rows: 1,
        start: 30_745,
    },
    Case {
        name: "hd256_window512_512",
        q_heads: 4,
        kv_heads: 1,
        head_dim: 256,
        window: Some(512),
        rows: 512,
        start: 30_208,
    },
    Case {
        name: "hd256_window512_decode",
        q_heads: 4,
        kv_heads: 1,
        head_dim: 256,
        window: Some(512),
        rows: 1,
        start: 30_745,
    },
    Case {
        name: "hd64_512_at_7680",
        q_heads: 9,
        kv_heads: 3,
        head_dim: 64,
        window: None,
        rows: 512,
        start: 7_680,
    },
    Case {
        name: "hd64_20_at_7680",
        q_heads: 9,
        kv_heads: 3,
        head_dim: 64,
        window: None,
        rows: 20,
        start: 7_680,
    },
    Case {
        name: "hd64_decode_at_8000",
        q_heads: 9,
        kv_heads: 3,
        head_dim: 64,
        window: None,
        rows: 1,
        start: 8_000,
    },
];

/// Enough variety for the arithmetic not to be special; the values do not matter.
fn noise(n: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn paged(case: &Case, kv_type: KvType, compute: &Compute) -> (KvStore, Vec<u32>) {
    let layout = KvLayout {
        layers_per_block: 1,
        kv_heads: case.kv_heads,
        head_dim: case.head_dim,
        block_tokens: 16,
        kv_type,
    };
    let tokens = case.start + case.rows;
    let blocks = tokens.div_ceil(16);
    let mut store = KvStore::new(layout, blocks + 1).unwrap();
    // 7919 is prime, so this visits each block once unless their number is a multiple of it.
    let table: Vec<u32> = (0..blocks).map(|i| (i * 7919 % blocks) as u32 + 1).collect();
    let kv = noise(tokens * case.kv_heads * case.head_dim);
    write_kv(
        compute,
        &mut store,
        0,
        &[SeqRows { first_row: 0, rows: tokens, start: 0, blocks: &table }],
        &kv,
        &kv,
    );
    (store, table)
}

fn bench(c: &mut Criterion) {
    let isa = Isa::from_env().unwrap();
    for (kv_type, threads) in KvType::ALL.into_iter().flat_map(|kind| [(kind, 1), (kind, 2)]) {
        let compute = Compute::new(isa, threads);
        let mut group = c.benchmark_group(format!("attention/{isa}/{kv_type}/{threads}"));
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1));
        for case in &CASES {
            let (store, table) = paged(case, kv_type, &compute);
            let q = noise(case.rows * case.q_heads * case.head_dim);
            let mut out = vec![0.0; q.len()];
            let mut scratch = AttnScratch::new();
            let keys = |row: usize| (case.start + row + 1).min(case.window.unwrap_or(usize::MAX));
            let sum: usize = (0..case.rows).map(keys).sum();
            group.throughput(if case.rows == 1 {
                Throughput::Bytes((keys(0) * case.kv_heads * case.head_dim * 4) as u64)
            } else {
                Throughput::Elements((4 * sum * case.q_heads * case.head_dim) as u64)
            });
            group.bench_function(case.name, |b| {
                let rows =
                    [SeqRows { first_row: 0, rows: case.rows, start: case.start, blocks: &table }];
                let scale = 1.0 / (case.head_dim as f32).sqrt();
                b.iter(|| {
                    let q = black_box(&q);
                    attention(
                        &compute,
                        &store,
                        0,
                        &rows,
                        q,
                        case.q_heads,
                        case.window,
                        scale,
                        &mut scratch,
                        &mut out,
                    );
                });
            });
        }
        group.finish();
    }
}

/// Sequences that decode together, each with a few tokens of its own.
struct Crowd {
    name: &'static str,
    q_heads: usize,
    kv_heads: usize,
    head_dim: usize,
    sequences: usize,
    start: usize,
    own: usize,
    /// Whether all hold their start in the same pages.
    shared: bool,
}

impl Crowd {
    /// The shapes of gemma-3-270m and smollm2, shared and not, and one sequence alone.
    fn all() -> Vec<Crowd> {
        let mut all = Vec::new();
        for (head_dim, q_heads, names) in [
            (256, 4, ["hd256_alone", "hd256_8_apart", "hd256_8_shared"]),
            (64, 3, ["hd64_alone", "hd64_8_apart", "hd64_8_shared"]),
        ] {
            for (name, sequences, shared) in
                [(names[0], 1, false), (names[1], 8, false), (names[2], 8, true)]
            {
                let kv_heads = 1;
                all.push(Crowd {
                    name,
                    q_heads,
                    kv_heads,
                    head_dim,
                    sequences,
                    start: 30_000,
                    own: 64,
                    shared,
                });
            }
        }
        all
    }

    fn paged(&self, compute: &Compute) -> (KvStore, Vec<Vec<u32>>) {
        let layout = KvLayout {
            layers_per_block: 1,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            block_tokens: 16,
            kv_type: KvType::Bf16,
        };
        let (start, own) = (self.start / 16, self.own / 16);
        let starts = if self.shared { 1 } else { self.sequences };
        let blocks = starts * start + self.sequences * own;
        let mut store = KvStore::new(layout, blocks + 1).unwrap();
        // As in `paged`.
        let ids: Vec<u32> = (0..blocks).map(|i| (i * 7919 % blocks) as u32 + 1).collect();
        let (starts, owns) = ids.split_at(starts * start);
        let tables: Vec<Vec<u32>> = (0..self.sequences)
            .map(|i| {
                let first = if self.shared { 0 } else { i * start };
                [&starts[first..first + start], &owns[i * own..(i + 1) * own]].concat()
            })
            .collect();
        let tokens = (start + own) * 16;
        let kv = noise(tokens * self.kv_heads * self.head_dim);
        for blocks in &tables {
            let rows = SeqRows { first_row: 0, rows: tokens, start: 0, blocks };
            write_kv(compute, &mut store, 0, &[rows], &kv, &kv);
        }
        (store, tables)
    }
}

fn crowds(c: &mut Criterion) {
    let isa = Isa::from_env().unwrap();
    for threads in [1, 2] {
        let compute = Compute::new(isa, threads);
        let mut group = c.benchmark_group(format!("attention_crowd/{isa}/{threads}"));
        group
            .sample_size(20)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1));
        for crowd in Crowd::all() {
            let (store, tables) = crowd.paged(&compute);
            let q = noise(crowd.sequences * crowd.q_heads * crowd.head_dim);
            let mut out = vec![0.0; q.len()];
            let mut scratch = AttnScratch::new();
            let rows: Vec<SeqRows<'_>> = tables
                .iter()
                .enumerate()
                .map(|(i, blocks)| SeqRows {
                    first_row: i,
                    rows: 1,
                    start: blocks.len() * 16 - 8 + i,
                    blocks,
                })
                .collect();
            // Tokens a second, in this one layer.
            group.throughput(Throughput::Elements(crowd.sequences as u64));
            group.bench_function(crowd.name, |b| {
                let scale = 1.0 / (crowd.head_dim as f32).sqrt();
                b.iter(|| {
                    attention(
                        &compute,
                        &store,
                        0,
                        &rows,
                        black_box(&q),
                        crowd.q_heads,
                        None,
                        scale,
                        &mut scratch,
                        &mut out,
                    );
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench, crowds);
criterion_main!(benches);
