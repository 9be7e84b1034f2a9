//! AVX2 with FMA and F16C: 8 columns of the product in a register, 4 k to two instructions.
//!
//! A panel is unpacked into this thread's scratch, then up to 4 rows at a time run over it. `vpmaddubsw` adds pairs of products in 16 bits
//! and saturates, so the formats differ in how much may be added before widening: a pair of 4-bit products is below 2^12, and a
//! whole block's 8 pairs fit; 5-bit ones 4 pairs, 6-bit ones 2 pairs. Signed bytes need their sign moved to the
//! activations, and fit once (2 * 128 * 127).

mod float;
mod unpack;

use std::arch::x86_64::*;
use std::ops::Range;

use super::format::{self, for_rows, with_format};
use super::{Output, split};
use crate::activations::Block;
use crate::compute::Compute;
use crate::quant::Quant;
use crate::weights::Weights;
use crate::weights::layout::{BLOCK_BYTES, PANEL};

pub(super) use float::floats;

/// Rows of a tile, whose 8 sums stay in registers.
const MOST_ROWS: usize = 4;

/// Bytes of an unpacked block in scratch: its groups, then two lines of 16 floats, the scales, then the minima or the other scales.
const SCRATCH_STEP: usize = BLOCK_BYTES + 2 * PANEL * 4;

/// Quantised weights by 8-bit rows, `[m][blocks]`.
///
/// # Safety
/// The CPU has the AVX2 path.
pub(super) unsafe fn quantised(
    compute: &Compute,
    weights: &Weights,
    rows: &[Block],
    out: &Output<'_>,
) {
    assert_eq!(rows.len(), out.m * weights.layout().blocks, "rows of activations");
    let grid = split::Grid::new(compute, weights, out.m, 1);
    split::run(compute, weights, out.m, grid.items(), |item| {
        let (panel, part) = grid.item(item);
        // SAFETY: the CPU has the path, and these rows of this panel are this item's alone.
        unsafe { with_format!(weights.quant(), of_panel, (weights, panel, rows, part, out)) }
    });
}

/// A range of rows of one panel of the product.
///
/// # Safety
/// The CPU has the path, `rows` is `[out.m][blocks]`, `F` is the matrix's format, and no other thread writes these rows of this panel.
unsafe fn of_panel<const F: u8>(
    weights: &Weights,
    panel: usize,
    rows: &[Block],
    part: Range<usize>,
    out: &Output<'_>,
) {
    let layout = weights.layout();
    split::with_scratch(layout.blocks * SCRATCH_STEP, |scratch| {
        let scratch = scratch.as_mut_ptr();
        // SAFETY: a whole panel, and scratch for all its blocks.
        unsafe { unpack::panel::<F>(layout, weights.panel(panel).as_ptr(), scratch) };
        for first in part.clone().step_by(MOST_ROWS) {
            let run = for_rows!(part.end - first, of_rows::<F>, 1 2 3, 4);
            // SAFETY: the CPU has the path, the scratch holds all blocks, and these rows of this panel are this call's alone.
            unsafe { run(layout.blocks, scratch, rows, first, panel, out) };
        }
    });
}

/// The same, for `R` rows from `first_row` on.
///
/// # Safety
/// As for [`of_panel`], and the scratch holds all blocks.
#[target_feature(enable = "avx2,fma")]
unsafe fn of_rows<const F: u8, const R: usize>(
    blocks: usize,
    scratch: *const u8,
    rows: &[Block],
    first_row: usize,
    panel: usize,
    out: &Output<'_>,
) {
    let rows = rows[first_row * blocks..(first_row + R) * blocks].as_ptr();
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for block in 0..blocks {
        // SAFETY: the scratch has this block, and there are R rows of `blocks`.
        unsafe {
            let groups = scratch.add(block * SCRATCH_STEP);
            let scale = groups.add(BLOCK_BYTES).cast::<f32>();
            let second = scale.add(PANEL);
            for (row, sums) in sums.iter_mut().enumerate() {
                let row = &*rows.add(row * blocks + block);
                let row_scale = _mm256_set1_ps(row.scale);
                for (half, sum) in sums.iter_mut().enumerate() {
                    let groups = groups.add(half * 32);
                    let at = half * 8;
                    if F == format::Q6_K {
                        let dot = products_of::<F, 0, 4>(groups, row);
                        let product = _mm256_mul_ps(dot, _mm256_load_ps(scale.add(at)));
                        *sum = _mm256_fmadd_ps(product, row_scale, *sum);
                        let dot = products_of::<F, 4, 8>(groups, row);
                        let product = _mm256_mul_ps(dot, _mm256_load_ps(second.add(at)));
                        *sum = _mm256_fmadd_ps(product, row_scale, *sum);
                        continue;
                    }
                    let dot = products_of::<F, 0, 8>(groups, row);
                    let product = _mm256_mul_ps(dot, _mm256_load_ps(scale.add(at)));
                    *sum = _mm256_fmadd_ps(product, row_scale, *sum);
                    if format::has_minima(F) {
                        let minima = _mm256_load_ps(second.add(at));
                        *sum = _mm256_fmadd_ps(minima, _mm256_set1_ps(row.scaled_sum), *sum);
                    }
                }
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        // SAFETY: the row is one of the product's, and this part of it is this call's alone.
        unsafe { store(out, first_row + row, panel, sums) };
    }
}

/// The exact products of groups `FROM` to `TO` with 8 columns, as floats.
///
/// # Safety
/// `groups` is a block of scratch (or 32 bytes into it, for the last 8 columns).
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn products_of<const F: u8, const FROM: usize, const TO: usize>(
    groups: *const u8,
    row: &Block,
) -> __m256 {
    let pairs_that_fit = match F {
        format::Q4_0 | format::Q4_1 | format::Q4_K => 8,
        format::Q5_0 | format::Q5_1 | format::Q5_K => 4,
        format::Q6_K => 2,
        _ => 1,
    };
    let (first, last) = (row.start_low, row.start - row.start_low);
    let start = match (FROM, TO) {
        (0, 8) => first + last,
        (0, _) => first,
        _ => last,
    };
    // The sum times -128, down to the format's offset. Both are exact.
    let start = match F {
        format::Q4_0 => start / 16,
        format::Q5_0 => start / 8,
        format::Q6_K => start / 4,
        _ => 0,
    };
    let ones = _mm256_set1_epi16(1);
    let mut sum = _mm256_set1_epi32(start);
    let mut pairs = _mm256_setzero_si256();
    for group in FROM..TO {
        // SAFETY: a block has 8 groups of 64 bytes, and a row 8 of 4 quants.
        let (weights, four) = unsafe {
            (
                _mm256_load_si256(groups.add(group * 64).cast()),
                row.quants.as_ptr().cast::<i32>().add(group).read_unaligned(),
            )
        };
        let four = _mm256_set1_epi32(four);
        let products = if F == format::Q8_0 {
            _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(four, weights))
        } else {
            _mm256_maddubs_epi16(weights, four)
        };
        pairs = _mm256_add_epi16(pairs, products);
        if (group + 1) % pairs_that_fit == 0 {
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
            pairs = _mm256_setzero_si256();
        }
    }
    _mm256_cvtepi32_ps(sum)
}

/// Stores one row's sums of a panel.
///
/// # Safety
/// As for [`Output::store`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(out: &Output<'_>, row: usize, panel: usize, sums: [__m256; 2]) {
    let mut values = [0.0; PANEL];
    // SAFETY: 16 floats, and the caller's contract.
    unsafe {
        _mm256_storeu_ps(values.as_mut_ptr(), sums[0]);
        _mm256_storeu_ps(values.as_mut_ptr().add(8), sums[1]);
        out.store(row, panel, &values);
    }
}
