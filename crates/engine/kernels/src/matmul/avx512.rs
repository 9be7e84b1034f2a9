//! AVX-512 with VNNI: 16 columns of the product in one register, 4 k to an instruction.
//!
//! One or two rows take the direct kernel, which unpacks a panel's block in registers and uses it for all rows at once, so that
//! the matrix is read once and in order. More rows take the tiles: two panels are unpacked into this thread's scratch, chunk by
//! chunk, then tiles of up to 6 rows by 2 panels run over them, and meanwhile the next chunk is asked for.
//!
//! Weights enter as unsigned bytes, the quant plus 128; the excess, 128 times the sum of the activations, is taken off in
//! advance, as the accumulator starts from [`Block::start`](crate::activations::Block::start). A product of 32 stays below
//! 32 * 255 * 127, well inside an i32.

mod ahead;
mod direct;
mod float;
mod tile;
mod unpack;

use super::{Output, split};
use crate::activations::Block;
use crate::compute::Compute;
use crate::weights::Weights;
use crate::weights::unpack::{has_half_scales, has_minima};

pub(super) use float::floats;

/// Quantised weights by 8-bit rows, `[m][blocks]`.
///
/// # Safety
/// The CPU has the AVX-512 path.
pub(super) unsafe fn quantised(
    compute: &Compute,
    weights: &Weights,
    rows: &[Block],
    out: &Output<'_>,
) {
    // The tiles and the direct kernel follow raw pointers through `rows`.
    assert_eq!(rows.len(), out.m * weights.layout().blocks, "rows of activations");
    if out.m <= direct::most_rows(weights.quant()) {
        let panels_each = split::panels_of_a_stream(compute, weights);
        split::run(compute, weights, out.m, weights.panels().div_ceil(panels_each), |item| {
            let first = item * panels_each;
            for panel in first..(first + panels_each).min(weights.panels()) {
                // SAFETY: the CPU has the path, and this panel is this item's alone.
                unsafe { direct::panel(weights, panel, rows, out) };
            }
        });
        return;
    }
    let tiles = match (has_minima(weights.quant()), has_half_scales(weights.quant())) {
        (true, _) => tile::pair::<true, false>,
        (_, true) => tile::pair::<false, true>,
        _ => tile::pair::<false, false>,
    };
    if out.m <= tile::STREAM_ROWS {
        let pairs = weights.panels().div_ceil(2);
        let pairs_each = split::panels_of_a_stream(compute, weights).div_ceil(2);
        split::run(compute, weights, out.m, pairs.div_ceil(pairs_each), |item| {
            let first = item * pairs_each;
            for pair in first..(first + pairs_each).min(pairs) {
                // SAFETY: the CPU has the path, and these panels are this item's alone.
                unsafe { tiles(weights, pair, rows, 0..out.m, out) };
            }
        });
        return;
    }
    let grid = split::Grid::new(compute, weights, out.m, 2);
    split::run(compute, weights, out.m, grid.items(), |item| {
        let (pair, part) = grid.item(item);
        // SAFETY: the CPU has the path, and these panels of these rows are this item's alone.
        unsafe { tiles(weights, pair, rows, part, out) };
    });
}
