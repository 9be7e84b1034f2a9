//! Float weights: tiles of up to 4 rows by one panel straight from the packed matrix.

use std::arch::x86_64::*;

use super::{MOST_ROWS, store};
use crate::compute::Compute;
use crate::matmul::format::{BF16, F16, for_rows, with_float_format};
use crate::matmul::{Output, split};
use crate::quant::Quant;
use crate::weights::Weights;

/// Float weights by float rows, `[m][k]`.
///
/// # Safety
/// The CPU has the AVX2 path.
pub(in crate::matmul) unsafe fn floats(
    compute: &Compute,
    weights: &Weights,
    rows: &[f32],
    out: &Output<'_>,
) {
    assert_eq!(rows.len(), out.m * weights.k(), "rows of activations");
    let grid = split::Grid::new(compute, weights, out.m, 1);
    split::run(compute, weights, out.m, grid.items(), |item| {
        let (panel, part) = grid.item(item);
        for first in part.clone().step_by(MOST_ROWS) {
            let count = part.end - first;
            // SAFETY: the CPU has the path, and these rows of this panel are this item's alone.
            unsafe {
                with_float_format!(
                    weights.quant(),
                    of_format,
                    (weights, panel, rows, (first, count), out)
                );
            }
        }
    });
}

/// Up to [`MOST_ROWS`] rows from `first` on, of which there are `count`.
///
/// # Safety
/// The CPU has the path, `rows` has these rows of the matrix's k, `F` is its format, and no other thread writes these rows of this panel.
unsafe fn of_format<const F: u8>(
    weights: &Weights,
    panel: usize,
    rows: &[f32],
    (first, count): (usize, usize),
    out: &Output<'_>,
) {
    let run = for_rows!(count, of_rows::<F>, 1 2 3, 4);
    // SAFETY: the caller's contract.
    unsafe { run(weights, panel, rows, first, out) };
}

/// 8 numbers from `at` on as f32.
///
/// # Safety
/// They are there, and those of F32 on a 32-byte boundary.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn numbers<const F: u8>(at: *const u8) -> __m256 {
    // SAFETY: the caller's contract.
    unsafe {
        match F {
            F16 => _mm256_cvtph_ps(_mm_loadu_si128(at.cast())),
            BF16 => {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            }
            _ => _mm256_load_ps(at.cast()),
        }
    }
}

/// The same, for `R` rows.
///
/// # Safety
/// As for [`of_format`], of `R` rows.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn of_rows<const F: u8, const R: usize>(
    weights: &Weights,
    panel: usize,
    rows: &[f32],
    first_row: usize,
    out: &Output<'_>,
) {
    let k = weights.k();
    let rows = rows[first_row * k..(first_row + R) * k].as_ptr();
    let columns = weights.panel(panel).as_ptr();
    let line = weights.layout().quants_step;
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for i in 0..k {
        // SAFETY: a panel has k lines of 16 floats, and there are R rows of k.
        unsafe {
            let low = numbers::<F>(columns.add(i * line));
            let high = numbers::<F>(columns.add(i * line + line / 2));
            for (row, sums) in sums.iter_mut().enumerate() {
                let activation = _mm256_set1_ps(*rows.add(row * k + i));
                sums[0] = _mm256_fmadd_ps(low, activation, sums[0]);
                sums[1] = _mm256_fmadd_ps(high, activation, sums[1]);
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        // SAFETY: the row is one of the product's, and this part of it is this call's alone.
        unsafe { store(out, first_row + row, panel, sums) };
    }
}
