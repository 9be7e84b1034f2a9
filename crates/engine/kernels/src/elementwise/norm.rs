//! Root-mean-square norms.

use super::paths::paths;
use super::{LANES, piece, sum_lanes};
use crate::Compute;

/// Each row of `x` divided by its root mean square, times `weight`: `out = x / sqrt(mean(x^2) + eps) * weight`.
///
/// `x` and `out` are `[m, n]`, `weight` is `[n]`.
///
/// # Panics
/// When shapes disagree or `n` is 0.
pub fn rms_norm(
    compute: &Compute,
    x: &[f32],
    m: usize,
    n: usize,
    weight: &[f32],
    eps: f32,
    out: &mut [f32],
) {
    assert!(n > 0 && x.len() == m * n && out.len() == m * n, "x and out must be [{m}, {n}]");
    assert_eq!(weight.len(), n, "weight must be [{n}]");
    let size = piece(compute, x.len(), n);
    compute.run_pieces(out, size, |index, out| {
        let x = &x[index * size..index * size + out.len()];
        norm_path(compute.isa(), x, weight, eps, out);
    });
}

/// [`rms_norm`] of each head of `x` (`[.., head_dim]`) by itself, in place; `weight` is `[head_dim]`.
///
/// # Panics
/// When shapes disagree or `head_dim` is 0.
pub fn rms_norm_heads(compute: &Compute, x: &mut [f32], head_dim: usize, weight: &[f32], eps: f32) {
    assert!(head_dim > 0 && x.len().is_multiple_of(head_dim), "x must be [.., {head_dim}]");
    assert_eq!(weight.len(), head_dim, "weight must be [{head_dim}]");
    let size = piece(compute, x.len(), head_dim);
    compute.run_pieces(x, size, |_, x| heads_path(compute.isa(), x, weight, eps));
}

paths!(fn norm_path(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = norm_body);
paths!(fn heads_path(x: &mut [f32], weight: &[f32], eps: f32) = heads_body);

#[inline(always)]
fn norm_body(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let factor = inverse_rms(x, eps);
        for ((o, x), w) in out.iter_mut().zip(x).zip(weight) {
            *o = x * factor * w;
        }
    }
}

#[inline(always)]
fn heads_body(x: &mut [f32], weight: &[f32], eps: f32) {
    for x in x.chunks_exact_mut(weight.len()) {
        let factor = inverse_rms(x, eps);
        for (x, w) in x.iter_mut().zip(weight) {
            *x = *x * factor * w;
        }
    }
}

#[inline(always)]
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x * x;
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += x * x;
    }
    1.0 / (sum_lanes(lanes) / x.len() as f32 + eps).sqrt()
}
