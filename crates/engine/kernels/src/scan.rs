//! Inner products of one int8 vector with many: the scan of a flat index.
//!
//! All paths give the same integers: 8-bit products add up exactly in 32 bits for every width that is taken.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Isa;

/// Widths are multiples of this: one AVX-512 register.
pub const SCAN_LANES: usize = 64;

/// The widest vector whose products can't overflow 32 bits, those of unsigned bytes included (65,536 x 255 x 127 is
/// just below 2^31).
pub const SCAN_WIDEST: usize = 65_536;

/// Inner products of `query` with each of the rows, shape (rows, width), into `out`, shape (rows).
///
/// `sums` holds the sum of each row's numbers, which the AVX-512 path needs: its instruction multiplies unsigned bytes
/// with signed ones, so the query is moved up by 128 and 128 times the row's sum is taken off again.
///
/// # Panics
/// If the width is no multiple of [`SCAN_LANES`] or above [`SCAN_WIDEST`], or the lengths don't fit together.
pub fn scan_i8(isa: Isa, query: &[i8], rows: &[i8], sums: &[i32], out: &mut [i32]) {
    let width = query.len();
    assert!(width.is_multiple_of(SCAN_LANES) && width > 0 && width <= SCAN_WIDEST);
    assert!(rows.len() == width * sums.len() && sums.len() == out.len());
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if isa.is_available() => {
            let raised: Vec<u8> = query.iter().map(|q| (i16::from(*q) + 128) as u8).collect();
            // SAFETY: the CPU has the path's instructions, and the lengths were checked above.
            unsafe { x86::avx512(&raised, rows, sums, out) }
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if isa.is_available() => {
            // SAFETY: the CPU has the path's instructions, and the lengths were checked above.
            unsafe { x86::avx2(query, rows, out) }
        }
        _ => scalar(query, rows, out),
    }
}

/// The reference.
fn scalar(query: &[i8], rows: &[i8], out: &mut [i32]) {
    for (row, out) in rows.chunks_exact(query.len()).zip(out) {
        *out = query.iter().zip(row).map(|(q, r)| i32::from(*q) * i32::from(*r)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(isa: Isa, query: &[i8], rows: &[i8]) -> Vec<i32> {
        let sums: Vec<i32> = rows
            .chunks_exact(query.len())
            .map(|row| row.iter().map(|x| i32::from(*x)).sum())
            .collect();
        let mut out = vec![0; sums.len()];
        scan_i8(isa, query, rows, &sums, &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn all_paths_give_the_same(lanes in 1_usize..8, count in 0_usize..20, seed: u64) {
            let width = lanes * SCAN_LANES;
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as i8
            };
            let query: Vec<i8> = (0..width).map(|_| next()).collect();
            let rows: Vec<i8> = (0..width * count).map(|_| next()).collect();
            let mut expected = vec![0; count];
            scalar(&query, &rows, &mut expected);
            for isa in Isa::available() {
                prop_assert_eq!(&run(isa, &query, &rows), &expected, "{}", isa);
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for fill in [-128_i8, 127] {
            let query = vec![fill; 1024];
            for isa in Isa::available() {
                let rows = [vec![-128_i8; 1024], vec![127_i8; 1024]].concat();
                let q = i32::from(fill);
                assert_eq!(run(isa, &query, &rows), [q * -128 * 1024, q * 127 * 1024], "{isa}");
            }
        }
    }
}
