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
