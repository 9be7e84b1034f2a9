//! One block of a panel into registers: 8 groups of unsigned bytes (quant plus 128), scales and minima as f32.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::matmul::format::{Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
use crate::weights::layout::{BLOCK_BYTES, Layout, SUPER};

/// What [`super::super::scalar`] calls an unpacked block, in registers.
pub(super) struct Registers {
    pub(super) groups: [__m512i; 8],
    /// For the first 16 k and the last; the same but for Q6_K.
    pub(super) scales: [__m512; 2],
    /// Zero where the format has none.
    pub(super) minima: __m512,
}

/// Reads block `block` of a panel of format `F`.
///
/// # Safety
/// `panel` has `layout.panel_bytes` bytes on a 64-byte boundary, and the block is inside it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn block<const F: u8>(
    layout: &Layout,
    panel: *const u8,
    block: usize,
) -> Registers {
    // SAFETY: every offset is one of the layout's, so inside the panel (the caller's contract).
    unsafe {
        let quants = panel.add(block * layout.quants_step);
        let high = panel.add(layout.high + block * layout.high_step);
        let scales = panel.add(layout.scales + block * layout.scales_step);
        let supers = panel.add(layout.supers + block / SUPER * layout.supers_step);
        let zero = _mm512_setzero_ps();
        match F {
            Q4_0 => {
                let scale = halves(scales);
                let groups = plus_eight(nibbles::<0x70>(quants));
                Registers { groups, scales: [scale, scale], minima: zero }
            }
            Q4_1 | Q5_1 => {
                let scale = halves(scales);
                let mut groups = nibbles::<0x80>(quants);
                if F == Q5_1 {
                    groups = fifth_bits(groups, high);
                }
                Registers { groups, scales: [scale, scale], minima: halves(scales.add(32)) }
            }
            Q5_0 => {
                let scale = halves(scales);
                let groups = fifth_bits(nibbles::<0x70>(quants), high);
                Registers { groups, scales: [scale, scale], minima: zero }
            }
            Q8_0 => {
                let scale = halves(scales);
                Registers { groups: bytes(quants), scales: [scale, scale], minima: zero }
            }
            Q4_K | Q5_K => {
                let scale = _mm512_mul_ps(halves(supers), unsigned(scales));
                let minima = _mm512_mul_ps(halves(supers.add(32)), unsigned(scales.add(16)));
                // The sign of a product is exact, so this is the negated minimum.
                let minima = _mm512_xor_ps(minima, _mm512_set1_ps(-0.0));
                let mut groups = nibbles::<0x80>(quants);
                if F == Q5_K {
                    groups = fifth_bits(groups, high);
                }
                Registers { groups, scales: [scale, scale], minima }
            }
            _ => {
                let d = halves(supers);
                let low = _mm512_mul_ps(d, signed(scales));
                let last = _mm512_mul_ps(d, signed(scales.add(16)));
                let groups = bit_pairs(nibbles::<0x00>(quants), high);
                Registers { groups, scales: [low, last], minima: zero }
            }
        }
    }
}

/// 16 f16 as f32.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn halves(at: *const u8) -> __m512 {
    // SAFETY: the caller has 32 bytes there.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
}

/// 16 unsigned bytes as f32.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn unsigned(at: *const u8) -> __m512 {
    // SAFETY: the caller has 16 bytes there.
    unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast()))) }
}

/// 16 signed bytes as f32.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn signed(at: *const u8) -> __m512 {
    // SAFETY: the caller has 16 bytes there.
    unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at.cast()))) }
}

/// 8 groups as they are.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn bytes(at: *const u8) -> [__m512i; 8] {
    let mut groups = [_mm512_setzero_si512(); 8];
    for (group, register) in groups.iter_mut().enumerate() {
        // SAFETY: the caller has 512 bytes there.
        *register = unsafe { _mm512_loadu_si512(at.add(group * 64).cast()) };
    }
    groups
}

/// 8 groups of nibbles, each with the bits of `HIGH` set above it.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn nibbles<const HIGH: u8>(at: *const u8) -> [__m512i; 8] {
    let low = _mm512_set1_epi8(15);
    let high = _mm512_set1_epi8(HIGH as i8);
    let mut groups = [_mm512_setzero_si512(); 8];
    for group in 0..4 {
        // SAFETY: the caller has 256 bytes there.
        let both = unsafe { _mm512_loadu_si512(at.add(group * 64).cast()) };
        // (both & low) | high: with a = 0xf0, b = 0xcc, c = 0xaa that is the truth table 0xea.
        groups[group] = _mm512_ternarylogic_epi32::<0xea>(both, low, high);
        let upper = _mm512_srli_epi32::<4>(both);
        groups[group + 4] = _mm512_ternarylogic_epi32::<0xea>(upper, low, high);
    }
    groups
}

/// Adds 8: what is missing to an offset of 128 where the bits above a nibble make 112 (8 being the format's own offset).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn plus_eight(mut groups: [__m512i; 8]) -> [__m512i; 8] {
    let eight = _mm512_set1_epi8(8);
    for register in &mut groups {
        *register = _mm512_add_epi8(*register, eight);
    }
    groups
}

/// Adds 16 where the fifth bit is set.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn fifth_bits(mut groups: [__m512i; 8], at: *const u8) -> [__m512i; 8] {
    let sixteen = _mm512_set1_epi8(16);
    for (group, register) in groups.iter_mut().enumerate() {
        // SAFETY: the caller has 64 bytes there.
        let mask = unsafe { at.cast::<u64>().add(group).read_unaligned() };
        *register = _mm512_mask_add_epi8(*register, mask, *register, sixteen);
    }
    groups
}

/// Puts two bits above each nibble, then adds 96 (an offset of 32 becomes one of 128).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn bit_pairs(mut groups: [__m512i; 8], at: *const u8) -> [__m512i; 8] {
    let pair = _mm512_set1_epi8(0x30);
    let offset = _mm512_set1_epi8(96);
    for run in 0..2 {
        // SAFETY: the caller has 128 bytes there.
        let pairs = unsafe { _mm512_loadu_si512(at.add(run * 64).cast()) };
        let moved = [
            _mm512_slli_epi32::<4>(pairs),
            _mm512_slli_epi32::<2>(pairs),
            pairs,
            _mm512_srli_epi32::<2>(pairs),
        ];
        for (group, moved) in moved.into_iter().enumerate() {
            let register = &mut groups[run * 4 + group];
            // register | (moved & pair): with a = 0xf0, b = 0xcc, c = 0xaa that is the truth table 0xf8.
            let whole = _mm512_ternarylogic_epi32::<0xf8>(*register, moved, pair);
            *register = _mm512_add_epi8(whole, offset);
        }
    }
    groups
}

/// Bytes of a block's floats for a pair of panels in scratch: for each panel two registers, the scales, then the minima
/// or the other scales.
pub(super) const PAIR_FLOATS: usize = 4 * 64;

/// Two panels, side by side, ready for the tiles.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// Each panel's groups, `[blocks][8 groups][64 bytes]`.
    pub(super) groups: [*const u8; 2],
    /// The floats of both, `[blocks][PAIR_FLOATS]`.
    pub(super) floats: *const u8,
}

impl Pair {
    /// From block `index` on.
    #[inline(always)]
    pub(super) fn block(self, index: usize) -> Pair {
        let groups = self.groups.map(|groups| groups.wrapping_add(index * BLOCK_BYTES));
        Pair { groups, floats: self.floats.wrapping_add(index * PAIR_FLOATS) }
    }
}

/// Bytes of scratch that [`pair`] takes for so many blocks.
pub(super) const fn scratch_bytes(blocks: usize) -> usize {
    blocks * (2 * BLOCK_BYTES + PAIR_FLOATS)
}

/// Unpacks some blocks of two panels. Q8_0's groups stay where they are: they are bytes already.
///
/// # Safety
/// As for [`block`], for both panels and all the blocks; the scratch has [`scratch_bytes`] for them on a 64-byte boundary.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) unsafe fn pair<const F: u8>(
    layout: &Layout,
    panels: [*const u8; 2],
    blocks: Range<usize>,
    scratch: *mut u8,
) -> Pair {
    // SAFETY: the caller's contract; the scratch is cut into two panels' groups and the floats.
    unsafe {
        let floats = scratch.add(blocks.len() * 2 * BLOCK_BYTES);
        let mut groups = panels.map(|panel| panel.add(blocks.start * layout.quants_step));
        for (place, panel) in panels.into_iter().enumerate() {
            let to = scratch.add(place * blocks.len() * BLOCK_BYTES);
            if F != Q8_0 {
                groups[place] = to;
            }
            for (index, source) in blocks.clone().enumerate() {
                let unpacked = block::<F>(layout, panel, source);
                if F != Q8_0 {
                    for (group, register) in unpacked.groups.into_iter().enumerate() {
                        let to = to.add(index * BLOCK_BYTES + group * 64);
                        _mm512_store_si512(to.cast(), register);
                    }
                }
                let floats = floats.add(index * PAIR_FLOATS + place * 128);
                _mm512_store_ps(floats.cast(), unpacked.scales[0]);
                let second = if F == Q6_K { unpacked.scales[1] } else { unpacked.minima };
                _mm512_store_ps(floats.add(64).cast(), second);
            }
        }
        Pair { groups, floats }
    }
}
