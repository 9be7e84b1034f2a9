//! One block of each format: bytes to numbers. The caller has checked both lengths.

use crate::half::{bf16_at, f16_at};

pub(super) fn f32(block: &[u8], out: &mut [f32]) {
    out[0] = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
}

pub(super) fn f16(block: &[u8], out: &mut [f32]) {
    out[0] = f16_at(block, 0);
}

pub(super) fn bf16(block: &[u8], out: &mut [f32]) {
    out[0] = bf16_at(block, 0);
}

/// `d` as f16, then nibbles as in Q4_1.
pub(super) fn q4_0(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    let (low, high) = out.split_at_mut(16);
    for (i, byte) in block[2..18].iter().enumerate() {
        low[i] = scale * f32::from(i16::from(byte & 15) - 8);
        high[i] = scale * f32::from(i16::from(byte >> 4) - 8);
    }
}

/// `d, m` as f16, then 16 bytes: the low nibbles are numbers 0 to 15, the high ones 16 to 31.
pub(super) fn q4_1(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    let (low, high) = out.split_at_mut(16);
    for (i, byte) in block[4..20].iter().enumerate() {
        low[i] = scale * f32::from(byte & 15) + minimum;
        high[i] = scale * f32::from(byte >> 4) + minimum;
    }
}

/// `d` as f16, 32 fifth bits, then nibbles as in Q4_1.
pub(super) fn q5_0(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    let (low, high) = out.split_at_mut(16);
    for (i, byte) in block[6..22].iter().enumerate() {
        let number = |nibble: u8, bit: u32| {
            let fifth = (fifth >> bit & 1) as i16;
            scale * f32::from((i16::from(nibble) | fifth << 4) - 16)
        };
        low[i] = number(byte & 15, i as u32);
        high[i] = number(byte >> 4, i as u32 + 16);
    }
}

/// `d, m` as f16, 32 fifth bits, then nibbles as in Q4_1.
pub(super) fn q5_1(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    let (low, high) = out.split_at_mut(16);
    for (i, byte) in block[8..24].iter().enumerate() {
        let number = |nibble: u8, bit: u32| {
            let fifth = (fifth >> bit & 1) as u8;
            scale * f32::from(nibble | fifth << 4) + minimum
        };
        low[i] = number(byte & 15, i as u32);
        high[i] = number(byte >> 4, i as u32 + 16);
    }
}

/// `d` as f16, then 32 signed bytes.
pub(super) fn q8_0(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 0);
    for (byte, number) in block[2..34].iter().zip(out) {
        *number = scale * f32::from(*byte as i8);
    }
}

/// `d, dmin` as f16, 12 bytes of 6-bit scales and minima, then 128 bytes: each run of 32 holds two blocks of 32
/// numbers, one in the low nibbles and the next in the high ones.
pub(super) fn q4_k(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    for (index, numbers) in out.chunks_exact_mut(32).enumerate() {
        let (s, m) = k_scale_and_min(&block[4..16], index);
        let (scale, minimum) = (scale * f32::from(s), minimum * f32::from(m));
        let run = &block[16 + index / 2 * 32..][..32];
        for (byte, number) in run.iter().zip(numbers) {
            *number = scale * f32::from(byte >> (index % 2 * 4) & 15) - minimum;
        }
    }
}

/// The 6-bit scale and minimum of block `index` (0 to 7) of a Q4_K or Q5_K superblock, from its 12 packed bytes.
///
/// Blocks 0 to 3 have theirs in the low 6 bits of bytes 0 to 3 and 4 to 7; blocks 4 to 7 have their low 4 bits in bytes
/// 8 to 11 and their upper 2 in the top of bytes 0 to 7.
pub(crate) fn k_scale_and_min(packed: &[u8], index: usize) -> (u8, u8) {
    if index < 4 {
        (packed[index] & 63, packed[index + 4] & 63)
    } else {
        let low = packed[index + 4];
        (low & 15 | packed[index - 4] >> 6 << 4, low >> 4 | packed[index] >> 6 << 4)
    }
}

/// `d, dmin` and scales as in Q4_K, 32 bytes of fifth bits, then 128 bytes of nibbles as there.
pub(super) fn q5_k(block: &[u8], out: &mut [f32]) {
    let (scale, minimum) = (f16_at(block, 0), f16_at(block, 2));
    for (index, numbers) in out.chunks_exact_mut(32).enumerate() {
        let (s, m) = k_scale_and_min(&block[4..16], index);
        let (scale, minimum) = (scale * f32::from(s), minimum * f32::from(m));
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = scale * f32::from(q5_k_quant(block, index, i)) - minimum;
        }
    }
}

/// The 5-bit quant of number `i` (0 to 31) of block `index` (0 to 7) of a Q5_K superblock.
pub(crate) fn q5_k_quant(block: &[u8], index: usize, i: usize) -> u8 {
    let nibble = block[48 + index / 2 * 32 + i] >> (index % 2 * 4) & 15;
    nibble | (block[16 + i] >> index & 1) << 4
}

/// 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed scales, then `d` as f16. Each half of the superblock
/// (128 numbers) has 64 bytes of nibbles and 32 of pairs: number `32 j + l` has the nibble `j / 2` of byte
/// `l + 32 (j % 2)` and the pair `j` of byte `l`.
pub(super) fn q6_k(block: &[u8], out: &mut [f32]) {
    let scale = f16_at(block, 208);
    for (index, number) in out.iter_mut().enumerate() {
        let q = q6_k_quant(block, index);
        let s = block[192 + index / 16] as i8;
        *number = (scale * f32::from(s)) * f32::from(i16::from(q) - 32);
    }
}

/// The 6-bit quant of number `index` (0 to 255) of a Q6_K superblock.
pub(crate) fn q6_k_quant(block: &[u8], index: usize) -> u8 {
    let (half, j, l) = (index / 128, index % 128 / 32, index % 32);
    let nibble = block[half * 64 + j % 2 * 32 + l] >> (j / 2 * 4) & 15;
    let pair = block[128 + half * 32 + l] >> (j * 2) & 3;
    nibble | pair << 4
}
