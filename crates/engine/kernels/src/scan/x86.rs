//! The x86-64 paths.

use std::arch::x86_64::*;

/// # Safety
/// The CPU has AVX-512 F, BW and VNNI; `rows` is [sums, query] and `out` as long as `sums`; the query's length is a
/// multiple of 64.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn avx512(query: &[u8], rows: &[i8], sums: &[i32], out: &mut [i32]) {
    let width = query.len();
    for ((row, sum), out) in rows.chunks_exact(width).zip(sums).zip(out) {
        let mut total = _mm512_setzero_si512();
        for at in (0..width).step_by(64) {
            // SAFETY: 64 bytes from `at` lie inside both, since the width is a multiple of 64.
            let (q, r) = unsafe {
                (
                    _mm512_loadu_si512(query.as_ptr().add(at).cast()),
                    _mm512_loadu_si512(row.as_ptr().add(at).cast()),
                )
            };
            total = _mm512_dpbusd_epi32(total, q, r);
        }
        *out = _mm512_reduce_add_epi32(total) - 128 * sum;
    }
}

/// # Safety
/// The CPU has AVX2; `rows` is [out, query]; the query's length is a multiple of 64.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(query: &[i8], rows: &[i8], out: &mut [i32]) {
    let width = query.len();
    for (row, out) in rows.chunks_exact(width).zip(out) {
        let mut total = _mm256_setzero_si256();
        for at in (0..width).step_by(16) {
            // SAFETY: 16 bytes from `at` lie inside both, since the width is a multiple of 16.
            let (q, r) = unsafe {
                (
                    _mm_loadu_si128(query.as_ptr().add(at).cast()),
                    _mm_loadu_si128(row.as_ptr().add(at).cast()),
                )
            };
            let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(q), _mm256_cvtepi8_epi16(r));
            total = _mm256_add_epi32(total, products);
        }
        let half =
            _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256::<1>(total));
        let half = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
        let half = _mm_add_epi32(half, _mm_shuffle_epi32::<0b10_11_00_01>(half));
        *out = _mm_cvtsi128_si32(half);
    }
}
