//! The weight formats of a GGUF file, and the reference that turns their bytes into numbers.
//!
//! Formats and formulas are those of ggml (`ggml-quants.c`, and the Python package `gguf`, against which
//! `tests/dequant.rs` holds this file bit for bit).

mod blocks;

use std::fmt;

/// How the numbers of a weight matrix are stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quant {
    /// 32-bit floats.
    F32,
    /// 32 numbers `d * q + m`: 4 bits each, with an f16 scale and an f16 minimum.
    Q4_1,
    /// 32 numbers `d * (q - 16)`: 5 bits each, with an f16 scale.
    Q5_0,
    /// 32 numbers `d * q`: signed bytes, with an f16 scale.
    Q8_0,
    /// 256 numbers in 8 blocks `(d * s) * q - (dmin * m)`: 4 bits each, with 6-bit `s` and `m`.
    Q4K,
    /// 256 numbers in 16 blocks `(d * s) * (q - 32)`: 6 bits each, with 8-bit `s`.
    Q6K,
}

impl Quant {
    /// All formats.
    pub const ALL: [Quant; 6] =
        [Quant::F32, Quant::Q4_1, Quant::Q5_0, Quant::Q8_0, Quant::Q4K, Quant::Q6K];

    /// How many numbers make one block; a row's length is a multiple of it.
    #[must_use]
    pub const fn block_len(self) -> usize {
        match self {
            Quant::F32 => 1,
            Quant::Q4_1 | Quant::Q5_0 | Quant::Q8_0 => 32,
            Quant::Q4K | Quant::Q6K => 256,
        }
    }

    /// How many bytes one block has in the file.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        match self {
            Quant::F32 => 4,
            Quant::Q4_1 => 20,
            Quant::Q5_0 => 22,
            Quant::Q8_0 => 34,
            Quant::Q4K => 144,
            Quant::Q6K => 210,
        }
    }

    /// The bytes of `length` numbers in the file; `None` if that is no whole number of blocks or overflows.
    #[must_use]
    pub const fn bytes_of(self, length: usize) -> Option<usize> {
        if length.is_multiple_of(self.block_len()) {
            (length / self.block_len()).checked_mul(self.block_bytes())
        } else {
            None
        }
    }

    /// The name that ggml gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Quant::F32 => "F32",
            Quant::Q4_1 => "Q4_1",
            Quant::Q5_0 => "Q5_0",
            Quant::Q8_0 => "Q8_0",
            Quant::Q4K => "Q4_K",
            Quant::Q6K => "Q6_K",
        }
    }
}

impl fmt::Display for Quant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Turns `bytes`, as they are in the file, into `out.len()` numbers.
///
/// The result is bit for bit what ggml's formulas give in f32, every operation rounded once.
///
/// # Panics
/// When `bytes` is not exactly the bytes of `out.len()` numbers ([`Quant::bytes_of`]).
pub fn dequantise(quant: Quant, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(
        Some(bytes.len()),
        quant.bytes_of(out.len()),
        "bytes of {} {quant} numbers",
        out.len()
    );
    let blocks =
        bytes.chunks_exact(quant.block_bytes()).zip(out.chunks_exact_mut(quant.block_len()));
    let decode = match quant {
        Quant::F32 => blocks::f32,
        Quant::Q4_1 => blocks::q4_1,
        Quant::Q5_0 => blocks::q5_0,
        Quant::Q8_0 => blocks::q8_0,
        Quant::Q4K => blocks::q4_k,
        Quant::Q6K => blocks::q6_k,
    };
    for (block, numbers) in blocks {
        decode(block, numbers);
    }
}

pub(crate) use blocks::{q4_k_scale_and_min, q6_k_quant};
