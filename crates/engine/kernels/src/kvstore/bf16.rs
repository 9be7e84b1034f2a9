//! bf16 is the upper half of an f32.

/// Widens; exact.
#[inline(always)]
pub(crate) fn from_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Rounds to nearest, ties to even; NaN stays NaN. In integers on every path, so that the stored bits are the same on all
/// of them (the AVX-512 instruction would flush denormals).
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> u16 {
    let quiet = ((x.to_bits() | 0x0040_0000) >> 16) as u16;
    if x.is_nan() { quiet } else { round_to_bf16(x) }
}

/// The same for what is no NaN, or one whose lower half is zero.
#[inline(always)]
pub(crate) fn round_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_nearest_even() {
        for (x, want) in [
            (1.0, 0x3f80),
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::MAX, 0x7f80),
            (f32::NEG_INFINITY, 0xff80),
            (-0.0, 0x8000),
            (f32::from_bits(0x0001_0000), 0x0001),
        ] {
            assert_eq!(to_bf16(x), want, "{x}");
        }
        assert!(from_bf16(to_bf16(f32::from_bits(0x7f80_0001))).is_nan());
        for bits in (0..=u16::MAX).filter(|&b| !from_bf16(b).is_nan()) {
            assert_eq!(to_bf16(from_bf16(bits)), bits);
        }
    }
}
