//! The storage types of tensors.

/// How a tensor's values are stored. The numbers are GGML's type ids.
///
/// Values come in blocks of [`block_len`](TensorType::block_len) that take [`block_bytes`](TensorType::block_bytes).
/// That this crate knows a type's size does not mean that the kernels can compute with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TensorType {
    /// 32-bit float.
    F32,
    /// 16-bit float (IEEE half).
    F16,
    /// 4 bits, one f16 scale for 32 values.
    Q4_0,
    /// 4 bits, f16 scale and minimum for 32 values.
    Q4_1,
    /// 5 bits, one f16 scale for 32 values.
    Q5_0,
    /// 5 bits, f16 scale and minimum for 32 values.
    Q5_1,
    /// 8 bits, one f16 scale for 32 values.
    Q8_0,
    /// 8 bits with a sum, used for activations.
    Q8_1,
    /// 2-bit K-quant.
    Q2K,
    /// 3-bit K-quant.
    Q3K,
    /// 4-bit K-quant.
    Q4K,
    /// 5-bit K-quant.
    Q5K,
    /// 6-bit K-quant.
    Q6K,
    /// 8-bit K-quant, used for activations.
    Q8K,
    /// 2.06-bit codebook.
    Iq2Xxs,
    /// 2.31-bit codebook.
    Iq2Xs,
    /// 3.06-bit codebook.
    Iq3Xxs,
    /// 1.56-bit codebook.
    Iq1S,
    /// 4-bit non-linear, blocks of 32.
    Iq4Nl,
    /// 3.44-bit codebook.
    Iq3S,
    /// 2.56-bit codebook.
    Iq2S,
    /// 4-bit non-linear, blocks of 256.
    Iq4Xs,
    /// 8-bit integer.
    I8,
    /// 16-bit integer.
    I16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 64-bit float.
    F64,
    /// 1.75-bit codebook.
    Iq1M,
    /// 16-bit float with an 8-bit exponent (bfloat16).
    Bf16,
    /// 1.69-bit ternary.
    Tq1_0,
    /// 2.06-bit ternary.
    Tq2_0,
    /// Microscaling 4-bit float.
    Mxfp4,
}

impl TensorType {
    /// Every type whose size is known: type, GGML's id, GGML's name, values in a block, bytes of a block.
    const TABLE: [(TensorType, u32, &'static str, usize, usize); 32] = [
        (TensorType::F32, 0, "F32", 1, 4),
        (TensorType::F16, 1, "F16", 1, 2),
        (TensorType::Q4_0, 2, "Q4_0", 32, 18),
        (TensorType::Q4_1, 3, "Q4_1", 32, 20),
        (TensorType::Q5_0, 6, "Q5_0", 32, 22),
        (TensorType::Q5_1, 7, "Q5_1", 32, 24),
        (TensorType::Q8_0, 8, "Q8_0", 32, 34),
        (TensorType::Q8_1, 9, "Q8_1", 32, 36),
        (TensorType::Q2K, 10, "Q2_K", 256, 84),
        (TensorType::Q3K, 11, "Q3_K", 256, 110),
        (TensorType::Q4K, 12, "Q4_K", 256, 144),
        (TensorType::Q5K, 13, "Q5_K", 256, 176),
        (TensorType::Q6K, 14, "Q6_K", 256, 210),
        (TensorType::Q8K, 15, "Q8_K", 256, 292),
        (TensorType::Iq2Xxs, 16, "IQ2_XXS", 256, 66),
        (TensorType::Iq2Xs, 17, "IQ2_XS", 256, 74),
        (TensorType::Iq3Xxs, 18, "IQ3_XXS", 256, 98),
        (TensorType::Iq1S, 19, "IQ1_S", 256, 50),
        (TensorType::Iq4Nl, 20, "IQ4_NL", 32, 18),
        (TensorType::Iq3S, 21, "IQ3_S", 256, 110),
        (TensorType::Iq2S, 22, "IQ2_S", 256, 82),
        (TensorType::Iq4Xs, 23, "IQ4_XS", 256, 136),
        (TensorType::I8, 24, "I8", 1, 1),
        (TensorType::I16, 25, "I16", 1, 2),
        (TensorType::I32, 26, "I32", 1, 4),
        (TensorType::I64, 27, "I64", 1, 8),
        (TensorType::F64, 28, "F64", 1, 8),
        (TensorType::Iq1M, 29, "IQ1_M", 256, 56),
        (TensorType::Bf16, 30, "BF16", 1, 2),
        (TensorType::Tq1_0, 34, "TQ1_0", 256, 54),
        (TensorType::Tq2_0, 35, "TQ2_0", 256, 66),
        (TensorType::Mxfp4, 39, "MXFP4", 32, 17),
    ];

    /// The type with GGML's id `id`, or nothing for an id that is unknown or was withdrawn (4, 5, 31 to 33, 36 to 38).
    pub fn from_id(id: u32) -> Option<TensorType> {
        Self::TABLE.iter().find(|row| row.1 == id).map(|row| row.0)
    }

    fn row(self) -> &'static (TensorType, u32, &'static str, usize, usize) {
        // The table is in the order of the variants; `the_table_is_in_the_order_of_the_variants` holds it there.
        &Self::TABLE[self as usize]
    }

    /// GGML's id.
    pub fn id(self) -> u32 {
        self.row().1
    }

    /// GGML's name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// How many values one block holds.
    pub fn block_len(self) -> usize {
        self.row().3
    }

    /// How many bytes one block takes.
    pub fn block_bytes(self) -> usize {
        self.row().4
    }

    /// The bytes of one row of `n` values, or nothing if `n` is not a multiple of the block length or overflows.
    pub fn row_bytes(self, n: usize) -> Option<usize> {
        if !n.is_multiple_of(self.block_len()) {
            return None;
        }
        (n / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_variants() {
        for (index, row) in TensorType::TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.2);
            assert_eq!(TensorType::from_id(row.1), Some(row.0));
        }
        assert_eq!(TensorType::Mxfp4 as usize + 1, TensorType::TABLE.len());
    }

    #[test]
    fn withdrawn_and_future_ids_are_unknown() {
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 1000, u32::MAX] {
            assert_eq!(TensorType::from_id(id), None, "{id}");
        }
    }

    #[test]
    fn rows_are_whole_blocks() {
        assert_eq!(TensorType::Q4K.row_bytes(512), Some(288));
        assert_eq!(TensorType::Q4K.row_bytes(500), None);
        assert_eq!(TensorType::F64.row_bytes(usize::MAX), None);
    }
}
