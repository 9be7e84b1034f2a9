//! Norms, rotary positions, gates: against f64, and the same bits on every path, in every batch, with any number of threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use tapri_kernels::{
    Compute, Isa, RopeConfig, RopeStyle, RopeTable, add, add_to_rows, gelu_mul, log_sum_exp,
    rms_norm, rms_norm_heads, rope, scale, silu_mul,
};

fn noise(n: usize, seed: u32, spread: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * spread
    };
    (0..n).map(|_| next()).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Largest error relative to the wanted value, or to `floor` where that is larger.
fn worst(got: &[f32], want: impl Iterator<Item = f64>, floor: f64) -> f64 {
    got.iter()
        .zip(want)
        .map(|(g, w)| (f64::from(*g) - w).abs() / w.abs().max(floor))
        .fold(0.0, f64::max)
}

/// Runs `operation` on every path with 1, 2 and 3 threads, and returns the one result.
fn everywhere(mut operation: impl FnMut(&Compute) -> Vec<f32>) -> Vec<f32> {
    let want = operation(&Compute::new(Isa::Scalar, 1));
    for isa in Isa::available() {
        for threads in [1, 2, 3] {
            let got = operation(&Compute::new(isa, threads));
            assert!(bits(&got) == bits(&want), "{isa} with {threads} threads differs");
        }
    }
    want
}

#[test]
fn rms_norm_within_4e_7_of_f64() {
    for (m, n) in [(1, 640), (3, 576), (200, 640), (5, 1), (4, 33), (2, 2048)] {
        let (x, w) = (noise(m * n, 1, 8.0), noise(n, 2, 2.0));
        let got = everywhere(|c| {
            let mut out = vec![0.0; m * n];
            rms_norm(c, &x, m, n, &w, 1e-6, &mut out);
            out
        });
        let want = x.chunks(n).flat_map(|row| {
            let mean = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n as f64;
            let w = &w;
            row.iter()
                .enumerate()
                .map(move |(i, x)| f64::from(*x) / (mean + 1e-6).sqrt() * f64::from(w[i]))
        });
        assert!(worst(&got, want, 1e-3) < 4e-7, "{m} x {n}");
        // A row alone gives the same bits.
        let last = &x[(m - 1) * n..];
        let mut alone = vec![0.0; n];
        rms_norm(&Compute::new(Isa::best(), 2), last, 1, n, &w, 1e-6, &mut alone);
        assert_eq!(bits(&alone), bits(&got[(m - 1) * n..]));
        // And so does the form that works in place, head by head.
        let in_place = everywhere(|c| {
            let mut x = x.clone();
            rms_norm_heads(c, &mut x, n, &w, 1e-6);
            x
        });
        assert_eq!(bits(&in_place), bits(&got));
    }
}

#[test]
fn a_row_is_added_to_each_row() {
    for (m, n) in [(1, 1), (3, 7), (5, 256), (300, 192)] {
        let (x, row) = (noise(m * n, 3, 4.0), noise(n, 4, 1.0));
        let got = everywhere(|c| {
            let mut x = x.clone();
            add_to_rows(c, &mut x, &row);
            x
        });
        let want: Vec<f32> = x.iter().enumerate().map(|(i, x)| x + row[i % n]).collect();
        assert_eq!(bits(&got), bits(&want), "{m} x {n}");
    }
}

#[test]
fn zeros_stay_zeros_in_a_norm() {
    let c = Compute::new(Isa::best(), 1);
    let mut out = vec![1.0; 64];
    rms_norm(&c, &[0.0; 64], 1, 64, &[1.0; 64], 1e-6, &mut out);
    assert!(out.iter().all(|x| *x == 0.0));
}

#[test]
fn gates_within_6e_7_of_f64() {
    let n = 70_001;
    let up = noise(n, 4, 3.0);
    for spread in [1.0, 12.0] {
        let gate = noise(n, 3, spread);
        let silu = everywhere(|c| {
            let mut g = gate.clone();
            silu_mul(c, &mut g, &up);
            g
        });
        let want = gate.iter().zip(&up).map(|(g, u)| {
            let g = f64::from(*g);
            g / (1.0 + (-g).exp()) * f64::from(*u)
        });
        assert!(worst(&silu, want, 1e-6) < 6e-7);

        let gelu = everywhere(|c| {
            let mut g = gate.clone();
            gelu_mul(c, &mut g, &up);
            g
        });
        let want = gate.iter().zip(&up).map(|(g, u)| {
            let x = f64::from(*g);
            let t = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            0.5 * x * (1.0 + t.tanh()) * f64::from(*u)
        });
        // Far left the result is tiny, and its exponent magnifies the rounding of t: an absolute bound there.
        assert!(worst(&gelu, want, 1.0) < 6e-7);
    }
}

#[test]
fn gates_do_not_overflow() {
    let c = Compute::new(Isa::best(), 1);
    let extreme = [-1e30, -1e4, -88.0, 0.0, 88.0, 1e4];
    for f in [silu_mul, gelu_mul] {
        let mut g = extreme.to_vec();
        f(&c, &mut g, &[1.0; 6]);
        assert!(g.iter().all(|x| x.is_finite()), "{g:?}");
        assert!(g[1].abs() < 1e-30 && g[3] == 0.0 && g[5] == 1e4, "{g:?}");
    }
}

#[test]
fn add_and_scale_are_exact() {
    let (x, y) = (noise(50_000, 5, 1.0), noise(50_000, 6, 1.0));
    let sum = everywhere(|c| {
        let mut x = x.clone();
        add(c, &mut x, &y);
        scale(c, &mut x, 25.298_222);
        x
    });
    assert!(sum.iter().zip(x.iter().zip(&y)).all(|(s, (x, y))| *s == (x + y) * 25.298_222));
}

fn angle(base: f64, dims: usize, pair: usize, position: usize) -> f64 {
    position as f64 * base.powf(-2.0 * pair as f64 / dims as f64)
}

#[test]
fn rope_within_3e_7_of_f64() {
    for (base, dims, head_dim, heads) in [(1e6, 256, 256, 4), (1e4, 64, 64, 9), (1e5, 32, 64, 3)] {
        let positions: Vec<u32> = vec![0, 1, 255, 256, 257, 1000, 30_745, 32_767];
        let m = positions.len();
        let table = RopeTable::new(&RopeConfig {
            dims,
            base,
            frequency_scale: 1.0,
            factors: None,
            positions: 32_768,
        });
        let x = noise(m * heads * head_dim, 7, 1.0);
        for style in [RopeStyle::Neox, RopeStyle::Interleaved] {
            let got = everywhere(|c| {
                let mut x = x.clone();
                rope(c, &mut x, m, heads, head_dim, dims, &positions, &table, style);
                x
            });
            for (i, got) in got.chunks(head_dim).enumerate() {
                let x = &x[i * head_dim..(i + 1) * head_dim];
                for pair in 0..dims / 2 {
                    let (a, b) = match style {
                        RopeStyle::Neox => (pair, pair + dims / 2),
                        RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                    };
                    let (sin, cos) =
                        angle(base, dims, pair, positions[i / heads] as usize).sin_cos();
                    let (xa, xb) = (f64::from(x[a]), f64::from(x[b]));
                    assert!((f64::from(got[a]) - (xa * cos - xb * sin)).abs() < 3e-7);
                    assert!((f64::from(got[b]) - (xa * sin + xb * cos)).abs() < 3e-7);
                }
                assert_eq!(got[dims..], x[dims..], "dimensions beyond the rotary ones changed");
            }
        }
    }
}

#[test]
fn rope_scaling_and_factors_divide_the_angle() {
    let c = Compute::new(Isa::best(), 1);
    let factors = [1.0, 2.0, 4.0, 8.0];
    let config = RopeConfig {
        dims: 8,
        base: 1e4,
        frequency_scale: 0.125,
        factors: Some(&factors),
        positions: 600,
    };
    let table = RopeTable::new(&config);
    let mut x = vec![1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
    rope(&c, &mut x, 1, 1, 8, 8, &[599], &table, RopeStyle::Interleaved);
    for (pair, x) in x.chunks(2).enumerate() {
        let (sin, cos) = (angle(1e4, 8, pair, 599) / 8.0 / f64::from(factors[pair])).sin_cos();
        assert!((f64::from(x[0]) - cos).abs() < 1e-7 && (f64::from(x[1]) - sin).abs() < 1e-7);
    }
}

#[test]
fn log_sum_exp_within_2e_6_of_f64() {
    for n in [1, 15, 16, 17, 4097, 262_144] {
        let row = noise(n, 9, 20.0);
        let got = everywhere(|c| vec![log_sum_exp(c, &row)])[0];
        let want = row.iter().map(|x| f64::from(*x).exp()).sum::<f64>().ln();
        assert!((f64::from(got) - want).abs() < 2e-6, "{n}: {got} for {want}");
    }
    let c = Compute::new(Isa::best(), 1);
    assert_eq!(log_sum_exp(&c, &[]), f32::NEG_INFINITY);
    assert_eq!(log_sum_exp(&c, &[f32::NEG_INFINITY; 20]), f32::NEG_INFINITY);
    assert_eq!(log_sum_exp(&c, &[1e30, 0.0]), 1e30);
    assert!(
        log_sum_exp(&c, &[f32::NAN, 1.0]).is_nan() && log_sum_exp(&c, &[f32::NAN; 17]).is_nan()
    );
}

proptest! {
    #[test]
    fn norms_of_any_shape_agree_on_all_paths(m in 1_usize..40, n in 1_usize..700, seed in any::<u32>()) {
        let (x, w) = (noise(m * n, seed, 4.0), noise(n, seed ^ 1, 1.0));
        everywhere(|c| {
            let mut out = vec![0.0; m * n];
            rms_norm(c, &x, m, n, &w, 1e-5, &mut out);
            out
        });
    }
}
