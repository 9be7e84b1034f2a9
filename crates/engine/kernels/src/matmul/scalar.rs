//! The reference: plain loops in the stated order. Compilers make usable code of them on any CPU.

use super::Output;
use crate::activations::Block;
use crate::compute::Compute;
use crate::half::{bf16_at, f16_at};
use crate::quant::Quant;
use crate::weights::Weights;
use crate::weights::layout::{BLOCK, PANEL};
use crate::weights::unpack::{Unpacked, has_half_scales, has_minima};

/// Rows that share one reading of a panel's block.
const ROWS: usize = 16;

/// Quantised weights by 8-bit rows, `[m][blocks]`.
pub(super) fn quantised(compute: &Compute, weights: &Weights, rows: &[Block], out: &Output<'_>) {
    let layout = weights.layout();
    compute.run(weights.panels(), |index| {
        let panel = weights.panel(index);
        let mut unpacked = Unpacked::new();
        for first in (0..out.m).step_by(ROWS) {
            let count = ROWS.min(out.m - first);
            let mut sums = [[0.0; PANEL]; ROWS];
            for block in 0..layout.blocks {
                unpacked.read(layout, panel, block);
                for (row, sums) in sums.iter_mut().enumerate().take(count) {
                    let activations = &rows[(first + row) * layout.blocks + block];
                    add_block(weights, &unpacked, activations, sums);
                }
            }
            for (row, sums) in sums.iter().enumerate().take(count) {
                // SAFETY: this panel is this call's alone.
                unsafe { out.store(first + row, index, sums) };
            }
        }
    });
}

/// Adds one block's products to the sums of a row's 16 columns.
fn add_block(weights: &Weights, unpacked: &Unpacked, row: &Block, sums: &mut [f32; PANEL]) {
    let [low, high] = dots(unpacked, row);
    let quant = weights.quant();
    for column in 0..PANEL {
        let mut add = |dot: i32, scale: f32| {
            sums[column] = (dot as f32 * scale).mul_add(row.scale, sums[column]);
        };
        if has_half_scales(quant) {
            add(low[column], unpacked.scales[0][column]);
            add(high[column], unpacked.scales[1][column]);
        } else {
            add(low[column] + high[column], unpacked.scales[0][column]);
        }
        if has_minima(quant) {
            sums[column] = unpacked.minima[column].mul_add(row.scaled_sum, sums[column]);
        }
    }
}

/// The exact products of each half of a block, for each column.
fn dots(unpacked: &Unpacked, row: &Block) -> [[i32; PANEL]; 2] {
    let mut dots = [[0_i32; PANEL]; 2];
    let groups = unpacked.quants.chunks_exact(PANEL * 4).zip(row.quants.chunks_exact(4));
    for (group, (weights, activations)) in groups.enumerate() {
        let dots = &mut dots[group / (BLOCK / 8)];
        for (dot, weights) in dots.iter_mut().zip(weights.chunks_exact(4)) {
            for (weight, activation) in weights.iter().zip(activations) {
                *dot += i32::from(*weight) * i32::from(*activation);
            }
        }
    }
    dots
}

/// Float weights by float rows, `[m][k]`.
pub(super) fn floats(compute: &Compute, weights: &Weights, rows: &[f32], out: &Output<'_>) {
    match weights.quant() {
        Quant::F16 => floats_of::<2>(compute, weights, rows, out, |bytes| f16_at(bytes, 0)),
        Quant::Bf16 => floats_of::<2>(compute, weights, rows, out, |bytes| bf16_at(bytes, 0)),
        _ => floats_of::<4>(compute, weights, rows, out, |bytes| {
            f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        }),
    }
}

/// The same, of floats of `SIZE` bytes that `read` decodes.
fn floats_of<const SIZE: usize>(
    compute: &Compute,
    weights: &Weights,
    rows: &[f32],
    out: &Output<'_>,
    read: impl Fn(&[u8]) -> f32 + Sync,
) {
    compute.run(weights.panels(), |index| {
        let panel = weights.panel(index);
        for (row, activations) in rows.chunks_exact(weights.k()).enumerate() {
            let mut sums = [0.0_f32; PANEL];
            for (line, activation) in panel.chunks_exact(PANEL * SIZE).zip(activations) {
                for (sum, weight) in sums.iter_mut().zip(line.chunks_exact(SIZE)) {
                    *sum = read(weight).mul_add(*activation, *sum);
                }
            }
            // SAFETY: this panel is this call's alone.
            unsafe { out.store(row, index, &sums) };
        }
    });
}
