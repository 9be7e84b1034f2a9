//! The memory that holds keys and values: blocks of pages in bf16, in the layout that the attention kernels read.
//!
//! A block holds `block_tokens` tokens of every layer of one group and every KV head:
//! `[layer][tile of 16 tokens][KV head][K then V]`. Within a tile, with `d` for the head's dimension,
//!
//! - K is `[d / 2][16 keys][2 dims]`: one 64-byte row is two dims of all sixteen keys, so a score needs no reduction over lanes;
//! - V is `[d / 32][8 key pairs][32 dims][2 keys]`: one kilobyte is 32 dims of all sixteen keys.
//!
//! Both let one 512-bit load feed every query row of a tile. Block 0 is the null block: it is never written, and reads as zeros.

mod bf16;
mod sequence;
mod write;

pub use sequence::SeqRows;
pub(crate) use sequence::check_rows;
pub use write::write_kv;

pub(crate) use bf16::{from_bf16, to_bf16};

use memmap2::MmapMut;

/// Tokens in one tile, the unit that the kernels read.
pub const TILE_TOKENS: usize = 16;

/// Regions from this size on ask for huge pages: decoding walks all of a long prompt's pages, and small ones cost TLB misses
/// (measured: 10 percent in decoding, 2 in prefill).
const HUGE_PAGES_FROM: usize = 8 << 20;

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
}

impl KvLayout {
    /// Bytes of one block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_elements() * size_of::<u16>()
    }

    /// Tiles of 16 tokens in one block.
    #[must_use]
    pub fn tiles_per_block(&self) -> usize {
        self.block_tokens / TILE_TOKENS
    }

    /// bf16 values in one block.
    pub(crate) fn block_elements(&self) -> usize {
        self.layers_per_block * self.layer_elements()
    }

    /// bf16 values that one layer takes of a block.
    pub(crate) fn layer_elements(&self) -> usize {
        self.tiles_per_block() * self.kv_heads * self.tile_elements()
    }

    /// bf16 values in one tile of one KV head, K and V together.
    pub(crate) fn tile_elements(&self) -> usize {
        2 * TILE_TOKENS * self.head_dim
    }

    fn check(&self) -> Result<(), KvStoreError> {
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

/// Why a [`KvStore`] could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvStoreError {
    /// The kernels cannot work with such blocks.
    #[error("unusable KV layout {layout:?}: {what}")]
    Layout {
        /// The layout that was asked for.
        layout: KvLayout,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The size does not fit the address space.
    #[error("{blocks} blocks of {block_bytes} bytes exceed the address space")]
    TooLarge {
        /// Blocks that were asked for.
        blocks: usize,
        /// Bytes of one block.
        block_bytes: usize,
    },
    /// The operating system refused the memory.
    #[error("reserve {bytes} bytes for keys and values")]
    Map {
        /// Bytes that were asked for.
        bytes: usize,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
}

/// Keys and values of all blocks, in one region that the operating system fills lazily: a block that was never written
/// takes address space, not memory (in units of the page size, up to 2 MB where huge pages are granted).
///
/// ```
/// use tapri_kernels::{KvLayout, KvStore};
/// let layout = KvLayout { layers_per_block: 3, kv_heads: 1, head_dim: 256, block_tokens: 16 };
/// let store = KvStore::new(layout, 1_000)?;
/// assert_eq!(store.bytes(), 1_000 * layout.block_bytes());
/// # Ok::<(), tapri_kernels::KvStoreError>(())
/// ```
#[derive(Debug)]
pub struct KvStore {
    layout: KvLayout,
    blocks: usize,
    memory: MmapMut,
    /// Blocks written since they were last cleared; clearing any other would only make its pages resident.
    written: Vec<bool>,
}

impl KvStore {
    /// Reserves `blocks` zeroed blocks, the null block included.
    ///
    /// # Errors
    /// When the layout is unusable, the size overflows, or the operating system refuses.
    pub fn new(layout: KvLayout, blocks: usize) -> Result<Self, KvStoreError> {
        layout.check()?;
        let block_bytes = layout.block_bytes();
        let too_large = KvStoreError::TooLarge { blocks, block_bytes };
        let Some(bytes) = block_bytes.checked_mul(blocks).filter(|&b| b <= isize::MAX as usize)
        else {
            return Err(too_large);
        };
        // A mapping must not be empty; a store without blocks is of no use but no error either.
        let map = MmapMut::map_anon(bytes.max(1));
        let memory = map.map_err(|source| KvStoreError::Map { bytes, source })?;
        #[cfg(target_os = "linux")]
        if bytes >= HUGE_PAGES_FROM {
            // Only advice: without it everything works, a little slower.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        Ok(Self { layout, blocks, memory, written: vec![false; blocks] })
    }

    /// The shape of the blocks.
    #[must_use]
    pub fn layout(&self) -> &KvLayout {
        &self.layout
    }

    /// Number of blocks, the null block included.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes reserved (not: resident).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks * self.layout.block_bytes()
    }

    /// Zeroes a block. Must be called whenever a block is handed out anew: attention multiplies the values of masked
    /// tokens by zero, and a stale infinity would turn that into NaN.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn clear_block(&mut self, block: u32) {
        let id = block as usize;
        assert!(id < self.blocks, "block {id} of {}", self.blocks);
        if std::mem::take(&mut self.written[id]) {
            let size = self.layout.block_bytes();
            self.memory[id * size..(id + 1) * size].fill(0);
        }
    }

    /// Makes a block the same as another.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn copy_block(&mut self, from: u32, to: u32) {
        let (from, to) = (from as usize, to as usize);
        assert!(from < self.blocks && to < self.blocks, "blocks {from}, {to} of {}", self.blocks);
        let size = self.layout.block_bytes();
        self.memory.copy_within(from * size..(from + 1) * size, to * size);
        self.written[to] = true;
    }

    /// The bytes of a block, as another store of the same layout could take them over.
    ///
    /// # Panics
    /// When there is no such block.
    #[must_use]
    pub fn block(&self, block: u32) -> &[u8] {
        let id = block as usize;
        assert!(id < self.blocks, "block {id} of {}", self.blocks);
        let size = self.layout.block_bytes();
        &self.memory[id * size..(id + 1) * size]
    }

    /// Reads back one token's key and value of one KV head, as stored (bf16 widened to f32).
    ///
    /// # Panics
    /// When an index is outside the layout, or `k` or `v` is not `head_dim` long.
    pub fn read_token(
        &self,
        block: u32,
        layer: usize,
        slot: usize,
        kv_head: usize,
        k: &mut [f32],
        v: &mut [f32],
    ) {
        let l = &self.layout;
        assert!(
            (block as usize) < self.blocks && layer < l.layers_per_block,
            "block {block}, layer {layer}"
        );
        assert!(slot < l.block_tokens && kv_head < l.kv_heads, "slot {slot}, KV head {kv_head}");
        assert!(k.len() == l.head_dim && v.len() == l.head_dim, "k and v must be one head long");
        let start = self.tile_offset(block, layer, slot / TILE_TOKENS, kv_head);
        let tile = &self.elements()[start..start + l.tile_elements()];
        let (keys, values) = tile.split_at(TILE_TOKENS * l.head_dim);
        let slot = slot % TILE_TOKENS;
        for d in 0..l.head_dim {
            k[d] = from_bf16(keys[key_index(d, slot)]);
            v[d] = from_bf16(values[value_index(d, slot)]);
        }
    }

    pub(crate) fn elements(&self) -> &[u16] {
        bytemuck::cast_slice(&self.memory[..self.bytes()])
    }

    /// Where a tile of one KV head starts, in bf16 values from the region's start.
    pub(crate) fn tile_offset(
        &self,
        block: u32,
        layer: usize,
        tile: usize,
        kv_head: usize,
    ) -> usize {
        let l = &self.layout;
        (((block as usize * l.layers_per_block + layer) * l.tiles_per_block() + tile) * l.kv_heads
            + kv_head)
            * l.tile_elements()
    }

    fn elements_mut(&mut self) -> &mut [u16] {
        let bytes = self.bytes();
        bytemuck::cast_slice_mut(&mut self.memory[..bytes])
    }
}

/// Index of dimension `d` of key `slot` in the K part of a tile.
#[inline(always)]
pub(crate) fn key_index(d: usize, slot: usize) -> usize {
    (d / 2) * (2 * TILE_TOKENS) + slot * 2 + d % 2
}

/// Index of dimension `d` of value `slot` in the V part of a tile.
#[inline(always)]
pub(crate) fn value_index(d: usize, slot: usize) -> usize {
    (d / 32) * (32 * TILE_TOKENS) + (slot / 2) * 64 + (d % 32) * 2 + slot % 2
}
