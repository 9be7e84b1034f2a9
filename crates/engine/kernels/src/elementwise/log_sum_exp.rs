//! The logarithm of a softmax's denominator.

use super::exp::exp;
use super::paths::paths;
use super::{LANES, sum_lanes};
use crate::Compute;

/// Elements whose exponentials are added in f32 before the sum goes on in f64: a vocabulary has up to 262,144.
const RUN: usize = 4096;

/// `ln(sum(e^x))` of one row of logits, on the caller's thread. Empty gives minus infinity; NaN gives NaN.
#[must_use]
pub fn log_sum_exp(compute: &Compute, row: &[f32]) -> f32 {
    let max = max_path(compute.isa(), row);
    if max.is_infinite() {
        return if row.iter().any(|x| x.is_nan()) { f32::NAN } else { max };
    }
    let sum: f64 = row.chunks(RUN).map(|run| f64::from(sum_path(compute.isa(), run, max))).sum();
    (f64::from(max) + sum.ln()) as f32
}

paths!(fn max_path(row: &[f32]) -> f32 = max_body);
paths!(fn sum_path(row: &[f32], max: f32) -> f32 = sum_body);

#[inline(always)]
fn max_body(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane = if *x > *lane { *x } else { *lane };
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = if *x > *lane { *x } else { *lane };
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

#[inline(always)]
fn sum_body(row: &[f32], max: f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += exp(x - max);
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane += exp(x - max);
    }
    sum_lanes(lanes)
}
