//! Residual sums, scaling and the gates of the feed-forward part.

use super::exp::exp;
use super::paths::paths;
use super::piece;
use crate::Compute;

/// `x += y`.
///
/// # Panics
/// When the lengths differ.
pub fn add(compute: &Compute, x: &mut [f32], y: &[f32]) {
    assert_eq!(x.len(), y.len(), "x and y must have one shape");
    zip(compute, x, y, add_path);
}

/// Adds `row`, `[n]`, to each row of `x`, `[.., n]`.
///
/// # Panics
/// When `row` is empty, or `x` is no whole number of its lengths.
pub fn add_to_rows(compute: &Compute, x: &mut [f32], row: &[f32]) {
    assert!(!row.is_empty() && x.len().is_multiple_of(row.len()), "x must be [.., {}]", row.len());
    let size = piece(compute, x.len(), row.len());
    compute.run_pieces(x, size, |_, x| rows_path(compute.isa(), x, row));
}

/// `x *= factor`.
pub fn scale(compute: &Compute, x: &mut [f32], factor: f32) {
    let size = piece(compute, x.len(), 1);
    compute.run_pieces(x, size, |_, x| scale_path(compute.isa(), x, factor));
}

/// `gate = silu(gate) * up`, with `silu(x) = x / (1 + e^-x)`.
///
/// # Panics
/// When the lengths differ.
pub fn silu_mul(compute: &Compute, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up must have one shape");
    zip(compute, gate, up, silu_path);
}

/// `gate = gelu(gate) * up`, with the tanh form `gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`.
///
/// # Panics
/// When the lengths differ.
pub fn gelu_mul(compute: &Compute, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up must have one shape");
    zip(compute, gate, up, gelu_path);
}

fn zip(
    compute: &Compute,
    x: &mut [f32],
    y: &[f32],
    path: impl Fn(crate::Isa, &mut [f32], &[f32]) + Sync,
) {
    let size = piece(compute, x.len(), 1);
    compute.run_pieces(x, size, |index, x| {
        let start = index * size;
        path(compute.isa(), x, &y[start..start + x.len()]);
    });
}

paths!(fn add_path(x: &mut [f32], y: &[f32]) = add_body);
paths!(fn rows_path(x: &mut [f32], row: &[f32]) = rows_body);
paths!(fn scale_path(x: &mut [f32], factor: f32) = scale_body);
paths!(fn silu_path(gate: &mut [f32], up: &[f32]) = silu_body);
paths!(fn gelu_path(gate: &mut [f32], up: &[f32]) = gelu_body);

#[inline(always)]
fn rows_body(x: &mut [f32], row: &[f32]) {
    for x in x.chunks_exact_mut(row.len()) {
        add_body(x, row);
    }
}

#[inline(always)]
fn add_body(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

#[inline(always)]
fn scale_body(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}

#[inline(always)]
fn silu_body(gate: &mut [f32], up: &[f32]) {
    for (g, u) in gate.iter_mut().zip(up) {
        *g = *g / (1.0 + exp(-*g)) * u;
    }
}

/// `(1 + tanh(t)) / 2` is `1 / (1 + e^-2t)`, which does not cancel for large negative `t`.
#[inline(always)]
fn gelu_body(gate: &mut [f32], up: &[f32]) {
    /// 2 sqrt(2 / pi)
    const TWICE: f32 = 1.595_769;
    for (g, u) in gate.iter_mut().zip(up) {
        let x = *g;
        let t = TWICE * (x * (1.0 + 0.044_715 * (x * x)));
        *g = x / (1.0 + exp(-t)) * u;
    }
}
