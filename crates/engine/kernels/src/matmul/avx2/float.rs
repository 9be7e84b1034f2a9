//! F32 weights: tiles of up to 4 rows by one panel straight from the packed matrix.

use std::arch::x86_64::*;

use super::{MOST_ROWS, store};
use crate::compute::Compute;
use crate::matmul::{Output, split};
use crate::weights::Weights;
use crate::weights::layout::PANEL;

/// F32 weights by float rows, `[m][k]`.
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
            let run = match part.end - first {
                1 => of_rows::<1>,
                2 => of_rows::<2>,
                3 => of_rows::<3>,
                _ => of_rows::<4>,
            };
            // SAFETY: the CPU has the path, and these rows of this panel are this item's alone.
            unsafe { run(weights, panel, rows, first, out) };
        }
    });
}

#[target_feature(enable = "avx2,fma")]
unsafe fn of_rows<const R: usize>(
    weights: &Weights,
    panel: usize,
    rows: &[f32],
    first_row: usize,
    out: &Output<'_>,
) {
    let k = weights.k();
    let rows = rows[first_row * k..(first_row + R) * k].as_ptr();
    let columns = weights.panel(panel).as_ptr().cast::<f32>();
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for i in 0..k {
        // SAFETY: a panel has k lines of 16 floats, and there are R rows of k.
        unsafe {
            let low = _mm256_load_ps(columns.add(i * PANEL));
            let high = _mm256_load_ps(columns.add(i * PANEL + 8));
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
