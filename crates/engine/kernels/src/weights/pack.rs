//! From a file's rows to panels. See [`super::layout`] for both ends' meaning.

use super::layout::{BLOCK, Layout, PANEL, SUPER};
use crate::quant::{Quant, k_scale_and_min, q5_k_quant, q6_k_quant};

/// Groups of 4 consecutive k in a block.
const GROUPS: usize = BLOCK / 4;

/// Packs up to 16 rows, each as in the file, into one zeroed panel. Missing rows stay zero, scales included.
pub(super) fn pack_panel(layout: &Layout, rows: &[&[u8]], panel: &mut [u8]) {
    debug_assert!(rows.len() <= PANEL && panel.len() == layout.panel_bytes);
    for (column, row) in rows.iter().enumerate() {
        let blocks = row.chunks_exact(layout.quant.block_bytes()).enumerate();
        let mut column = Column { layout, panel: &mut *panel, column };
        match layout.quant {
            Quant::F32 | Quant::F16 | Quant::Bf16 => {
                blocks.for_each(|(k, bytes)| column.float(k, bytes))
            }
            Quant::Q4_0 => blocks.for_each(|(block, bytes)| column.q4_0(block, bytes)),
            Quant::Q4_1 => blocks.for_each(|(block, bytes)| column.q4_1(block, bytes)),
            Quant::Q5_0 => blocks.for_each(|(block, bytes)| column.q5_0(block, bytes)),
            Quant::Q5_1 => blocks.for_each(|(block, bytes)| column.q5_1(block, bytes)),
            Quant::Q8_0 => blocks.for_each(|(block, bytes)| column.q8_0(block, bytes)),
            Quant::Q4K => blocks.for_each(|(index, bytes)| column.q4_k(index, bytes)),
            Quant::Q5K => blocks.for_each(|(index, bytes)| column.q5_k(index, bytes)),
            Quant::Q6K => blocks.for_each(|(index, bytes)| column.q6_k(index, bytes)),
        }
    }
}

/// One column of a panel that is being filled.
struct Column<'a> {
    layout: &'a Layout,
    panel: &'a mut [u8],
    column: usize,
}

impl Column<'_> {
    fn float(&mut self, k: usize, bytes: &[u8]) {
        let at = k * self.layout.quants_step + self.column * bytes.len();
        self.panel[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// ggml's nibble order within a block of 32 (number i with number i + 16) is the panel's: group g with group g + 4.
    fn nibbles(&mut self, block: usize, nibbles: &[u8]) {
        let at = block * self.layout.quants_step;
        let run = &mut self.panel[at..at + self.layout.quants_step];
        for (lines, quad) in run.chunks_exact_mut(PANEL * 4).zip(nibbles.chunks_exact(4)) {
            lines[self.column * 4..][..4].copy_from_slice(quad);
        }
    }

    /// Writes the 2-byte number `slot` of a block's scales, or of a superblock's.
    fn half(&mut self, region: usize, slot: usize, bytes: &[u8]) {
        let at = region + (slot * PANEL + self.column) * 2;
        self.panel[at..at + 2].copy_from_slice(&bytes[..2]);
    }

    /// A bit for each of a block's 32 numbers, in order from the lowest.
    fn fifth_bits(&mut self, block: usize, bits: &[u8]) {
        let at = self.layout.high + block * self.layout.high_step;
        let masks = &mut self.panel[at..at + self.layout.high_step];
        // Two groups of 4 bits a byte; a column's 4 bits are half of byte `column / 2` of the group's mask.
        for (group, mask) in masks.chunks_exact_mut(8).enumerate() {
            let bits = bits[group / 2] >> (group % 2 * 4) & 15;
            mask[self.column / 2] |= bits << (self.column % 2 * 4);
        }
    }

    fn q4_0(&mut self, block: usize, bytes: &[u8]) {
        self.nibbles(block, &bytes[2..18]);
        self.half(self.layout.scales + block * self.layout.scales_step, 0, bytes);
    }

    fn q4_1(&mut self, block: usize, bytes: &[u8]) {
        self.nibbles(block, &bytes[4..20]);
        let region = self.layout.scales + block * self.layout.scales_step;
        self.half(region, 0, bytes);
        self.half(region, 1, &bytes[2..]);
    }

    fn q5_0(&mut self, block: usize, bytes: &[u8]) {
        self.nibbles(block, &bytes[6..22]);
        self.fifth_bits(block, &bytes[2..6]);
        self.half(self.layout.scales + block * self.layout.scales_step, 0, bytes);
    }

    fn q5_1(&mut self, block: usize, bytes: &[u8]) {
        self.nibbles(block, &bytes[8..24]);
        self.fifth_bits(block, &bytes[4..8]);
        let region = self.layout.scales + block * self.layout.scales_step;
        self.half(region, 0, bytes);
        self.half(region, 1, &bytes[2..]);
    }

    fn q8_0(&mut self, block: usize, bytes: &[u8]) {
        let at = block * self.layout.quants_step;
        let run = &mut self.panel[at..at + self.layout.quants_step];
        for (line, quad) in run.chunks_exact_mut(PANEL * 4).zip(bytes[2..34].chunks_exact(4)) {
            for (to, from) in line[self.column * 4..][..4].iter_mut().zip(quad) {
                *to = from ^ 0x80;
            }
        }
        self.half(self.layout.scales + block * self.layout.scales_step, 0, bytes);
    }

    fn q4_k(&mut self, index: usize, bytes: &[u8]) {
        let supers = self.layout.supers + index * self.layout.supers_step;
        self.half(supers, 0, bytes);
        self.half(supers, 1, &bytes[2..]);
        for part in 0..SUPER {
            let block = index * SUPER + part;
            let run = &bytes[16 + part / 2 * 32..][..32];
            let number = |i: usize| run[i] >> (part % 2 * 4) & 15;
            let mut nibbles = [0; 16];
            for (i, byte) in nibbles.iter_mut().enumerate() {
                *byte = number(i) | number(i + 16) << 4;
            }
            self.nibbles(block, &nibbles);
            let (scale, minimum) = k_scale_and_min(&bytes[4..16], part);
            self.byte_scales(block, scale, minimum);
        }
    }

    fn q5_k(&mut self, index: usize, bytes: &[u8]) {
        let supers = self.layout.supers + index * self.layout.supers_step;
        self.half(supers, 0, bytes);
        self.half(supers, 1, &bytes[2..]);
        for part in 0..SUPER {
            let block = index * SUPER + part;
            let mut nibbles = [0; 16];
            let mut fifth = [0; 4];
            for i in 0..BLOCK {
                let quant = q5_k_quant(bytes, part, i);
                nibbles[i % 16] |= (quant & 15) << (i / 16 * 4);
                fifth[i / 8] |= (quant >> 4) << (i % 8);
            }
            self.nibbles(block, &nibbles);
            self.fifth_bits(block, &fifth);
            let (scale, minimum) = k_scale_and_min(&bytes[4..16], part);
            self.byte_scales(block, scale, minimum);
        }
    }

    fn byte_scales(&mut self, block: usize, first: u8, second: u8) {
        let at = self.layout.scales + block * self.layout.scales_step + self.column;
        self.panel[at] = first;
        self.panel[at + PANEL] = second;
    }

    fn q6_k(&mut self, index: usize, bytes: &[u8]) {
        self.half(self.layout.supers + index * self.layout.supers_step, 0, &bytes[208..]);
        for part in 0..SUPER {
            let block = index * SUPER + part;
            let mut nibbles = [0; 16];
            let mut pairs = [0; 8];
            for i in 0..BLOCK {
                let quant = q6_k_quant(bytes, part * BLOCK + i);
                let group = i / 4;
                nibbles[i % 16] |= (quant & 15) << (i / 16 * 4);
                pairs[group / (GROUPS / 2) * 4 + i % 4] |= quant >> 4 << (group % (GROUPS / 2) * 2);
            }
            self.nibbles(block, &nibbles);
            let at = self.layout.high + block * self.layout.high_step;
            let run = &mut self.panel[at..at + self.layout.high_step];
            for (line, quad) in run.chunks_exact_mut(PANEL * 4).zip(pairs.chunks_exact(4)) {
                line[self.column * 4..][..4].copy_from_slice(quad);
            }
            self.byte_scales(block, bytes[192 + part * 2], bytes[193 + part * 2]);
        }
    }
}
