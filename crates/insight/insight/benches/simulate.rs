//! A trace of a million blocks through each way of simulating: `cargo bench -p tapri-insight --bench simulate`.

#![allow(missing_docs, clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tapri_insight::simulate::{Counting, Curve, Scope, Settings, Trace, belady, fifo, replay};

/// Conversations that grow by ten blocks a turn, each going on after some thousand calls of others.
fn trace(blocks: u64) -> Trace {
    let mut trace = Trace::new(NonZeroU32::new(512).unwrap());
    let mut next = 1;
    let mut open: Vec<Vec<u64>> = vec![vec![0]; 3000];
    let mut number = 0u64;
    while trace.blocks() < blocks {
        let at = (number * 7919 % 3000) as usize;
        let ids = &mut open[at];
        if ids.len() > 120 {
            ids.truncate(1);
        }
        ids.extend((0..10).map(|new| next + new));
        next += 10;
        let tokens = ids.len() as u64 * 512 - number % 512;
        trace.push(Scope(0), Duration::from_millis(number * 100), tokens, ids).unwrap();
        number += 1;
    }
    trace.seal();
    trace
}

fn million(criterion: &mut Criterion) {
    let trace = trace(1_000_000);
    let counting = Counting::Engine;
    let capacity = trace.distinct() / 4;
    let mut group = criterion.benchmark_group("million_blocks");
    group.sample_size(10);
    group.bench_function("one_pass", |bencher| {
        bencher.iter(|| Curve::new(&trace, counting, |_| {}).endless());
    });
    let settings = Settings { capacity: Some(capacity), ttl: None, counting };
    group.bench_function("exact_replay", |bencher| {
        bencher.iter(|| replay(&trace, settings, |_| {}).unwrap().hits);
    });
    group.bench_function("fifo", |bencher| bencher.iter(|| fifo(&trace, counting, capacity)));
    group.bench_function("belady", |bencher| bencher.iter(|| belady(&trace, counting, capacity)));
    group.finish();
}

criterion_group!(benches, million);
criterion_main!(benches);
