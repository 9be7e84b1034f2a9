//! Products of activations with a weight matrix.
//!
//! # One order for every sum
//!
//! An element of a product is summed in one order, on every path, however many rows or threads there are:
//!
//! - quantised: block by block in ascending k, `sum = fma(float(dot) * weight scale, activation scale, sum)`, where `dot`
//!   is the exact integer product of the block's 32 quants (any order gives the same), then, where the format has
//!   minima, `sum = fma(minimum, scaled sum, sum)`. Where a format has a scale for each 16 k, the two dots are joined
//!   first: `fma(float(dot of the last 16), scale, float(dot of the first 16) * scale)`.
//! - floats: `sum = fma(weight, activation, sum)` in ascending k.
//!
//! So a row's bits depend on that row and the matrix alone, and all instruction-set paths give the same bits.

mod scalar;

use crate::activations::Activations;
use crate::compute::{Compute, Disjoint};
use crate::isa::Isa;
use crate::quant::Quant;
use crate::weights::Weights;
use crate::weights::layout::PANEL;

/// Multiplies the rows of `activations`, `[m, k]`, with `weights`, `[n, k]`, into `out`, `[m, n]`, row after row.
///
/// An element's bits depend on its row and the matrix alone: not on `m`, its neighbours, or the number of threads.
///
/// # Panics
/// When the lengths of rows differ, `out` is not `m * n` long, or the activations are not kept in the form that the
/// matrix takes ([`Keep`](crate::Keep)).
pub fn matmul(compute: &Compute, weights: &Weights, activations: &Activations, out: &mut [f32]) {
    let (m, n, k) = (activations.m(), weights.n(), weights.k());
    assert_eq!(activations.k(), k, "activations are as long as the matrix's rows");
    assert_eq!(Some(out.len()), m.checked_mul(n), "a product of {m} by {n}");
    if m == 0 {
        return;
    }
    let output = Output { values: Disjoint::new(out), m, n };
    match (compute.isa(), weights.quant()) {
        (_, Quant::F32) => scalar::floats(compute, weights, activations.floats(), &output),
        (Isa::Scalar | Isa::Avx2 | Isa::Avx512, _) => {
            scalar::quantised(compute, weights, activations.blocks(), &output);
        }
    }
}

/// The product `[m, n]`, of which each thread writes panels of its own.
pub(crate) struct Output<'a> {
    values: Disjoint<'a, f32>,
    m: usize,
    n: usize,
}

impl Output<'_> {
    /// The columns of `panel` that the matrix has (its last panel may be padded).
    fn columns(&self, panel: usize) -> usize {
        PANEL.min(self.n - panel * PANEL)
    }

    /// Writes one row's part of a panel.
    ///
    /// # Safety
    /// No other thread may write to that row and panel meanwhile.
    unsafe fn store(&self, row: usize, panel: usize, values: &[f32; PANEL]) {
        debug_assert!(row < self.m);
        let columns = self.columns(panel);
        // SAFETY: a part of one row and panel, which is this thread's.
        let part = unsafe { self.values.slice(row * self.n + panel * PANEL, columns) };
        part.copy_from_slice(&values[..columns]);
    }
}

#[cfg(test)]
mod tests;
