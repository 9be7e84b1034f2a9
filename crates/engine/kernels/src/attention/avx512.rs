//! Sixteen lanes.
//!
//! Scores and outputs are f32 products of widened bf16, not `vdpbf16ps`: Intel's server cores (measured: Emerald Rapids) retire
//! one such dot product every two cycles and two f32 products a cycle, so it gains nothing there and costs the precision
//! of rounded queries and probabilities.

use std::arch::x86_64::*;

use super::kernel::{block, merge, per_rows};
use super::tile::{Fresh, Kernel, Tile};
use super::vector::Vector;
use crate::kvstore::q8;

#[derive(Clone, Copy)]
struct F32x16(__m512);

impl Vector for F32x16 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the trait's contract; so for the rest of this file.
        unsafe { F32x16(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as above.
        unsafe { F32x16(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as above.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn load_pairs(from: *const u16) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let pairs = _mm512_loadu_si512(from.cast());
            let upper = _mm512_and_si512(pairs, _mm512_set1_epi32(0xffff_0000_u32 as i32));
            let lower = _mm512_slli_epi32::<16>(pairs);
            (F32x16(_mm512_castsi512_ps(lower)), F32x16(_mm512_castsi512_ps(upper)))
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
        unsafe { F32x16(_mm512_fmadd_ps(self.0, b.0, c.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x16(_mm512_mul_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x16(_mm512_add_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x16(_mm512_sub_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x16(_mm512_max_ps(self.0, b.0)) }
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        // SAFETY: as above.
        unsafe {
            F32x16(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                self.0,
            ))
        }
    }
    #[inline(always)]
    unsafe fn times_power_of_2(self, n: Self) -> Self {
        // SAFETY: as above.
        unsafe { F32x16(_mm512_scalef_ps(self.0, n.0)) }
    }
    #[inline(always)]
    unsafe fn keep(self, from: isize, to: isize, other: Self) -> Self {
        let below = |end: isize| ((1_u32 << end.clamp(0, 16)) - 1) as u16;
        let mask = below(to) & !below(from);
        // SAFETY: as above.
        unsafe { F32x16(_mm512_mask_blend_ps(mask, other.0, self.0)) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as above.
        unsafe { _mm512_reduce_add_ps(self.0) }
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as above.
        unsafe { _mm512_reduce_max_ps(self.0) }
    }
}

pub(super) struct Avx512;

impl Kernel for Avx512 {
    // 24 accumulators of 32 registers.
    const ROWS: usize = 12;

    unsafe fn block(tile: &Tile<'_>, fresh: &mut Fresh) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
        fn rows<const R: usize, const W: usize>(tile: &Tile<'_>, fresh: &mut Fresh) {
            // SAFETY: the instructions are enabled here; `block` checks the shapes.
            unsafe { block::<F32x16, R, W>(tile, fresh) }
        }
        // SAFETY: the caller's contract. Few rows take wider tiles: the products would wait for each other otherwise.
        unsafe {
            per_rows!(
                tile,
                fresh,
                rows,
                [1, 4],
                [2, 4],
                [3, 4],
                [4, 4],
                [5, 4],
                [6, 2],
                [7, 2],
                [8, 2],
                [9, 2],
                [10, 2],
                [11, 2],
                [12, 2]
            )
        }
    }

    unsafe fn unpack(tile: &[u8], head_dim: usize, out: &mut [u16]) {
        /// [`q8::multiply`] with the instruction that rounds to bf16. What it does otherwise is to take numbers below 1e-38 for zero.
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
        fn multiply(bytes: &[u8; q8::ROW], scale: &[f32; q8::ROW], out: &mut [u16; q8::ROW]) {
            // SAFETY: 32 bytes, 32 floats and 32 halves are read and written; the instructions are enabled here.
            unsafe {
                let half = |i: usize| {
                    let bytes = _mm_loadu_si128(bytes.as_ptr().add(i).cast());
                    let numbers = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
                    _mm512_mul_ps(numbers, _mm512_loadu_ps(scale.as_ptr().add(i)))
                };
                let rounded = _mm512_cvtne2ps_pbh(half(16), half(0));
                out.as_mut_ptr().cast::<__m512bh>().write_unaligned(rounded);
            }
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")]
        fn run(tile: &[u8], head_dim: usize, out: &mut [u16]) {
            q8::unpack_with(tile, head_dim, out, |bytes, scale, out| multiply(bytes, scale, out));
        }
        // SAFETY: the caller's contract.
        unsafe { run(tile, head_dim, out) }
    }

    unsafe fn merge(so_far: &mut [f32], old: f32, fresh: &[f32], new: f32) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
        fn run(so_far: &mut [f32], old: f32, fresh: &[f32], new: f32) {
            // SAFETY: the instructions are enabled here.
            unsafe { merge::<F32x16>(so_far, old, fresh, new) }
        }
        // SAFETY: the caller's contract.
        unsafe { run(so_far, old, fresh, new) }
    }
}
