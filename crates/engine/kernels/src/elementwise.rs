//! What stands between the matrix products: norms, rotary positions, residual sums, gates.
//!
//! Each operation is one piece of portable code over sixteen lanes, compiled once for each instruction-set path. It uses no
//! fused operations and reduces in one order, so all paths give the same bits (a test holds them to that), and a row's
//! result depends on that row alone.

mod exp;
mod gate;
mod log_sum_exp;
mod norm;
mod paths;
mod rope;

pub use gate::{add, add_to_rows, gelu_mul, scale, silu_mul};
pub use log_sum_exp::log_sum_exp;
pub use norm::{rms_norm, rms_norm_heads};
pub use rope::{RopeConfig, RopeStyle, RopeTable, rope};

use crate::Compute;

/// Lanes of every reduction: one AVX-512 register, two of AVX2.
const LANES: usize = 16;

/// Elements that a thread should have at least: less is done before another thread has begun.
const PIECE_ELEMENTS: usize = 16 * 1024;

/// Pieces per thread, so that a thread that was held up does not hold up the others.
const PIECES_PER_THREAD: usize = 4;

/// Elements of one piece of `total`, a multiple of `width`.
fn piece(compute: &Compute, total: usize, width: usize) -> usize {
    let fair = total.div_ceil(compute.threads() * PIECES_PER_THREAD);
    let wanted = if compute.threads() == 1 { total } else { fair.max(PIECE_ELEMENTS) };
    wanted.max(1).next_multiple_of(width)
}

/// Adds up the lanes pairwise.
#[inline(always)]
fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}
