//! Products of activations with a weight matrix.
//!
//! # One order for every sum
//!
//! An element of a product is summed in one order, on every path, however many rows or threads there are:
//!
//! - quantised: block by block in ascending k, `sum = fma(float(dot) * weight scale, activation scale, sum)`, where `dot`
//!   is the exact integer product of the block's 32 quants (any order gives the same), then, where the format has
//!   minima, `sum = fma(minimum, scaled sum, sum)`. Where a format has a scale for each 16 k, each half of a block is such a step.
//! - floats: `sum = fma(weight, activation, sum)` in ascending k.
//!
//! So a row's bits depend on that row and the matrix alone, and all instruction-set paths give the same bits.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod format;
mod scalar;
mod split;

use crate::activations::Activations;
use crate::compute::{Compute, Disjoint};
use crate::isa::Isa;
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
    multiply(
        compute,
        weights,
        activations,
        &Output { values: Disjoint::new(out), m, n, pairs: false },
    );
}

/// Multiplies as [`matmul`], and adds up each two rows of the product into one row of `out`, `[m / 2, n]`: the even one, plus the
/// odd one (see [`Activations::load_refined`]). The same bits as adding them afterwards, and half the memory.
///
/// # Panics
/// As `matmul`, and when `m` is odd.
pub fn matmul_pairs(
    compute: &Compute,
    weights: &Weights,
    activations: &Activations,
    out: &mut [f32],
) {
    let (m, n, k) = (activations.m(), weights.n(), weights.k());
    assert_eq!(activations.k(), k, "activations are as long as the matrix's rows");
    assert!(m.is_multiple_of(2), "{m} rows are no pairs");
    assert_eq!(Some(out.len()), (m / 2).checked_mul(n), "a product of {m} by {n}, in pairs");
    multiply(
        compute,
        weights,
        activations,
        &Output { values: Disjoint::new(out), m, n, pairs: true },
    );
}

fn multiply(compute: &Compute, weights: &Weights, activations: &Activations, output: &Output<'_>) {
    if output.m == 0 {
        return;
    }
    let float = weights.quant().is_float();
    match compute.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            // SAFETY: a `Compute` has only a path that the CPU has.
            unsafe {
                if float {
                    avx512::floats(compute, weights, activations.floats(), output);
                } else {
                    avx512::quantised(compute, weights, activations.blocks(), output);
                }
            }
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            // SAFETY: as above.
            unsafe {
                if float {
                    avx2::floats(compute, weights, activations.floats(), output);
                } else {
                    avx2::quantised(compute, weights, activations.blocks(), output);
                }
            }
        }
        _ if float => scalar::floats(compute, weights, activations.floats(), output),
        _ => scalar::quantised(compute, weights, activations.blocks(), output),
    }
}

/// The product `[m, n]`, of which each thread writes panels of its own, for each of them the rows of its part in ascending order.
pub(crate) struct Output<'a> {
    values: Disjoint<'a, f32>,
    m: usize,
    n: usize,
    /// Whether an odd row is added to the even one before it. The two are one thread's: [`split`] cuts rows at even ones.
    pairs: bool,
}

impl Output<'_> {
    /// Where a row's part of a panel begins, and whether it is to be added to what is there.
    #[inline(always)]
    fn place(&self, row: usize, panel: usize) -> (usize, bool) {
        let (row, adds) = if self.pairs { (row / 2, row % 2 == 1) } else { (row, false) };
        (row * self.n + panel * PANEL, adds)
    }

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
        let (place, adds) = self.place(row, panel);
        // SAFETY: a part of one row and panel, which is this thread's.
        let part = unsafe { self.values.slice(place, columns) };
        if adds {
            part.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        } else {
            part.copy_from_slice(&values[..columns]);
        }
    }

    /// Fetches the place of a later store, which would wait for it otherwise: a chunk's product is larger than the caches.
    ///
    /// # Safety
    /// As for [`Output::store`].
    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn expect_store(&self, row: usize, panel: usize) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a part of one row and panel, which is this thread's; a prefetch changes nothing.
        unsafe {
            let part = self.values.slice(self.place(row, panel).0, self.columns(panel));
            _mm_prefetch::<_MM_HINT_ET0>(part.as_ptr().cast());
        }
    }

    /// As [`Output::store`], from a register.
    ///
    /// # Safety
    /// As for `store`, and the CPU has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_register(&self, row: usize, panel: usize, values: std::arch::x86_64::__m512) {
        use std::arch::x86_64::{
            _mm512_add_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_storeu_ps,
        };
        debug_assert!(row < self.m);
        let columns = self.columns(panel);
        let (place, adds) = self.place(row, panel);
        // SAFETY: a part of one row and panel, which is this thread's; masked loads and stores touch only its columns.
        unsafe {
            let part = self.values.slice(place, columns).as_mut_ptr();
            let mut values = values;
            if adds {
                let mask = ((1_u32 << columns) - 1) as u16;
                values = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, part), values);
            }
            if columns == PANEL {
                _mm512_storeu_ps(part, values);
            } else {
                _mm512_mask_storeu_ps(part, (1 << columns) - 1, values);
            }
        }
    }
}

#[cfg(test)]
mod tests;
