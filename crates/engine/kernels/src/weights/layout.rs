//! Where a packed panel keeps what.
//!
//! A panel is 16 rows of the matrix (16 columns of the product) that a 512-bit register holds side by side. All of a
//! panel is one contiguous, 64-byte-aligned run, so a product with one row of activations reads memory in storage order.
//! Inside it are up to four regions, each in order of k:
//!
//! | format | quants, per 32 k | high, per 32 k | scales, per 32 k | super, per 256 k |
//! |---|---|---|---|---|
//! | F32 | 2048: f32 `[32 k][16]` | - | - | - |
//! | F16, BF16 | 1024: as in the file `[32 k][16]` | - | - | - |
//! | Q4_0 | 256: nibbles | - | 32: f16 d `[16]` | - |
//! | Q4_1 | 256: nibbles | - | 64: f16 d `[16]`, m `[16]` | - |
//! | Q5_0 | 256: nibbles | 64: fifth bits | 32: f16 d `[16]` | - |
//! | Q5_1 | 256: nibbles | 64: fifth bits | 64: f16 d `[16]`, m `[16]` | - |
//! | Q8_0 | 512: bytes | - | 32: f16 d `[16]` | - |
//! | Q4_K | 256: nibbles | - | 32: u8 s `[16]`, m `[16]` | 64: f16 d `[16]`, dmin `[16]` |
//! | Q5_K | 256: nibbles | 64: fifth bits | 32: u8 s `[16]`, m `[16]` | 64: f16 d `[16]`, dmin `[16]` |
//! | Q6_K | 256: nibbles | 128: bit pairs | 32: i8 s `[2 halves][16]` | 32: f16 d `[16]` |
//!
//! One group is 4 consecutive k of the 16 columns, `[16][4]` bytes: what one `vpdpbusd` takes. A block of 32 k has 8 groups.
//! - bytes: `[8 groups][16][4]`, the quant plus 128.
//! - nibbles: `[4][16][4]`, group g in the low nibbles and group g + 4 in the high ones.
//! - fifth bits: `[8 groups]` of a 64-bit mask, bit `4 column + k`.
//! - bit pairs: `[2][16][4]` bytes, group g in bits `2 (g % 4)` of byte run `g / 4`.
//!
//! Panels of floats hold exactly k lines of 16, whatever k is (and may end in padding).

use crate::quant::Quant;

/// Columns of a panel.
pub(crate) const PANEL: usize = 16;
/// Consecutive k that share a scale.
pub(crate) const BLOCK: usize = 32;
/// Bytes of a block's quants once unpacked: 8 groups of 16 columns by 4 k.
pub(crate) const BLOCK_BYTES: usize = BLOCK * PANEL;
/// Blocks of a superblock (Q4_K, Q5_K, Q6_K).
pub(crate) const SUPER: usize = 8;

/// The byte offsets of one panel's regions, and the sizes of their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) quant: Quant,
    /// Blocks of 32 k (0 for floats).
    pub(crate) blocks: usize,
    pub(crate) quants_step: usize,
    pub(crate) high: usize,
    pub(crate) high_step: usize,
    pub(crate) scales: usize,
    pub(crate) scales_step: usize,
    pub(crate) supers: usize,
    pub(crate) supers_step: usize,
    /// Bytes of a whole panel, a multiple of 64.
    pub(crate) panel_bytes: usize,
}

impl Layout {
    /// The layout for rows of `k` numbers, a multiple of the format's block length. `None` if a size overflows.
    pub(crate) fn new(quant: Quant, k: usize) -> Option<Layout> {
        let (quants_step, high_step, scales_step, supers_step) = match quant {
            Quant::F32 | Quant::F16 | Quant::Bf16 => {
                let quants_step = PANEL * quant.block_bytes();
                return Some(Layout {
                    quant,
                    blocks: 0,
                    quants_step,
                    high: 0,
                    high_step: 0,
                    scales: 0,
                    scales_step: 0,
                    supers: 0,
                    supers_step: 0,
                    panel_bytes: k.checked_mul(quants_step)?.checked_next_multiple_of(64)?,
                });
            }
            Quant::Q4_0 => (256, 0, 32, 0),
            Quant::Q4_1 => (256, 0, 64, 0),
            Quant::Q5_0 => (256, 64, 32, 0),
            Quant::Q5_1 => (256, 64, 64, 0),
            Quant::Q8_0 => (512, 0, 32, 0),
            Quant::Q4K => (256, 0, 32, 64),
            Quant::Q5K => (256, 64, 32, 64),
            Quant::Q6K => (256, 128, 32, 32),
        };
        let blocks = k / BLOCK;
        let high = blocks.checked_mul(quants_step)?;
        let scales = high.checked_add(blocks.checked_mul(high_step)?)?;
        let supers = scales.checked_add(blocks.checked_mul(scales_step)?)?;
        let end = supers.checked_add((blocks / SUPER).checked_mul(supers_step)?)?;
        let panel_bytes = end.checked_next_multiple_of(64)?;
        Some(Layout {
            quant,
            blocks,
            quants_step,
            high,
            high_step,
            scales,
            scales_step,
            supers,
            supers_step,
            panel_bytes,
        })
    }
}
