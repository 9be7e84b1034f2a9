//! Random numbers and random blocks of weights.

use tapri_gguf::TensorType;

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same everywhere.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Mean 0, variance 1, near enough to normal: the sum of four uniform numbers, scaled.
    pub(super) fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|n| (bits >> (16 * n)) & 0xffff).sum();
        // Each has the mean 32767.5 and the variance (65536^2 - 1) / 12.
        (sum as f32 - 131_070.0) / 37_837.2
    }

    fn bytes(&mut self, count: usize, out: &mut Vec<u8>) {
        for _ in 0..count {
            out.push((self.next() >> 56) as u8);
        }
    }
}

/// Appends one block of `kind` whose elements have about the mean 0 and the standard deviation `spread`.
///
/// Quantised blocks are random bits under a scale that gives their values that spread.
pub(super) fn block(random: &mut Random, kind: TensorType, spread: f32, out: &mut Vec<u8>) {
    // Scales differ between blocks, as they do in real files.
    let spread = spread * (1.0 + 0.2 * random.normal().clamp(-2.0, 2.0));
    match kind {
        TensorType::Q8_0 => {
            // Uniform over -128..=127.
            out.extend(half(spread / 73.9));
            random.bytes(32, out);
        }
        TensorType::Q5_0 => {
            // Uniform over -16..=15: fifth bits, then nibbles.
            out.extend(half(spread / 9.23));
            random.bytes(4 + 16, out);
        }
        TensorType::Q4_1 => {
            // Uniform over 0..=15, and a minimum that centres them.
            let scale = spread / 4.61;
            out.extend(half(scale));
            out.extend(half(-7.5 * scale));
            random.bytes(16, out);
        }
        TensorType::Q4K => {
            // `scale * q - min`, with scales and minima uniform over 0..=63: 7.5 times the minimum's unit centres it.
            let scale = spread / 255.0;
            out.extend(half(scale));
            out.extend(half(7.5 * scale));
            random.bytes(12 + 128, out);
        }
        TensorType::Q6K => {
            // `scale * (q - 32)`, with scales uniform over -128..=127.
            random.bytes(128 + 64 + 16, out);
            out.extend(half(spread / 1365.0));
        }
        // F32, the only other kind that the recipes use.
        _ => out.extend((spread * random.normal()).to_le_bytes()),
    }
}

/// An IEEE half near `value`, whose magnitude must be below 65,504.
pub(super) fn half(value: f32) -> [u8; 2] {
    const SMALLEST_NORMAL: f32 = 6.103_515_6e-5;
    const SUBNORMAL_STEP: f32 = 5.960_464_5e-8;
    let magnitude = value.abs();
    let bits = if magnitude < SMALLEST_NORMAL {
        (magnitude / SUBNORMAL_STEP) as u16
    } else {
        // The exponent's bias falls from 127 to 15, the mantissa from 23 to 10 bits.
        ((magnitude.to_bits() >> 13) - (112 << 10)) as u16
    };
    let sign = if value < 0.0 { 0x8000 } else { 0 };
    (bits | sign).to_le_bytes()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn blocks_have_the_spread_asked_for() {
        use tapri_kernels::{Quant, dequantise};
        for (kind, quant) in [
            (TensorType::F32, Quant::F32),
            (TensorType::Q8_0, Quant::Q8_0),
            (TensorType::Q5_0, Quant::Q5_0),
            (TensorType::Q4_1, Quant::Q4_1),
            (TensorType::Q4K, Quant::Q4K),
            (TensorType::Q6K, Quant::Q6K),
        ] {
            let mut random = Random::new(7);
            let mut bytes = Vec::new();
            let count = 65_536 / kind.block_len();
            for _ in 0..count {
                block(&mut random, kind, 0.125, &mut bytes);
            }
            let mut values = vec![0.0_f32; count * kind.block_len()];
            dequantise(quant, &bytes, &mut values);
            let n = values.len() as f32;
            let mean = values.iter().sum::<f32>() / n;
            let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / n).sqrt();
            assert!(mean.abs() < 0.02, "{kind:?}: mean {mean}");
            assert!((0.11..0.14).contains(&deviation), "{kind:?}: spread {deviation}");
        }
    }

    #[test]
    fn halves_are_what_they_should_be() {
        for (value, bits) in
            [(1.0, 0x3c00_u16), (-2.0, 0xc000), (0.099_975_586, 0x2e66), (5.960_464_5e-8, 1)]
        {
            assert_eq!(half(value), bits.to_le_bytes(), "{value}");
        }
    }
}
