//! Against f64 softmax attention over unpaged keys and values.

use proptest::prelude::*;
use tapri_kernels::{AttnScratch, Compute, Isa, KvType};

use crate::scene::{Paged, Sequence, Shape};

/// Largest error, relative to the largest value of V: the f32 chains of a block and the merges.
const BOUND: f64 = 4e-6;

fn bf16(x: f32) -> f64 {
    let bits = x.to_bits();
    f64::from(f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000))
}

/// Keys or values as the store rounds them.
fn stored(numbers: &[f32], kv_type: KvType) -> Vec<f64> {
    match kv_type {
        KvType::Bf16 => numbers.iter().map(|x| bf16(*x)).collect(),
        KvType::Q8_0 => numbers.chunks(32).flat_map(q8).collect(),
    }
}

fn q8(numbers: &[f32]) -> Vec<f64> {
    let largest = numbers.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    let step = bf16(largest / 127.0);
    let steps = |x: &f32| {
        if step == 0.0 {
            0.0
        } else {
            (f64::from(*x) / step).round_ties_even().clamp(-127.0, 127.0)
        }
    };
    numbers.iter().map(|x| bf16((steps(x) * step) as f32)).collect()
}

/// Rows `from..` of the sequence, over keys and values as the store rounds them.
fn naive(shape: &Shape, seq: &Sequence, from: usize) -> Vec<f64> {
    let (hd, group) = (shape.head_dim, shape.q_heads / shape.kv_heads);
    let (keys, values) = (stored(&seq.k, shape.kv_type), stored(&seq.v, shape.kv_type));
    let mut out = Vec::new();
    for t in from..seq.tokens {
        let first = shape.window.map_or(0, |w| (t + 1).saturating_sub(w));
        for h in 0..shape.q_heads {
            let q = &seq.q[(t * shape.q_heads + h) * hd..][..hd];
            let at = |j: usize| (j * shape.kv_heads + h / group) * hd;
            let scores: Vec<f64> = (first..=t)
                .map(|j| {
                    let dot: f64 =
                        q.iter().zip(&keys[at(j)..]).map(|(q, k)| f64::from(*q) * k).sum();
                    dot * f64::from(shape.scale)
                })
                .collect();
            let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|s| (s - max).exp()).sum();
            let start = out.len();
            out.resize(start + hd, 0.0);
            for (j, s) in (first..=t).zip(&scores) {
                let p = (s - max).exp() / sum;
                for (o, v) in out[start..].iter_mut().zip(&values[at(j)..]) {
                    *o += p * v;
                }
            }
        }
    }
    out
}

fn check(isa: Isa, shape: Shape, tokens: usize, from: usize, block_tokens: usize, seed: u64) {
    let compute = Compute::new(isa, 2);
    let sequences = [Sequence::random(&shape, tokens, seed)];
    let mut paged = Paged::new(shape, &[tokens], block_tokens, seed);
    let mut scratch = AttnScratch::new();
    if from > 0 {
        paged.call(&compute, &mut scratch, &sequences, &[(0, 0, from)]);
    }
    let got = paged.call(&compute, &mut scratch, &sequences, &[(0, from, tokens)]);
    let want = naive(&shape, &sequences[0], from);
    let worst = got.iter().zip(&want).map(|(g, w)| (f64::from(*g) - w).abs()).fold(0.0, f64::max);
    let largest = f64::from(sequences[0].v.iter().fold(0.0_f32, |m, v| m.max(v.abs())));
    assert!(worst <= BOUND * largest, "{isa} {shape:?} {from}..{tokens}: {:e}", worst / largest);
    assert!(got.iter().all(|g| g.is_finite()));
}

#[test]
fn the_shapes_of_real_models() {
    for isa in Isa::available() {
        for (q, kv, hd) in
            [(4, 1, 256), (9, 3, 64), (8, 2, 128), (8, 1, 32), (7, 1, 96), (5, 5, 64)]
        {
            for window in [None, Some(512), Some(5)] {
                check(isa, Shape::new(q, kv, hd, window), 1100, 1060, 16, 7);
            }
        }
        for window in [None, Some(5)] {
            for (q, kv, hd) in [(9, 3, 64), (7, 1, 96)] {
                let shape = Shape::new(q, kv, hd, window).stored(KvType::Q8_0);
                check(isa, shape, 1100, 1060, 16, 7);
            }
        }
        check(isa, Shape::new(4, 1, 256, None), 300, 0, 16, 8);
        check(isa, Shape::new(4, 1, 256, Some(64)), 300, 0, 32, 9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_shape(
        (kv_heads, group) in (1_usize..4, 1_usize..10),
        hd in 1_usize..9,
        window in prop::option::of(1_usize..400),
        (tokens, new) in (1_usize..600, 1_usize..40),
        block in 0_usize..5,
        kv_type in prop::sample::select(&KvType::ALL[..]),
        seed in 1_u64..1_000_000,
    ) {
        for isa in Isa::available() {
            let shape = Shape::new(kv_heads * group, kv_heads, 32 * hd, window).stored(kv_type);
            check(isa, shape, tokens, tokens.saturating_sub(new), 16 << block, seed);
        }
    }
}
