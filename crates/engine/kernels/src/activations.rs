//! The rows that a matrix is multiplied with, quantised once for all matrices that take them.

mod quantise;

use crate::compute::Compute;
use crate::weights::Buffer;
use crate::weights::layout::BLOCK;

/// What a set of [`Activations`] keeps of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// Both forms: right for every matrix.
    #[default]
    Both,
    /// 8-bit integers, for quantised matrices.
    Int8,
    /// 32-bit floats, for [`Quant::F32`](crate::Quant::F32) matrices.
    Float,
}

/// 32 numbers of a row as 8-bit integers, with all that a product needs beside them, in the order that it reads them.
///
/// The numbers are about `scale * quants[i]`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Block {
    /// From -127 to 127.
    pub(crate) quants: [i8; BLOCK],
    pub(crate) scale: f32,
    /// `scale` times the sum of the quants: what a minimum is multiplied with.
    pub(crate) scaled_sum: f32,
    /// -128 times the sum of the quants, in which an accumulator starts when the weights carry an offset of 128.
    pub(crate) start: i32,
    /// The part of `start` that is the first 16 quants'.
    pub(crate) start_low: i32,
}

/// A reusable buffer of rows `[m, k]`, kept as 8-bit integers with a scale for each 32 numbers, as floats, or both.
///
/// A row's integers depend on that row alone. A block of 32 that holds a NaN or an infinity gets the scale NaN, so that
/// it shows in the results.
#[derive(Default)]
pub struct Activations {
    keep: Keep,
    m: usize,
    k: usize,
    floats: Vec<f32>,
    blocks: Option<Buffer>,
    /// Where [`Activations::load_refined`] puts rows and rests together.
    rest: Vec<f32>,
}

impl Activations {
    /// An empty buffer that keeps both forms.
    #[must_use]
    pub fn new() -> Activations {
        Activations::default()
    }

    /// An empty buffer that keeps only some forms, for those who know which matrices follow.
    #[must_use]
    pub fn keeping(keep: Keep) -> Activations {
        Activations { keep, ..Activations::default() }
    }

    /// Takes the rows `x`, `[m, k]`, in place of those before.
    ///
    /// Rows whose length is not a multiple of 32 are kept as floats only (if at all): no quantised matrix takes them.
    ///
    /// # Panics
    /// When `x` is not `m * k` long, or memory for the rows runs out.
    pub fn load(&mut self, compute: &Compute, x: &[f32], m: usize, k: usize) {
        assert_eq!(Some(x.len()), m.checked_mul(k), "rows of activations: {m} by {k}");
        (self.m, self.k) = (m, k);
        if self.keep != Keep::Int8 {
            self.floats.clear();
            self.floats.extend_from_slice(x);
        }
        if self.has_blocks() {
            let blocks = self.blocks_mut(x.len() / BLOCK);
            quantise::rows(compute, x, k, blocks);
        }
    }

    /// Takes the rows `x`, `[m, k]`, as `2 m` rows: each row, and after it what its 8-bit form leaves out.
    ///
    /// Rows `2 i` and `2 i + 1` of a product add up to that of activations with some 16 bits:
    /// [`matmul_pairs`](crate::matmul_pairs). The matrix is still read once, so where reading it is what takes the time (few rows), the
    /// other 8 bits are nearly free.
    ///
    /// # Panics
    /// As [`Activations::load`].
    pub fn load_refined(&mut self, compute: &Compute, x: &[f32], m: usize, k: usize) {
        self.load(compute, x, m, k);
        let mut both = std::mem::take(&mut self.rest);
        both.clear();
        // Floats leave nothing out.
        both.resize(2 * x.len(), 0.0);
        for (index, row) in x.chunks_exact(k.max(1)).enumerate() {
            let (to, rest) = both[2 * index * k..2 * (index + 1) * k].split_at_mut(k);
            to.copy_from_slice(row);
            if self.has_blocks() {
                let blocks = &self.blocks()[index * (k / BLOCK)..(index + 1) * (k / BLOCK)];
                let parts = row.chunks_exact(BLOCK).zip(rest.chunks_exact_mut(BLOCK));
                for ((row, rest), block) in parts.zip(blocks) {
                    for ((rest, x), quant) in rest.iter_mut().zip(row).zip(block.quants) {
                        *rest = x - block.scale * f32::from(quant);
                    }
                }
            }
        }
        self.load(compute, &both, 2 * m, k);
        if self.keep != Keep::Int8 {
            for rest in self.floats.chunks_exact_mut(k.max(1)).skip(1).step_by(2) {
                rest.fill(0.0);
            }
        }
        self.rest = both;
    }

    /// Rows.
    #[must_use]
    pub fn m(&self) -> usize {
        self.m
    }

    /// The length of a row.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    fn has_blocks(&self) -> bool {
        self.keep != Keep::Float && self.k > 0 && self.k.is_multiple_of(BLOCK)
    }

    /// Room for `count` blocks, which grows as needed and never shrinks.
    fn blocks_mut(&mut self, count: usize) -> &mut [Block] {
        let bytes = count.checked_mul(size_of::<Block>());
        let enough = self.blocks.as_ref().is_some_and(|buffer| Some(buffer.len()) >= bytes);
        if !enough {
            self.blocks = bytes.and_then(Buffer::zeroed);
        }
        let buffer = self.blocks.as_deref_mut();
        assert!(buffer.is_some() || count == 0, "no memory for {count} blocks of activations");
        let buffer = buffer.unwrap_or_default();
        // SAFETY: any bytes are a `Block` (integers and floats, no padding: 48 bytes), and the buffer is on a page boundary.
        let (_, blocks, _) = unsafe { buffer.align_to_mut::<Block>() };
        &mut blocks[..count]
    }

    /// The rows as blocks, `[m][k / 32]`.
    ///
    /// # Panics
    /// When they are not kept in that form.
    pub(crate) fn blocks(&self) -> &[Block] {
        assert!(self.has_blocks(), "these activations are not kept as 8-bit integers");
        let buffer = self.blocks.as_deref().unwrap_or_default();
        // SAFETY: as in `blocks_mut`.
        let (_, blocks, _) = unsafe { buffer.align_to::<Block>() };
        &blocks[..self.m * (self.k / BLOCK)]
    }

    /// The rows as floats, `[m][k]`.
    ///
    /// # Panics
    /// When they are not kept in that form.
    pub(crate) fn floats(&self) -> &[f32] {
        assert!(self.keep != Keep::Int8, "these activations are not kept as floats");
        &self.floats
    }
}

impl std::fmt::Debug for Activations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activations")
            .field("keep", &self.keep)
            .field("m", &self.m)
            .field("k", &self.k)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Compute, Isa, Quant, Weights, matmul};

    /// A matrix of one row of ones, so that products are sums of activations.
    fn ones(compute: &Compute, quant: Quant, k: usize) -> Weights {
        let bytes: Vec<u8> = match quant {
            Quant::F32 => (0..k).flat_map(|_| 1.0_f32.to_le_bytes()).collect(),
            // Q8_0: the half 1.0, then 32 ones.
            _ => (0..k / 32).flat_map(|_| [0x00, 0x3c].into_iter().chain([1; 32])).collect(),
        };
        Weights::pack(compute, quant, 1, k, &bytes).unwrap()
    }

    #[test]
    fn refined_rows_add_up_to_sixteen_bits() {
        let (m, k) = (3, 64);
        let x: Vec<f32> = (0..m * k).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.013).collect();
        for isa in Isa::available() {
            let compute = Compute::new(isa, 1);
            for quant in [Quant::Q8_0, Quant::F32] {
                let mut activations = Activations::new();
                activations.load_refined(&compute, &x, m, k);
                assert_eq!((activations.m(), activations.k()), (2 * m, k));
                let mut out = vec![0.0; 2 * m];
                matmul(&compute, &ones(&compute, quant, k), &activations, &mut out);
                for row in 0..m {
                    let want: f32 = x[row * k..(row + 1) * k].iter().sum();
                    let got = out[2 * row] + out[2 * row + 1];
                    // Each of 64 numbers up to 0.65 is off by at most half a step of 1/127 of 1/254 of it.
                    assert!(
                        (got - want).abs() <= 64.0 * 0.65 / 127.0 / 254.0 / 2.0 + 1e-5,
                        "{isa} {quant} {row}"
                    );
                }
            }
        }
    }
}
