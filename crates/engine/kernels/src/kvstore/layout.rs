//! The shape of a block, and how its numbers are stored.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{KvStoreError, q8};

/// Tokens in one tile, the unit that the kernels read.
pub const TILE_TOKENS: usize = 16;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvType {
    /// 16 bits: the upper half of an f32. The kernels multiply it where it lies.
    #[default]
    Bf16,
    /// Signed bytes with a scale for each 32 dims of a head: 8.5 bits a number. Read through a page that is unpacked to bf16.
    Q8_0,
}

/// A name that is no [`KvType`]'s.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown KV type `{0}` (known: bf16, q8_0)")]
pub struct KvTypeError(String);

impl KvType {
    /// All types, the exact one first.
    pub const ALL: [KvType; 2] = [KvType::Bf16, KvType::Q8_0];

    /// The name, as it is set and as it stands in a block's key.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            KvType::Bf16 => "bf16",
            KvType::Q8_0 => "q8_0",
        }
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KvType {
    type Err = KvTypeError;

    fn from_str(name: &str) -> Result<KvType, KvTypeError> {
        KvType::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| KvTypeError(name.to_owned()))
    }
}

/// The shape of a block: every block of a store has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvLayout {
    /// Layers of a group; each block holds the keys and values of all of them.
    pub layers_per_block: usize,
    /// KV heads of a layer.
    pub kv_heads: usize,
    /// Dimensions of a head, a multiple of 32.
    pub head_dim: usize,
    /// Tokens of a block: a multiple of 16 that divides 256.
    pub block_tokens: usize,
    /// How the numbers are stored.
    pub kv_type: KvType,
}

impl KvLayout {
    /// Bytes of one block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.layers_per_block * self.tiles_per_block() * self.kv_heads * self.tile_bytes()
    }

    /// Tiles of 16 tokens in one block.
    #[must_use]
    pub fn tiles_per_block(&self) -> usize {
        self.block_tokens / TILE_TOKENS
    }

    /// Numbers in one tile of one KV head, K and V together.
    pub(crate) fn tile_elements(&self) -> usize {
        2 * TILE_TOKENS * self.head_dim
    }

    /// Bytes that they take.
    pub(crate) fn tile_bytes(&self) -> usize {
        match self.kv_type {
            KvType::Bf16 => self.tile_elements() * size_of::<u16>(),
            KvType::Q8_0 => 2 * q8::part_bytes(self.head_dim),
        }
    }

    pub(super) fn check(&self) -> Result<(), KvStoreError> {
        let reject = |what| Err(KvStoreError::Layout { layout: *self, what });
        if self.layers_per_block == 0 || self.kv_heads == 0 {
            return reject("there must be at least one layer and one KV head");
        }
        if self.head_dim == 0 || !self.head_dim.is_multiple_of(32) {
            return reject("the head dimension must be a multiple of 32");
        }
        if self.block_tokens == 0
            || !self.block_tokens.is_multiple_of(TILE_TOKENS)
            || 256 % self.block_tokens != 0
        {
            return reject("tokens per block must be 16, 32, 64, 128 or 256");
        }
        Ok(())
    }
}

/// Index of dimension `d` of key `slot` in the K part of a tile.
#[inline(always)]
pub(super) fn key_index(d: usize, slot: usize) -> usize {
    (d / 2) * (2 * TILE_TOKENS) + slot * 2 + d % 2
}

/// Index of dimension `d` of value `slot` in the V part of a tile.
#[inline(always)]
pub(super) fn value_index(d: usize, slot: usize) -> usize {
    (d / 32) * (32 * TILE_TOKENS) + (slot / 2) * 64 + (d % 32) * 2 + slot % 2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_round_trip_and_an_unknown_one_lists_them() {
        for kind in KvType::ALL {
            assert_eq!(kind.name().parse::<KvType>().unwrap(), kind);
        }
        let error = "q4_0".parse::<KvType>().unwrap_err().to_string();
        assert_eq!(error, "unknown KV type `q4_0` (known: bf16, q8_0)");
    }

    #[test]
    fn q8_0_takes_little_more_than_half() {
        for (layers, kv_heads, head_dim, block_tokens) in [(3, 1, 256, 16), (30, 3, 64, 32)] {
            let kv_type = KvType::Bf16;
            let wide =
                KvLayout { layers_per_block: layers, kv_heads, head_dim, block_tokens, kv_type };
            let narrow = KvLayout { kv_type: KvType::Q8_0, ..wide };
            // 8 bits and a sixteen-bit scale for each 32 numbers: 8.5 of 16 bits.
            assert_eq!(narrow.block_bytes() * 32, wide.block_bytes() * 17);
            assert_eq!(
                wide.block_bytes(),
                layers * kv_heads * head_dim * block_tokens * 2 * size_of::<u16>()
            );
        }
    }
}
