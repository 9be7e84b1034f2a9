//! A panel into scratch: plain bytes and floats.

use std::arch::x86_64::*;

use super::SCRATCH_STEP;
use crate::matmul::format::{Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K, Q8_0};
use crate::weights::layout::{BLOCK_BYTES, Layout, PANEL, SUPER};

/// Unpacks all blocks of a panel of format `F`: unsigned quants as in the file, but for Q8_0's, which are signed.
///
/// # Safety
/// `panel` has `layout.panel_bytes`, and `scratch` has [`SCRATCH_STEP`] for each block on a 64-byte boundary.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn panel<const F: u8>(layout: &Layout, panel: *const u8, scratch: *mut u8) {
    for block in 0..layout.blocks {
        // SAFETY: every offset is one of the layout's, so inside the panel, and the scratch has this block.
        unsafe {
            let quants = panel.add(block * layout.quants_step);
            let high = panel.add(layout.high + block * layout.high_step);
            let to = scratch.add(block * SCRATCH_STEP);
            match F {
                Q8_0 => signed_bytes(quants, to),
                Q5_0 | Q5_1 | Q5_K => {
                    nibbles(quants, to);
                    fifth_bits(high, to);
                }
                Q6_K => {
                    nibbles(quants, to);
                    bit_pairs(high, to);
                }
                _ => nibbles(quants, to),
            }
            let scales = panel.add(layout.scales + block * layout.scales_step);
            let supers = panel.add(layout.supers + block / SUPER * layout.supers_step);
            let floats = to.add(BLOCK_BYTES).cast::<f32>();
            for half in 0..2 {
                let first = floats.add(half * 8);
                let second = first.add(PANEL);
                let (scales, supers) = (scales.add(half * 8), supers.add(half * 16));
                match F {
                    Q4_1 | Q5_1 => {
                        // Two lines of f16, so the second half is 16 bytes on, not 8.
                        let scales = scales.add(half * 8);
                        _mm256_store_ps(first, halves(scales));
                        _mm256_store_ps(second, halves(scales.add(32)));
                    }
                    Q4_0 | Q5_0 | Q8_0 => _mm256_store_ps(first, halves(scales.add(half * 8))),
                    Q4_K | Q5_K => {
                        let minima =
                            _mm256_mul_ps(halves(supers.add(32)), unsigned(scales.add(16)));
                        let scale = _mm256_mul_ps(halves(supers), unsigned(scales));
                        _mm256_store_ps(first, scale);
                        _mm256_store_ps(second, _mm256_xor_ps(minima, _mm256_set1_ps(-0.0)));
                    }
                    _ => {
                        let d = halves(supers);
                        _mm256_store_ps(first, _mm256_mul_ps(d, signed(scales)));
                        _mm256_store_ps(second, _mm256_mul_ps(d, signed(scales.add(16))));
                    }
                }
            }
        }
    }
}

/// 8 f16 as f32.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn halves(at: *const u8) -> __m256 {
    // SAFETY: the caller has 16 bytes there.
    unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
}

/// 8 unsigned bytes as f32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn unsigned(at: *const u8) -> __m256 {
    // SAFETY: the caller has 8 bytes there.
    unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast()))) }
}

/// 8 signed bytes as f32.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn signed(at: *const u8) -> __m256 {
    // SAFETY: the caller has 8 bytes there.
    unsafe { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at.cast()))) }
}

/// 512 bytes, less their offset of 128.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn signed_bytes(at: *const u8, to: *mut u8) {
    let offset = _mm256_set1_epi8(-128);
    for i in (0..BLOCK_BYTES).step_by(32) {
        // SAFETY: the caller has 512 bytes at both.
        unsafe {
            let bytes = _mm256_loadu_si256(at.add(i).cast());
            _mm256_store_si256(to.add(i).cast(), _mm256_xor_si256(bytes, offset));
        }
    }
}

/// 256 bytes of nibbles to 512 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn nibbles(at: *const u8, to: *mut u8) {
    let low = _mm256_set1_epi8(15);
    for i in (0..BLOCK_BYTES / 2).step_by(32) {
        // SAFETY: the caller has 256 bytes at one and 512 at the other.
        unsafe {
            let both = _mm256_loadu_si256(at.add(i).cast());
            _mm256_store_si256(to.add(i).cast(), _mm256_and_si256(both, low));
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(both), low);
            _mm256_store_si256(to.add(BLOCK_BYTES / 2 + i).cast(), high);
        }
    }
}

/// Adds 16 to each of 512 bytes whose bit of 64 bytes is set.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn fifth_bits(at: *const u8, to: *mut u8) {
    // Byte i of a register gets byte i / 8 of its mask, of which it looks at bit i % 8.
    let spread =
        _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let sixteen = _mm256_set1_epi8(16);
    for i in 0..BLOCK_BYTES / 32 {
        // SAFETY: the caller has 64 bytes at one and 512 at the other.
        unsafe {
            let mask = _mm256_set1_epi32(at.cast::<i32>().add(i).read_unaligned());
            let looked = _mm256_and_si256(_mm256_shuffle_epi8(mask, spread), bit);
            let added = _mm256_and_si256(_mm256_cmpeq_epi8(looked, bit), sixteen);
            let place = to.add(i * 32).cast();
            _mm256_store_si256(place, _mm256_add_epi8(_mm256_load_si256(place), added));
        }
    }
}

/// Puts the bit pairs of 128 bytes above the nibbles of 512.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn bit_pairs(at: *const u8, to: *mut u8) {
    let pair = _mm256_set1_epi8(0x30);
    for i in (0..BLOCK_BYTES / 4).step_by(32) {
        // SAFETY: the caller has 128 bytes at one and 512 at the other.
        unsafe {
            let pairs = _mm256_loadu_si256(at.add(i).cast());
            let moved = [
                _mm256_slli_epi16::<4>(pairs),
                _mm256_slli_epi16::<2>(pairs),
                pairs,
                _mm256_srli_epi16::<2>(pairs),
            ];
            for (group, moved) in moved.into_iter().enumerate() {
                let place = to.add(i / 64 * 256 + group * 64 + i % 64).cast();
                let bits = _mm256_and_si256(moved, pair);
                _mm256_store_si256(place, _mm256_or_si256(_mm256_load_si256(place), bits));
            }
        }
    }
}
