//! Float weights: tiles of up to 6 rows by 2 panels straight from the packed matrix.

use std::arch::x86_64::*;

use crate::compute::Compute;
use crate::matmul::format::{BF16, F16, for_rows, with_float_format};
use crate::matmul::{Output, split};
use crate::quant::Quant;
use crate::weights::Weights;

/// 12 sums keep both ports busy over the instruction's 4 cycles.
const MOST_ROWS: usize = 6;

/// Float weights by float rows, `[m][k]`.
///
/// # Safety
/// The CPU has the AVX-512 path.
pub(in crate::matmul) unsafe fn floats(
    compute: &Compute,
    weights: &Weights,
    rows: &[f32],
    out: &Output<'_>,
) {
    assert_eq!(rows.len(), out.m * weights.k(), "rows of activations");
    let grid = split::Grid::new(compute, weights, out.m, 2);
    split::run(compute, weights, out.m, grid.items(), |item| {
        let (pair, part) = grid.item(item);
        for first in part.clone().step_by(MOST_ROWS) {
            let count = part.end - first;
            // SAFETY: the CPU has the path, and these rows of these panels are this item's alone.
            unsafe {
                with_float_format!(
                    weights.quant(),
                    of_format,
                    (weights, 2 * pair, rows, (first, count), out)
                );
            }
        }
    });
}

/// Up to [`MOST_ROWS`] rows from `first` on, of which there are `count`.
///
/// # Safety
/// The CPU has the path, `rows` has these rows of the matrix's k, `F` is its format, and no other thread writes these rows of these panels.
unsafe fn of_format<const F: u8>(
    weights: &Weights,
    first_panel: usize,
    rows: &[f32],
    (first, count): (usize, usize),
    out: &Output<'_>,
) {
    let run = for_rows!(count, of_rows::<F>, 1 2 3 4 5, 6);
    // SAFETY: the caller's contract.
    unsafe { run(weights, first_panel, rows, first, out) };
}

/// 16 numbers from `at` on as f32.
///
/// # Safety
/// They are there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn numbers<const F: u8>(at: *const u8) -> __m512 {
    // SAFETY: the caller's contract.
    unsafe {
        match F {
            F16 => _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())),
            BF16 => {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
            }
            _ => _mm512_loadu_ps(at.cast()),
        }
    }
}

/// The same, for `R` rows.
///
/// # Safety
/// As for [`of_format`], of `R` rows.
#[target_feature(enable = "avx512f")]
unsafe fn of_rows<const F: u8, const R: usize>(
    weights: &Weights,
    first_panel: usize,
    rows: &[f32],
    first_row: usize,
    out: &Output<'_>,
) {
    let k = weights.k();
    let rows = rows[first_row * k..(first_row + R) * k].as_ptr();
    let panels = first_panel..weights.panels().min(first_panel + 2);
    // A missing second panel is the first again, computed and not stored.
    let columns = [weights.panel(first_panel).as_ptr(), weights.panel(panels.end - 1).as_ptr()];
    let line = weights.layout().quants_step;
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for i in 0..k {
        // SAFETY: a panel has k lines of 16 floats, and there are R rows of k.
        unsafe {
            let at = i * line;
            let columns = [numbers::<F>(columns[0].add(at)), numbers::<F>(columns[1].add(at))];
            for (row, sums) in sums.iter_mut().enumerate() {
                let activation = _mm512_set1_ps(*rows.add(row * k + i));
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum = _mm512_fmadd_ps(column, activation, *sum);
                }
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (panel, sum) in panels.clone().zip(sums) {
            // SAFETY: the row is one of the product's, and this part of it is this call's alone.
            unsafe { out.store_register(first_row + row, panel, sum) };
        }
    }
}
