//! The two 16-bit floats to single precision: exact, for every bit pattern.

/// The f32 that equals an f16 given by its bits.
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let mantissa = u32::from(bits & 0x03ff);
    match exponent {
        // Zero and denormals: mantissa * 2^-24, exact in f32.
        0 => {
            let magnitude = mantissa as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        // Infinity, or a NaN, which is quietened as the CPU's conversion does.
        0x1f => {
            let quiet = if mantissa == 0 { 0 } else { 0x0040_0000 };
            f32::from_bits(sign | 0x7f80_0000 | quiet | mantissa << 13)
        }
        _ => f32::from_bits(sign | (exponent + 127 - 15) << 23 | mantissa << 13),
    }
}

/// The f32 that equals the little-endian f16 at `bytes[at..at + 2]`.
pub(crate) fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// The f32 that equals a bf16 given by its bits.
pub(crate) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The f32 that equals the little-endian bf16 at `bytes[at..at + 2]`.
pub(crate) fn bf16_at(bytes: &[u8], at: usize) -> f32 {
    bf16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 2.0_f32.powi(-14)),
            (0x0001, 2.0_f32.powi(-24)),
            (0x83ff, -1023.0 * 2.0_f32.powi(-24)),
            (0x3555, 0.333_251_95),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(f16_to_f32(bits).to_bits(), value.to_bits(), "{bits:04x}");
        }
        assert!(f16_to_f32(0x8000).is_sign_negative());
    }

    /// All 65,536 patterns, held against the CPU's own conversion.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn equals_the_hardware() {
        use std::arch::x86_64::{_mm_cvtph_ps, _mm_cvtsi32_si128, _mm_cvtss_f32};

        #[target_feature(enable = "f16c")]
        fn hardware(bits: u16) -> f32 {
            _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
        }

        if !is_x86_feature_detected!("f16c") {
            return;
        }
        for bits in 0..=u16::MAX {
            // SAFETY: the feature was just detected.
            let want = unsafe { hardware(bits) };
            assert_eq!(f16_to_f32(bits).to_bits(), want.to_bits(), "{bits:04x}");
        }
    }
}
