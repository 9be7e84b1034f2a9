//! The memory that holds keys and values: blocks of pages, in the layout that the attention kernels read.
//!
//! A block holds `block_tokens` tokens of every layer of one group and every KV head:
//! `[layer][tile of 16 tokens][KV head][K then V]`. Within a tile, with `d` for the head's dimension,
//!
//! - K is `[d / 2][16 keys][2 dims]`: one 64-byte row of bf16 is two dims of all sixteen keys, so a score needs no reduction over lanes;
//! - V is `[d / 32][8 key pairs][32 dims][2 keys]`: one kilobyte of bf16 is 32 dims of all sixteen keys.
//!
//! Both let one 512-bit load feed every query row of a tile. In q8_0 a tile has the same order in bytes, and scales behind them
//! (`kvstore/q8.rs`). Block 0 is the null block: it is never written, and reads as zeros.

mod bf16;
mod layout;
pub(crate) mod q8;
mod sequence;
mod write;

pub use layout::{KvLayout, KvType, KvTypeError, TILE_TOKENS};
pub use sequence::SeqRows;
pub(crate) use sequence::check_rows;
pub use write::write_kv;

pub(crate) use bf16::{from_bf16, round_to_bf16, to_bf16};
use layout::{key_index, value_index};

use memmap2::MmapMut;

/// Regions from this size on ask for huge pages: decoding walks all of a long prompt's pages, and small ones cost TLB misses
/// (measured: 10 percent in decoding, 2 in prefill).
const HUGE_PAGES_FROM: usize = 8 << 20;

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
/// # use tapri_kernels::KvType;
/// let kv_type = KvType::Bf16;
/// let layout = KvLayout { layers_per_block: 3, kv_heads: 1, head_dim: 256, block_tokens: 16, kv_type };
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

    /// Fills a block with what [`block`](Self::block) gave, of this store or of another of the same layout.
    ///
    /// # Panics
    /// When there is no such block, it is the null block, or the bytes are not a block's.
    pub fn load_block(&mut self, block: u32, bytes: &[u8]) {
        let id = block as usize;
        assert!(id > 0 && id < self.blocks, "block {id} of {}", self.blocks);
        let size = self.layout.block_bytes();
        self.memory[id * size..(id + 1) * size].copy_from_slice(bytes);
        self.written[id] = true;
    }

    /// Reads back one token's key and value of one KV head, as attention multiplies them (bf16 widened to f32).
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
        let tile = self.tile(block, layer, slot / TILE_TOKENS, kv_head);
        let mut unpacked = Vec::new();
        let elements: &[u16] = match l.kv_type {
            KvType::Bf16 => bytemuck::cast_slice(tile),
            KvType::Q8_0 => {
                unpacked.resize(l.tile_elements(), 0);
                q8::unpack(tile, l.head_dim, &mut unpacked);
                &unpacked
            }
        };
        let (keys, values) = elements.split_at(TILE_TOKENS * l.head_dim);
        let slot = slot % TILE_TOKENS;
        for d in 0..l.head_dim {
            k[d] = from_bf16(keys[key_index(d, slot)]);
            v[d] = from_bf16(values[value_index(d, slot)]);
        }
    }

    /// The stored bytes of one tile of one KV head.
    pub(crate) fn tile(&self, block: u32, layer: usize, tile: usize, kv_head: usize) -> &[u8] {
        let start = self.tile_offset(block, layer, tile, kv_head);
        &self.memory[start..start + self.layout.tile_bytes()]
    }

    /// Where a tile of one KV head starts, in bytes from the region's start.
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
            * l.tile_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes();
        &mut self.memory[..bytes]
    }
}
