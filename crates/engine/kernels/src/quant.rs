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
    /// 16-bit floats (IEEE half precision).
    F16,
    /// The upper 16 bits of 32-bit floats.
    Bf16,
    /// 32 numbers `d * (q - 8)`: 4 bits each, with an f16 scale.
    Q4_0,
    /// 32 numbers `d * q + m`: 4 bits each, with an f16 scale and an f16 minimum.
    Q4_1,
    /// 32 numbers `d * (q - 16)`: 5 bits each, with an f16 scale.
    Q5_0,
    /// 32 numbers `d * q + m`: 5 bits each, with an f16 scale and an f16 minimum.
    Q5_1,
    /// 32 numbers `d * q`: signed bytes, with an f16 scale.
    Q8_0,
    /// 256 numbers in 8 blocks `(d * s) * q - (dmin * m)`: 4 bits each, with 6-bit `s` and `m`.
    Q4K,
    /// 256 numbers in 8 blocks `(d * s) * q - (dmin * m)`: 5 bits each, with 6-bit `s` and `m`.
    Q5K,
    /// 256 numbers in 16 blocks `(d * s) * (q - 32)`: 6 bits each, with 8-bit `s`.
    Q6K,
}

impl Quant {
    /// All formats.
    pub const ALL: [Quant; 11] = [
        Quant::F32,
        Quant::F16,
        Quant::Bf16,
        Quant::Q4_0,
        Quant::Q4_1,
        Quant::Q5_0,
        Quant::Q5_1,
        Quant::Q8_0,
        Quant::Q4K,
        Quant::Q5K,
        Quant::Q6K,
    ];

    /// Whether the numbers are floats, whose products take the activations as floats; all others take them as 8-bit integers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Quant::F32 | Quant::F16 | Quant::Bf16)
    }

    /// How many numbers make one block; a row's length is a multiple of it.
    #[must_use]
    pub const fn block_len(self) -> usize {
        match self {
            Quant::F32 | Quant::F16 | Quant::Bf16 => 1,
            Quant::Q4_0 | Quant::Q4_1 | Quant::Q5_0 | Quant::Q5_1 | Quant::Q8_0 => 32,
            Quant::Q4K | Quant::Q5K | Quant::Q6K => 256,
        }
    }

    /// How many bytes one block has in the file.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        match self {
            Quant::F32 => 4,
            Quant::F16 | Quant::Bf16 => 2,
            Quant::Q4_0 => 18,
            Quant::Q4_1 => 20,
            Quant::Q5_0 => 22,
            Quant::Q5_1 => 24,
            Quant::Q8_0 => 34,
            Quant::Q4K => 144,
            Quant::Q5K => 176,
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
            Quant::F16 => "F16",
            Quant::Bf16 => "BF16",
            Quant::Q4_0 => "Q4_0",
            Quant::Q4_1 => "Q4_1",
            Quant::Q5_0 => "Q5_0",
            Quant::Q5_1 => "Q5_1",
            Quant::Q8_0 => "Q8_0",
            Quant::Q4K => "Q4_K",
            Quant::Q5K => "Q5_K",
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
        Quant::F16 => blocks::f16,
        Quant::Bf16 => blocks::bf16,
        Quant::Q4_0 => blocks::q4_0,
        Quant::Q4_1 => blocks::q4_1,
        Quant::Q5_0 => blocks::q5_0,
        Quant::Q5_1 => blocks::q5_1,
        Quant::Q8_0 => blocks::q8_0,
        Quant::Q4K => blocks::q4_k,
        Quant::Q5K => blocks::q5_k,
        Quant::Q6K => blocks::q6_k,
    };
    for (block, numbers) in blocks {
        decode(block, numbers);
    }
}

pub(crate) use blocks::{k_scale_and_min, q5_k_quant, q6_k_quant};
