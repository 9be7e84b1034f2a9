//! e^x that the compiler can vectorise.

/// 1.5 * 2^23: added and taken away again, it rounds to an integer.
const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts, the first exact in few enough bits that its multiples by an exponent are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// e^x, with x held within -87 and 88 (NaN gives NaN). Relative error below 3e-7. The polynomial is that of Cephes' `expf`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let n = (x * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut p = 1.987_569_1e-4_f32;
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.0e-1] {
        p = p * r + c;
    }
    let p = p * (r * r) + r + 1.0;
    // The bits of 2^n; `n` is an integer within -126 and 127, so the sum with ROUND holds it in its low mantissa bits.
    let n = (n + ROUND).to_bits().wrapping_sub(ROUND.to_bits());
    p * f32::from_bits(n.wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_3e_7_of_f64() {
        for i in 0..350_000 {
            let x = (-87.0 + i as f32 * 5e-4).min(88.0);
            let want = f64::from(x).exp();
            let error = (f64::from(exp(x)) - want).abs() / want;
            assert!(error < 3e-7, "exp({x}): {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
        assert!(exp(f32::NEG_INFINITY) < 2e-38 && exp(f32::INFINITY) > 1e38);
    }
}
