//! Few rows: a panel is unpacked in registers, block by block, and multiplied with all rows at once.

use std::arch::x86_64::*;

use super::unpack;
use crate::activations::Block;
use crate::matmul::Output;
use crate::matmul::format::{Q6_K, for_rows, has_minima, with_format};
use crate::quant::Quant;
use crate::weights::Weights;

/// Rows up to which this is quicker than the tiles: with more, one row's products after another's keep the ports half as busy as two
/// panels' side by side. (Measured; Q6_K takes longer to unpack into memory.)
pub(super) const fn most_rows(quant: Quant) -> usize {
    if matches!(quant, Quant::Q6K) { MOST_ROWS } else { 2 }
}

const MOST_ROWS: usize = 4;

/// One panel of the product, for all of up to [`MOST_ROWS`] rows.
///
/// # Safety
/// The CPU has the AVX-512 path, `rows` is `[out.m][blocks]` with `out.m` from 1 to `MOST_ROWS`, and no other thread
/// writes this panel.
pub(super) unsafe fn panel(weights: &Weights, panel: usize, rows: &[Block], out: &Output<'_>) {
    // SAFETY: the caller's contract.
    unsafe { with_format!(weights.quant(), of_format, (weights, panel, rows, out)) }
}

/// The same, for a format.
///
/// # Safety
/// As for [`panel`], and the format is the matrix's.
unsafe fn of_format<const F: u8>(
    weights: &Weights,
    panel: usize,
    rows: &[Block],
    out: &Output<'_>,
) {
    let run = for_rows!(out.m, of_rows::<F>, 1 2 3, 4);
    // SAFETY: the caller's contract, passed on, and the rows are as many as it has them.
    unsafe { run(weights, panel, rows, out) };
}

/// The same, for `R` rows.
///
/// # Safety
/// As for [`of_format`], and `R` is `out.m`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn of_rows<const F: u8, const R: usize>(
    weights: &Weights,
    index: usize,
    rows: &[Block],
    out: &Output<'_>,
) {
    let layout = weights.layout();
    let panel = weights.panel(index).as_ptr();
    let mut sums = [_mm512_setzero_ps(); R];
    for block in 0..layout.blocks {
        // SAFETY: the block is inside the panel.
        let unpacked = unsafe { unpack::block::<F>(layout, panel, block) };
        for (row, sum) in sums.iter_mut().enumerate() {
            // SAFETY: row < R = out.m and block < blocks, so inside `rows`.
            let activations = unsafe { &*rows.as_ptr().add(row * layout.blocks + block) };
            let scale = _mm512_set1_ps(activations.scale);
            let quants = activations.quants.as_ptr().cast::<i32>();
            let mut dot = _mm512_set1_epi32(activations.start);
            let mut first = _mm512_set1_epi32(activations.start_low);
            if F == Q6_K {
                dot = _mm512_sub_epi32(dot, first);
            }
            for (group, register) in unpacked.groups.into_iter().enumerate() {
                // SAFETY: 8 groups of 4 quants make the block's 32.
                let four = unsafe { _mm512_set1_epi32(quants.add(group).read_unaligned()) };
                if F == Q6_K && group < 4 {
                    first = _mm512_dpbusd_epi32(first, register, four);
                } else {
                    dot = _mm512_dpbusd_epi32(dot, register, four);
                }
            }
            if F == Q6_K {
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(first), unpacked.scales[0]);
                *sum = _mm512_fmadd_ps(product, scale, *sum);
            }
            let product = _mm512_mul_ps(_mm512_cvtepi32_ps(dot), unpacked.scales[1]);
            *sum = _mm512_fmadd_ps(product, scale, *sum);
            if has_minima(F) {
                let scaled_sum = _mm512_set1_ps(activations.scaled_sum);
                *sum = _mm512_fmadd_ps(unpacked.minima, scaled_sum, *sum);
            }
        }
    }
    for (row, sum) in sums.into_iter().enumerate() {
        // SAFETY: the row is below out.m, and this panel is this call's alone.
        unsafe { out.store_register(row, index, sum) };
    }
}
