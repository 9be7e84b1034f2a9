//! Eight lanes.

use std::arch::x86_64::*;

use super::kernel::{block, merge, per_rows};
use super::tile::{Fresh, Kernel, Tile};
use super::vector::Vector;
use crate::kvstore::q8;

#[derive(Clone, Copy)]
struct F32x8(__m256);

impl Vector for F32x8 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the trait's contract; so for the rest of this file.
        unsafe { F32x8(_mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above.
        unsafe { F32x8(_mm256_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_pairs(from: *const u16) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm256_loadu_si256(from.cast());
            let upper = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32));
            let lower = _mm256_slli_epi32::<16>(pairs);
            (F32x8(_mm256_castsi256_ps(lower)), F32x8(_mm256_castsi256_ps(upper)))
        }
    }
    #[inline(always)]
    unsafe fn prefetch(from: *const u16) {
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn prefetch_far(from: *const u16) {
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x8(_mm256_fmadd_ps(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x8(_mm256_mul_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x8(_mm256_add_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x8(_mm256_sub_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x8(_mm256_max_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        // SAFETY: as above.
        unsafe {
            F32x8(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0))
        }
    }
    #[inline(always)]
    unsafe fn times_power_of_2(self, n: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.0), _mm256_set1_epi32(127));
            let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent));
            F32x8(_mm256_mul_ps(self.0, power))
        }
    }
    #[inline(always)]
    unsafe fn keep(self, from: isize, to: isize, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let from = _mm256_set1_epi32(from.clamp(0, 8) as i32);
            let to = _mm256_set1_epi32(to.clamp(0, 8) as i32);
            let mask =
                _mm256_andnot_si256(_mm256_cmpgt_epi32(from, lane), _mm256_cmpgt_epi32(to, lane));
            F32x8(_mm256_blendv_ps(other.0, self.0, _mm256_castsi256_ps(mask)))
        }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as above.
        unsafe {
            let half =
                _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        }
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as above.
        unsafe {
            let half =
                _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)))
        }
    }
}

pub(super) struct Avx2;

impl Kernel for Avx2 {
    // 12 accumulators of 16 registers.
    const ROWS: usize = 6;

    unsafe fn block(tile: &Tile<'_>, fresh: &mut Fresh) {
        #[target_feature(enable = "avx2,fma")]
        fn rows<const R: usize, const W: usize>(tile: &Tile<'_>, fresh: &mut Fresh) {
            // SAFETY: the instructions are enabled here; `block` checks the shapes.
            unsafe { block::<F32x8, R, W>(tile, fresh) }
        }
        // SAFETY: the caller's contract. Few rows take wider tiles: the products would wait for each other otherwise.
        unsafe { per_rows!(tile, fresh, rows, [1, 4], [2, 4], [3, 2], [4, 2], [5, 2], [6, 2]) }
    }

    unsafe fn unpack(tile: &[u8], head_dim: usize, out: &mut [u16]) {
        #[target_feature(enable = "avx2,fma")]
        fn run(tile: &[u8], head_dim: usize, out: &mut [u16]) {
            q8::unpack_with(tile, head_dim, out, q8::multiply);
        }
        // SAFETY: the caller's contract.
        unsafe { run(tile, head_dim, out) }
    }

    unsafe fn merge(so_far: &mut [f32], old: f32, fresh: &[f32], new: f32) {
        #[target_feature(enable = "avx2,fma")]
        fn run(so_far: &mut [f32], old: f32, fresh: &[f32], new: f32) {
            // SAFETY: the instructions are enabled here.
            unsafe { merge::<F32x8>(so_far, old, fresh, new) }
        }
        // SAFETY: the caller's contract.
        unsafe { run(so_far, old, fresh, new) }
    }
}
