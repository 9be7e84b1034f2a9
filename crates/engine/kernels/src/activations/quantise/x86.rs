//! The vector paths. Rounding to nearest, ties to even, is the mode that Rust programs run in.

use std::arch::x86_64::*;

use super::{Block, finish, inverse, special};
use crate::weights::layout::BLOCK;

/// See [`super::rows`].
///
/// # Safety
/// The CPU has the AVX-512 path.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn avx512(x: &[f32], blocks: &mut [Block]) {
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    let ones = _mm256_set1_epi8(1);
    for (numbers, block) in x.chunks_exact(BLOCK).zip(blocks) {
        // SAFETY: 32 numbers.
        let (low, high) = unsafe {
            (_mm512_loadu_ps(numbers.as_ptr()), _mm512_loadu_ps(numbers.as_ptr().add(16)))
        };
        let largest = _mm512_max_epi32(
            _mm512_and_si512(_mm512_castps_si512(low), magnitude),
            _mm512_and_si512(_mm512_castps_si512(high), magnitude),
        );
        let largest = f32::from_bits(_mm512_reduce_max_epi32(largest).cast_unsigned());
        let Some(inverse) = inverse(largest) else {
            *block = special(largest);
            continue;
        };
        let inverse = _mm512_set1_ps(inverse);
        let low = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(low, inverse)));
        let high = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(high, inverse)));
        let both = _mm256_set_m128i(high, low);
        let (low, high) = half_sums(_mm256_dpbusd_epi32(_mm256_setzero_si256(), ones, both));
        *block = finish(to_array(both), largest, low, high);
    }
}

/// See [`super::rows`].
///
/// # Safety
/// The CPU has the AVX2 path.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(x: &[f32], blocks: &mut [Block]) {
    let magnitude = _mm256_set1_epi32(0x7fff_ffff);
    for (numbers, block) in x.chunks_exact(BLOCK).zip(blocks) {
        let mut parts = [_mm256_setzero_ps(); 4];
        let mut largest = _mm256_setzero_si256();
        for (i, part) in parts.iter_mut().enumerate() {
            // SAFETY: 4 parts of 8 make 32 numbers.
            *part = unsafe { _mm256_loadu_ps(numbers.as_ptr().add(i * 8)) };
            let magnitudes = _mm256_and_si256(_mm256_castps_si256(*part), magnitude);
            largest = _mm256_max_epi32(largest, magnitudes);
        }
        let largest =
            _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
        let largest = _mm_max_epi32(largest, _mm_shuffle_epi32::<0b01_00_11_10>(largest));
        let largest = _mm_max_epi32(largest, _mm_shuffle_epi32::<0b10_11_00_01>(largest));
        let largest = f32::from_bits(_mm_cvtsi128_si32(largest).cast_unsigned());
        let Some(inverse) = inverse(largest) else {
            *block = special(largest);
            continue;
        };
        let inverse = _mm256_set1_ps(inverse);
        let mut whole = [_mm256_setzero_si256(); 4];
        for (whole, part) in whole.iter_mut().zip(parts) {
            *whole = _mm256_cvtps_epi32(_mm256_mul_ps(part, inverse));
        }
        let low = _mm256_packs_epi32(whole[0], whole[1]);
        let high = _mm256_packs_epi32(whole[2], whole[3]);
        // Packing goes by halves of a register: fours 0 2 4 6 1 3 5 7 are put in order.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let both = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), both);
        let (low, high) = half_sums(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        *block = finish(to_array(both), largest, low, high);
    }
}

/// The sum of the first four numbers, and of the last.
#[inline]
#[target_feature(enable = "avx2")]
fn half_sums(sums: __m256i) -> (i32, i32) {
    let twos = _mm256_add_epi32(sums, _mm256_shuffle_epi32::<0b01_00_11_10>(sums));
    let fours = _mm256_add_epi32(twos, _mm256_shuffle_epi32::<0b10_11_00_01>(twos));
    (
        _mm_cvtsi128_si32(_mm256_castsi256_si128(fours)),
        _mm_cvtsi128_si32(_mm256_extracti128_si256::<1>(fours)),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn to_array(quants: __m256i) -> [i8; BLOCK] {
    let mut array = [0; BLOCK];
    // SAFETY: 32 bytes.
    unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), quants) };
    array
}
