//! F32 weights: tiles of up to 6 rows by 2 panels straight from the packed matrix.

use std::arch::x86_64::*;

use crate::compute::Compute;
use crate::matmul::{Output, split};
use crate::weights::Weights;
use crate::weights::layout::PANEL;

/// 12 sums keep both ports busy over the instruction's 4 cycles.
const MOST_ROWS: usize = 6;

/// F32 weights by float rows, `[m][k]`.
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
            let run = match part.end - first {
                1 => of_rows::<1>,
                2 => of_rows::<2>,
                3 => of_rows::<3>,
                4 => of_rows::<4>,
                5 => of_rows::<5>,
                _ => of_rows::<6>,
            };
            // SAFETY: the CPU has the path, and these rows of these panels are this item's alone.
            unsafe { run(weights, 2 * pair, rows, first, out) };
        }
    });
}

#[target_feature(enable = "avx512f")]
unsafe fn of_rows<const R: usize>(
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
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for i in 0..k {
        // SAFETY: a panel has k lines of 16 floats, and there are R rows of k.
        unsafe {
            let at = i * PANEL * 4;
            let columns = [
                _mm512_loadu_ps(columns[0].add(at).cast()),
                _mm512_loadu_ps(columns[1].add(at).cast()),
            ];
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
