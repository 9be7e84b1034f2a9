//! How long the nearest of 100,000 stored questions takes to find, without the embedding.
//!
//!     cargo run --release -p tapri-cache --example index_latency [ROWS] [QUERIES]
//!
//! Vectors are random directions of 384 numbers around 1,000 centres, queries are rows with a little noise.

#![allow(clippy::print_stdout, missing_docs)]

use std::time::{Duration, Instant};

use tapri_cache::semantic::{FlatIndex, Index};
use tapri_embed::vector;

const WIDTH: usize = 384;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let rows: usize = numbers.next().unwrap_or(100_000);
    let queries: usize = numbers.next().unwrap_or(2_000);
    let mut seed = 7;
    let centres: Vec<Vec<f32>> = (0..1_000).map(|_| direction(&mut seed, None)).collect();
    let mut index = FlatIndex::new();
    let begun = Instant::now();
    for id in 0..rows {
        index.insert(id as u64, &direction(&mut seed, Some(&centres[id % centres.len()])));
    }
    println!(
        "{rows} rows in {:.1} s, {:.1} MB, {} bytes a row",
        begun.elapsed().as_secs_f64(),
        index.bytes() as f64 / 1e6,
        index.bytes() / rows.max(1)
    );
    let mut taken: Vec<Duration> = (0..queries)
        .map(|number| {
            let query = direction(&mut seed, Some(&centres[number % centres.len()]));
            let begun = Instant::now();
            let near = index.nearest(&query, 5);
            let taken = begun.elapsed();
            assert!(near.len() == 5.min(rows));
            taken
        })
        .collect();
    taken.sort_unstable();
    let at = |share: f64| {
        let place = (taken.len() as f64 * share) as usize;
        taken[place.min(taken.len() - 1)].as_secs_f64() * 1e3
    };
    println!(
        "{queries} lookups: p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// A random direction, near a centre where there is one.
fn direction(seed: &mut u64, centre: Option<&Vec<f32>>) -> Vec<f32> {
    let mut v: Vec<f32> = (0..WIDTH)
        .map(|at| {
            *seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let noise = (*seed >> 40) as f32 / (1 << 23) as f32 - 1.0;
            centre.map_or(noise, |centre| 20.0 * centre[at] + noise)
        })
        .collect();
    vector::normalise(&mut v);
    v
}
