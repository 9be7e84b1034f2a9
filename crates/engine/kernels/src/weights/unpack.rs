//! From one block of a panel back to plain numbers: the portable way, and the meaning of the packed form.

use super::layout::{BLOCK, BLOCK_BYTES, Layout, PANEL, SUPER};
use crate::half::f16_at;
use crate::quant::Quant;

/// 32 k of a panel's 16 columns. The numbers are `scale * quant`, then `+ minimum` where the format has one.
pub(crate) struct Unpacked {
    /// `[8 groups][16 columns][4 k]`, with the format's offset taken off.
    pub(crate) quants: [i8; BLOCK_BYTES],
    /// One scale a column for each half of the block; both are the same except in Q6_K.
    pub(crate) scales: [[f32; PANEL]; 2],
    /// Q4_1's and Q5_1's minimum, or Q4_K's and Q5_K's, negated (it is subtracted there).
    pub(crate) minima: [f32; PANEL],
}

/// Whether a format has minima.
pub(crate) const fn has_minima(quant: Quant) -> bool {
    matches!(quant, Quant::Q4_1 | Quant::Q5_1 | Quant::Q4K | Quant::Q5K)
}

/// Whether a format has a scale for each 16 k.
pub(crate) const fn has_half_scales(quant: Quant) -> bool {
    matches!(quant, Quant::Q6K)
}

impl Unpacked {
    pub(crate) fn new() -> Unpacked {
        Unpacked { quants: [0; BLOCK_BYTES], scales: [[0.0; PANEL]; 2], minima: [0.0; PANEL] }
    }

    /// Reads block `block` of a quantised panel.
    ///
    /// # Panics
    /// When the numbers are floats, or the block is outside the panel.
    pub(crate) fn read(&mut self, layout: &Layout, panel: &[u8], block: usize) {
        assert!(block < layout.blocks, "block {block} of {}", layout.blocks);
        self.read_quants(layout, panel, block);
        let scales = &panel[layout.scales + block * layout.scales_step..][..layout.scales_step];
        let supers =
            &panel[layout.supers + block / SUPER * layout.supers_step..][..layout.supers_step];
        for column in 0..PANEL {
            let half = |run: &[u8], slot: usize| f16_at(run, (slot * PANEL + column) * 2);
            let byte = |slot: usize| scales[slot * PANEL + column];
            let (low, high, minimum) = match layout.quant {
                Quant::F32 | Quant::F16 | Quant::Bf16 => (0.0, 0.0, 0.0),
                Quant::Q4_1 | Quant::Q5_1 => (half(scales, 0), half(scales, 0), half(scales, 1)),
                Quant::Q4_0 | Quant::Q5_0 | Quant::Q8_0 => (half(scales, 0), half(scales, 0), 0.0),
                Quant::Q4K | Quant::Q5K => {
                    let scale = half(supers, 0) * f32::from(byte(0));
                    (scale, scale, -(half(supers, 1) * f32::from(byte(1))))
                }
                Quant::Q6K => {
                    let d = half(supers, 0);
                    (d * f32::from(byte(0) as i8), d * f32::from(byte(1) as i8), 0.0)
                }
            };
            self.scales[0][column] = low;
            self.scales[1][column] = high;
            self.minima[column] = minimum;
        }
    }

    fn read_quants(&mut self, layout: &Layout, panel: &[u8], block: usize) {
        let run = &panel[block * layout.quants_step..][..layout.quants_step];
        let high = &panel[layout.high + block * layout.high_step..][..layout.high_step];
        match layout.quant {
            Quant::F32 | Quant::F16 | Quant::Bf16 => {}
            Quant::Q8_0 => {
                for (to, from) in self.quants.iter_mut().zip(run) {
                    *to = (from ^ 0x80) as i8;
                }
            }
            Quant::Q4_0 => {
                self.read_nibbles(run);
                self.quants.iter_mut().for_each(|quant| *quant -= 8);
            }
            Quant::Q4_1 | Quant::Q4K => self.read_nibbles(run),
            Quant::Q5_0 => {
                self.read_nibbles(run);
                self.add_fifth_bits(high);
                self.quants.iter_mut().for_each(|quant| *quant -= 16);
            }
            Quant::Q5_1 | Quant::Q5K => {
                self.read_nibbles(run);
                self.add_fifth_bits(high);
            }
            Quant::Q6K => {
                self.read_nibbles(run);
                for (i, quant) in self.quants.iter_mut().enumerate() {
                    let (group, within) = (i / 64, i % 64);
                    let pair = high[group / 4 * 64 + within] >> (group % 4 * 2) & 3;
                    *quant += (pair as i8) * 16 - 32;
                }
            }
        }
    }

    fn add_fifth_bits(&mut self, masks: &[u8]) {
        for (i, quant) in self.quants.iter_mut().enumerate() {
            let fifth = masks[i / 8] >> (i % 8) & 1;
            *quant += (fifth as i8) * 16;
        }
    }

    fn read_nibbles(&mut self, run: &[u8]) {
        let (low, high) = self.quants.split_at_mut(BLOCK_BYTES / 2);
        for ((low, high), byte) in low.iter_mut().zip(high).zip(run) {
            *low = (byte & 15) as i8;
            *high = (byte >> 4) as i8;
        }
    }

    /// The 32 numbers of one column, as the file's own formula gives them.
    pub(crate) fn column(&self, quant: Quant, column: usize, out: &mut [f32]) {
        for (i, number) in out.iter_mut().enumerate().take(BLOCK) {
            let q = f32::from(self.quants[i / 4 * 64 + column * 4 + i % 4]);
            let product = self.scales[i / 16][column] * q;
            // Adding a zero would lose the sign of a negative zero.
            *number = if has_minima(quant) { product + self.minima[column] } else { product };
        }
    }
}
