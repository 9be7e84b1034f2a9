//! A weight matrix in the form that the products read.

mod buffer;
pub(crate) mod layout;
mod pack;
pub(crate) mod unpack;

use thiserror::Error;

pub(crate) use buffer::Buffer;

use crate::compute::Compute;
use crate::quant::{Quant, dequantise};
use layout::{BLOCK, Layout, PANEL};
use unpack::Unpacked;

/// Bytes of a file that are packed between two looks at what can be let go: enough to keep all threads busy.
const PART_BYTES: usize = 8 << 20;

/// A matrix `[n rows, k columns]`, repacked once so that each product streams it in storage order.
///
/// The packed form keeps every bit of the file's own (its integers and its scales), takes the same space, and
/// is the same on every instruction-set path. A row can be read back exactly ([`Weights::row`]), so an embedding table that is
/// the output head as well is kept once.
pub struct Weights {
    layout: Layout,
    n: usize,
    k: usize,
    data: Buffer,
}

/// Why bytes are no matrix.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PackError {
    /// A matrix without rows or without columns.
    #[error("a {quant} matrix of {n} rows and {k} columns is empty")]
    Empty {
        /// The format.
        quant: Quant,
        /// Rows.
        n: usize,
        /// Columns.
        k: usize,
    },
    /// A row is not a whole number of the format's blocks.
    #[error("{quant} rows must be a multiple of {} long, not {k}", quant.block_len())]
    Columns {
        /// The format.
        quant: Quant,
        /// Columns.
        k: usize,
    },
    /// The bytes are not those of the matrix.
    #[error("a {quant} matrix of {n} rows and {k} columns has {expected} bytes, not {found}")]
    Length {
        /// The format.
        quant: Quant,
        /// Rows.
        n: usize,
        /// Columns.
        k: usize,
        /// The bytes that the matrix must have.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The matrix does not fit the address space.
    #[error("a {quant} matrix of {n} rows and {k} columns is too large")]
    TooLarge {
        /// The format.
        quant: Quant,
        /// Rows.
        n: usize,
        /// Columns.
        k: usize,
    },
}

impl Weights {
    /// Packs the `bytes` of a file's matrix of `n` rows of `k` numbers each, on all threads.
    ///
    /// Any contents are accepted: a scale that is not a number makes results that are not numbers.
    ///
    /// # Errors
    /// When the shape is empty, not whole blocks, too large, or not that of the bytes.
    pub fn pack(
        compute: &Compute,
        quant: Quant,
        n: usize,
        k: usize,
        bytes: &[u8],
    ) -> Result<Weights, PackError> {
        Weights::pack_in_parts(compute, quant, n, k, bytes, |_| ())
    }

    /// The same, some megabytes at a time: `packed` gets each part of `bytes` when it will not be read again, in order. What lies in
    /// a mapped file can be let go then, so that no large matrix is held twice.
    ///
    /// # Errors
    /// As [`Weights::pack`], before anything is packed.
    pub fn pack_in_parts(
        compute: &Compute,
        quant: Quant,
        n: usize,
        k: usize,
        bytes: &[u8],
        mut packed: impl FnMut(&[u8]),
    ) -> Result<Weights, PackError> {
        if n == 0 || k == 0 {
            return Err(PackError::Empty { quant, n, k });
        }
        if !k.is_multiple_of(quant.block_len()) {
            return Err(PackError::Columns { quant, k });
        }
        let too_large = || PackError::TooLarge { quant, n, k };
        let row_bytes = quant.bytes_of(k).ok_or_else(too_large)?;
        let expected = row_bytes.checked_mul(n).ok_or_else(too_large)?;
        if bytes.len() != expected {
            return Err(PackError::Length { quant, n, k, expected, found: bytes.len() });
        }
        let layout = Layout::new(quant, k).ok_or_else(too_large)?;
        let size = n.div_ceil(PANEL).checked_mul(layout.panel_bytes).ok_or_else(too_large)?;
        let mut data = Buffer::zeroed(size).ok_or_else(too_large)?;
        // A panel of the file, and as many of them as make a part.
        let step = PANEL.checked_mul(row_bytes).ok_or_else(too_large)?;
        let panels = (PART_BYTES / step).max(1);
        let parts = data.chunks_mut(panels * layout.panel_bytes);
        for (part, file) in parts.zip(bytes.chunks(panels * step)) {
            compute.run_pieces(part, layout.panel_bytes, |index, panel| {
                let start = index * step;
                let file = &file[start..file.len().min(start + step)];
                let mut rows: [&[u8]; PANEL] = [&[]; PANEL];
                let mut count = 0;
                for (slot, row) in rows.iter_mut().zip(file.chunks_exact(row_bytes)) {
                    *slot = row;
                    count += 1;
                }
                pack::pack_panel(&layout, &rows[..count], panel);
            });
            packed(file);
        }
        Ok(Weights { layout, n, k, data })
    }

    /// Rows of the matrix: the length of a product's rows.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n
    }

    /// Columns of the matrix: the length of the rows that it is multiplied with.
    #[must_use]
    pub fn k(&self) -> usize {
        self.k
    }

    /// The format of the file's bytes.
    #[must_use]
    pub fn quant(&self) -> Quant {
        self.layout.quant
    }

    /// Bytes that the packed form takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Row `i` as numbers, bit for bit what [`dequantise`](crate::dequantise) makes of the file's bytes.
    ///
    /// # Panics
    /// When there is no such row, or `out` is not [`Weights::k`] long.
    pub fn row(&self, i: usize, out: &mut [f32]) {
        assert!(i < self.n, "row {i} of {}", self.n);
        assert_eq!(out.len(), self.k, "length of a row");
        let (panel, column) = (self.panel(i / PANEL), i % PANEL);
        if self.layout.quant.is_float() {
            let size = self.layout.quant.block_bytes();
            let lines = panel.chunks_exact(self.layout.quants_step);
            for (number, line) in out.iter_mut().zip(lines) {
                let number = std::slice::from_mut(number);
                dequantise(self.layout.quant, &line[column * size..][..size], number);
            }
            return;
        }
        let mut unpacked = Unpacked::new();
        for (block, numbers) in out.chunks_exact_mut(BLOCK).enumerate() {
            unpacked.read(&self.layout, panel, block);
            unpacked.column(self.layout.quant, column, numbers);
        }
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn panels(&self) -> usize {
        self.n.div_ceil(PANEL)
    }

    /// The bytes of panel `index`, see [`layout`].
    pub(crate) fn panel(&self, index: usize) -> &[u8] {
        &self.data[index * self.layout.panel_bytes..][..self.layout.panel_bytes]
    }
}

impl std::fmt::Debug for Weights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Weights")
            .field("quant", &self.quant())
            .field("n", &self.n)
            .field("k", &self.k)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::isa::Isa;

    fn error(quant: Quant, n: usize, k: usize, bytes: &[u8]) -> PackError {
        Weights::pack(&Compute::new(Isa::Scalar, 1), quant, n, k, bytes).unwrap_err()
    }

    #[test]
    fn shapes_that_do_not_fit_are_named() {
        let of = |quant, n, k| error(quant, n, k, &[0; 10]).to_string();
        assert_eq!(of(Quant::Q8_0, 0, 32), "a Q8_0 matrix of 0 rows and 32 columns is empty");
        assert_eq!(of(Quant::Q8_0, 1, 40), "Q8_0 rows must be a multiple of 32 long, not 40");
        assert_eq!(of(Quant::Q6K, 1, 640), "Q6_K rows must be a multiple of 256 long, not 640");
        assert_eq!(
            of(Quant::Q4_1, 2, 64),
            "a Q4_1 matrix of 2 rows and 64 columns has 80 bytes, not 10"
        );
    }

    #[test]
    fn sizes_that_overflow_are_too_large() {
        for (n, k) in
            [(usize::MAX, 32), (1 << 40, 1 << 40), (1, usize::MAX / 32 * 32), (2, 1 << 62)]
        {
            for quant in [Quant::F32, Quant::Q8_0] {
                let got = error(quant, n, k, &[0; 10]);
                // Either the file's bytes or the packed ones overflow, or the file is too short for what does not.
                let fits = matches!(got, PackError::TooLarge { .. } | PackError::Length { .. });
                assert!(fits, "{got}");
            }
        }
        let got = error(Quant::F32, usize::MAX / 4, 8, &[]);
        assert_eq!(got, PackError::TooLarge { quant: Quant::F32, n: usize::MAX / 4, k: 8 });
    }

    #[test]
    fn parts_are_the_bytes_in_order_and_pack_the_same() {
        let compute = Compute::new(Isa::Scalar, 2);
        // More than two parts, the last with a panel of one row.
        let (n, k) = (16 * 40 + 1, 32 * 1024);
        // No byte makes an f16 that is not finite.
        let length = n * Quant::Q8_0.bytes_of(k).unwrap();
        let bytes: Vec<u8> = (0..length).map(|i| (i % 97) as u8).collect();
        assert!(bytes.len() > 2 * PART_BYTES);
        let mut at = 0;
        let weights = Weights::pack_in_parts(&compute, Quant::Q8_0, n, k, &bytes, |part| {
            assert!(part.as_ptr() == bytes[at..].as_ptr() && part.len() <= PART_BYTES);
            at += part.len();
        });
        assert_eq!(at, bytes.len());
        let weights = weights.unwrap();
        let (mut got, mut want) = (vec![0.0; k], vec![0.0; k]);
        for row in [0, 15, 16, 240, 241, 16 * 40] {
            weights.row(row, &mut got);
            let file = bytes.chunks_exact(bytes.len() / n).nth(row).unwrap();
            crate::dequantise(Quant::Q8_0, file, &mut want);
            let same = got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "row {row}");
        }
    }

    #[test]
    fn packing_takes_the_files_space_when_panels_are_full() {
        let compute = Compute::new(Isa::Scalar, 2);
        for quant in Quant::ALL {
            let bytes = vec![0; 64 * quant.bytes_of(512).unwrap()];
            let weights = Weights::pack(&compute, quant, 64, 512, &bytes).unwrap();
            // The 6-bit scales and minima of Q4_K and Q5_K become bytes: 4 bytes more than 144 or 176 for 256 numbers.
            let more = match quant {
                Quant::Q4K => bytes.len() / 36,
                Quant::Q5K => bytes.len() / 44,
                _ => 0,
            };
            assert_eq!(weights.bytes(), bytes.len() + more, "{quant}");
        }
    }
}
