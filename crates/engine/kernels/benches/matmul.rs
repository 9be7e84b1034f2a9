//! Products of each format in the shapes of the two development models, from one row (decoding) to 512 (a chunk of a prompt).
//!
//! "elements" are operations (two for each multiplication with addition), so Gelem/s reads as GOP/s. Each sample goes
//! through enough copies of the matrix to leave the second-level cache, as a forward pass does; quantising
//! the activations is timed apart. The group `peak` is what the machine's own instructions give in registers, on all threads.
//!
//! `TAPRI_ISA` and `TAPRI_BENCH_THREADS` (2 by default) choose the path and the threads.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tapri_kernels::{Activations, Compute, Isa, Keep, Quant, Weights, matmul};

/// Bytes of matrices that a sample goes through.
const WORKING_SET: usize = 24 << 20;

const SHAPES: [(Quant, usize, usize); 13] = [
    (Quant::Q4_1, 1536, 576),
    (Quant::Q4_1, 576, 1536),
    (Quant::Q5_0, 2048, 640),
    (Quant::Q5_0, 256, 640),
    (Quant::Q8_0, 2048, 640),
    (Quant::Q4K, 640, 2048),
    (Quant::Q6K, 640, 2048),
    (Quant::F32, 1024, 640),
    (Quant::F16, 1024, 640),
    (Quant::Bf16, 1024, 640),
    (Quant::Q4_0, 2048, 640),
    (Quant::Q5_1, 2048, 640),
    (Quant::Q5K, 640, 2048),
];

fn compute() -> Compute {
    let threads = std::env::var("TAPRI_BENCH_THREADS").map_or(2, |n| n.parse().unwrap());
    Compute::new(Isa::from_env().unwrap(), threads)
}

/// A matrix of arbitrary integers with scales of about 0.01.
fn matrix(compute: &Compute, quant: Quant, n: usize, k: usize) -> Weights {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let mut bytes: Vec<u8> = (0..n * quant.bytes_of(k).unwrap()).map(|_| next()).collect();
    let scales: &[usize] = match quant {
        Quant::Q4_1 | Quant::Q5_1 | Quant::Q4K | Quant::Q5K => &[0, 2],
        Quant::Q6K => &[208],
        _ => &[0],
    };
    for block in bytes.chunks_exact_mut(quant.block_bytes()) {
        if matches!(quant, Quant::F32 | Quant::Bf16) {
            let number = 0.01_f32.to_le_bytes();
            block.copy_from_slice(&number[4 - block.len()..]);
            continue;
        }
        for &at in scales {
            block[at..at + 2].copy_from_slice(&0x211f_u16.to_le_bytes());
        }
    }
    Weights::pack(compute, quant, n, k, &bytes).unwrap()
}

fn rows(m: usize, k: usize) -> Vec<f32> {
    (0..m * k).map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0).collect()
}

fn products(criterion: &mut Criterion) {
    let compute = compute();
    for (quant, n, k) in SHAPES {
        let one = matrix(&compute, quant, n, k);
        let copies = (WORKING_SET / one.bytes()).clamp(1, 32);
        let weights: Vec<Weights> = (0..copies).map(|_| matrix(&compute, quant, n, k)).collect();
        let name = format!("matmul/{quant}/{n}x{k}/{}x{}", compute.isa(), compute.threads());
        let mut group = criterion.benchmark_group(name);
        for m in [1, 8, 20, 64, 512] {
            let mut activations =
                Activations::keeping(if quant.is_float() { Keep::Float } else { Keep::Int8 });
            activations.load(&compute, &rows(m, k), m, k);
            let mut out = vec![0.0; m * n];
            group.throughput(Throughput::Elements((2 * m * n * k) as u64));
            let mut turn = 0;
            group.bench_function(BenchmarkId::from_parameter(m), |bencher| {
                bencher.iter(|| {
                    turn = (turn + 1) % copies;
                    matmul(&compute, &weights[turn], &activations, &mut out);
                    black_box(&mut out);
                });
            });
        }
        group.finish();
    }
}

/// The output head of the larger model, which no cache holds: throughput in bytes of weights.
fn head(criterion: &mut Criterion) {
    let compute = compute();
    let (n, k) = (262_144, 640);
    let weights = matrix(&compute, Quant::Q8_0, n, k);
    let mut group = criterion.benchmark_group(format!(
        "head/Q8_0/{n}x{k}/{}x{}",
        compute.isa(),
        compute.threads()
    ));
    group.throughput(Throughput::Bytes(weights.bytes() as u64));
    for m in [1, 2, 4, 8, 16, 20] {
        let mut activations = Activations::keeping(Keep::Int8);
        activations.load(&compute, &rows(m, k), m, k);
        let mut out = vec![0.0; m * n];
        group.bench_function(BenchmarkId::from_parameter(m), |bencher| {
            bencher.iter(|| matmul(&compute, &weights, &activations, black_box(&mut out)));
        });
    }
    let bytes = vec![1; weights.bytes()];
    group.bench_function("pack", |bencher| {
        bencher.iter(|| Weights::pack(&compute, Quant::Q8_0, n, k, &bytes).unwrap());
    });
    group.finish();
}

fn quantising(criterion: &mut Criterion) {
    let compute = compute();
    let mut group =
        criterion.benchmark_group(format!("quantise/{}x{}", compute.isa(), compute.threads()));
    for (m, k) in [(1, 640), (512, 640), (512, 2048)] {
        let x = rows(m, k);
        let mut activations = Activations::keeping(Keep::Int8);
        group.throughput(Throughput::Elements((m * k / 32) as u64));
        group.bench_function(format!("{m}x{k}"), |bencher| {
            bencher.iter(|| activations.load(&compute, black_box(&x), m, k));
        });
    }
    group.finish();
}

/// The most that VNNI can do: independent products in registers.
#[cfg(target_arch = "x86_64")]
fn peak(criterion: &mut Criterion) {
    use std::arch::x86_64::{
        _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32, _mm512_set1_epi32,
    };

    const STEPS: usize = 10_000;
    const CHAINS: usize = 16;

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn burn() -> i32 {
        let (a, b) = (black_box(_mm512_set1_epi32(0x0102_0304)), black_box(_mm512_set1_epi32(3)));
        let mut sums = [a; CHAINS];
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, a, b);
            }
        }
        _mm512_reduce_add_epi32(sums.into_iter().fold(a, |x, y| _mm512_add_epi32(x, y)))
    }

    let compute = compute();
    if compute.isa() != Isa::Avx512 {
        return;
    }
    let mut group = criterion.benchmark_group(format!("peak/vnni/x{}", compute.threads()));
    let threads = compute.threads();
    group.throughput(Throughput::Elements((threads * STEPS * CHAINS * 128) as u64));
    group.bench_function("registers", |bencher| {
        bencher.iter(|| {
            compute.run(threads, |_| {
                // SAFETY: a `Compute` has only a path that the CPU has.
                black_box(unsafe { burn() });
            });
        });
    });
    group.finish();
}

#[cfg(not(target_arch = "x86_64"))]
fn peak(_: &mut Criterion) {}

fn settings() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700))
        .sample_size(15)
}

criterion_group! { name = benches; config = settings(); targets = peak, products, head, quantising }
criterion_main!(benches);
