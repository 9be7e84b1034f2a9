//! 2^x by rounding to the nearest integer and a polynomial on [-1/2, 1/2].

/// Below this 2^x counts as 2^LOWEST (about 1e-30): nothing beside a block's largest term of 1, and far enough from the
/// denormals, whose products are slow.
pub(super) const LOWEST: f32 = -100.0;

/// Coefficients of 2^x on [-1/2, 1/2], highest power first: the minimax polynomial of Cephes' `exp2f` (relative error below 2e-7).
pub(super) const COEFFICIENTS: [f32; 7] =
    [1.535_336_2e-4, 1.339_887_4e-3, 9.618_437e-3, 5.550_332_6e-2, 2.402_265e-1, 6.931_472e-1, 1.0];

/// 1.5 * 2^23: added and taken away again, it rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// 2^x for x <= 0 (NaN gives NaN).
#[inline(always)]
pub(super) fn exp2(x: f32) -> f32 {
    let x = if x < LOWEST { LOWEST } else { x };
    let n = (x + ROUND) - ROUND;
    let r = x - n;
    let mut p = COEFFICIENTS[0];
    for c in &COEFFICIENTS[1..] {
        p = p * r + c;
    }
    p * f32::from_bits(((n as i32 + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_3e_7_of_f64() {
        for i in 0..=200_000 {
            let x = -100.0 * (i as f32) / 200_000.0;
            let want = f64::from(x).exp2();
            let error = (f64::from(exp2(x)) - want).abs() / want;
            assert!(error < 3e-7, "exp2({x}): {error:e}");
        }
        assert_eq!(exp2(0.0), 1.0);
        assert!(exp2(f32::NEG_INFINITY) < 1e-30 && exp2(f32::NAN).is_nan());
    }
}
