//! Keys and values in signed bytes, as llama.cpp's Q8_0: one scale for each 32 dims of one token's head.
//!
//! A tile is K, then V, each of them a part of `17 * head_dim` bytes:
//!
//! - the bytes, in the order that the numbers have in bf16 (see [`kvstore`](super));
//! - the scales, bf16 `[head_dim / 32][16 tokens]`.
//!
//! A scale is bf16 where weights have f16, so that whatever bf16 can hold has one: f16 ends at 65,504 and thins out below
//! 0.00006. Its coarseness costs next to nothing, since the bytes are counted in the rounded scale. Each token has its own scales, so
//! writing one touches no other, and the order in which tokens came does not show.

use super::layout::TILE_TOKENS;
use super::{from_bf16, round_to_bf16, to_bf16};

/// Dims of one token that share a scale.
const GROUP: usize = 32;

/// Numbers that are unpacked at a time.
pub(crate) const ROW: usize = 2 * TILE_TOKENS;

/// Bytes of a group in one part of a tile.
const GROUP_BYTES: usize = GROUP * TILE_TOKENS;

/// What one group of one token becomes where a number is not finite: no byte says that, and it must not read as one.
const NOT_A_NUMBER: u16 = 0x7fc0;

/// 1.5 * 2^23: adding it rounds to an integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Bytes of the K or the V part of a tile.
pub(super) const fn part_bytes(head_dim: usize) -> usize {
    TILE_TOKENS * head_dim + head_dim / GROUP * TILE_TOKENS * size_of::<u16>()
}

/// Writes one token's key into a tile's K part.
pub(super) fn write_key(part: &mut [u8], slot: usize, k: &[f32]) {
    write(part, slot, k, |group, quants| {
        let rows = group.as_chunks_mut::<ROW>().0;
        for (row, pair) in rows.iter_mut().zip(quants.as_chunks::<2>().0) {
            row[2 * slot] = pair[0];
            row[2 * slot + 1] = pair[1];
        }
    });
}

/// Writes one token's value into a tile's V part.
pub(super) fn write_value(part: &mut [u8], slot: usize, v: &[f32]) {
    write(part, slot, v, |group, quants| {
        let row = &mut group[slot / 2 * 2 * GROUP..][..2 * GROUP];
        for (pair, quant) in row.as_chunks_mut::<2>().0.iter_mut().zip(quants) {
            pair[slot % 2] = *quant;
        }
    });
}

#[inline(always)]
fn write(
    part: &mut [u8],
    slot: usize,
    numbers: &[f32],
    place: impl Fn(&mut [u8; GROUP_BYTES], &[u8; GROUP]),
) {
    let (bytes, scales) = part.split_at_mut(TILE_TOKENS * numbers.len());
    let groups = bytes.as_chunks_mut::<GROUP_BYTES>().0.iter_mut();
    let scales = scales.as_chunks_mut::<ROW>().0;
    for ((numbers, group), scales) in numbers.as_chunks::<GROUP>().0.iter().zip(groups).zip(scales)
    {
        let (scale, quants) = quantise(numbers);
        scales[2 * slot..2 * slot + 2].copy_from_slice(&scale.to_ne_bytes());
        place(group, &quants);
    }
}

/// The scale (bf16) and the bytes of 32 numbers: the largest becomes 127 or close to it.
fn quantise(numbers: &[f32; GROUP]) -> (u16, [u8; GROUP]) {
    // As integers: magnitudes have the order of their bits, and a NaN is above all.
    let magnitude = |x: &f32| x.to_bits() & 0x7fff_ffff;
    let largest = f32::from_bits(numbers.iter().map(magnitude).fold(0, u32::max));
    if !largest.is_finite() {
        return (NOT_A_NUMBER, [1; GROUP]);
    }
    let scale = to_bf16(largest / 127.0);
    let step = from_bf16(scale);
    if step == 0.0 {
        return (0, [0; GROUP]);
    }
    let mut quants = [0; GROUP];
    for (quant, x) in quants.iter_mut().zip(numbers) {
        // The rounded scale may be a little small: 127.3 steps are 127.
        let steps = (x / step).clamp(-127.0, 127.0);
        // The sum's lower bits are the integer.
        *quant = (steps + ROUND).to_bits() as u8;
    }
    (scale, quants)
}

/// Turns a tile into bf16 in the same order: byte times scale (exact in f32: 7 and 8 bits), rounded to nearest.
pub(crate) fn unpack(tile: &[u8], head_dim: usize, out: &mut [u16]) {
    unpack_with(tile, head_dim, out, multiply);
}

/// The same with a path's own [`multiply`]. Each number is a function of one byte and one scale, so that nothing else can show.
#[inline(always)]
pub(crate) fn unpack_with(
    tile: &[u8],
    head_dim: usize,
    out: &mut [u16],
    multiply: impl Fn(&[u8; ROW], &[f32; ROW], &mut [u16; ROW]),
) {
    let (keys, values) = tile.split_at(part_bytes(head_dim));
    let (keys_out, values_out) = out.split_at_mut(TILE_TOKENS * head_dim);
    for (bytes, scales, out) in groups(keys, head_dim, keys_out) {
        // Two dims of each of the sixteen keys in turn.
        let mut scale = [0.0_f32; ROW];
        for (pair, own) in scale.as_chunks_mut::<2>().0.iter_mut().zip(scales) {
            *pair = [from_bf16(own); 2];
        }
        let rows = bytes.as_chunks::<ROW>().0;
        for (bytes, out) in rows.iter().zip(out.as_chunks_mut::<ROW>().0) {
            multiply(bytes, &scale, out);
        }
    }
    for (bytes, scales, out) in groups(values, head_dim, values_out) {
        let rows = bytes.as_chunks::<{ 2 * GROUP }>().0.iter().zip(scales.as_chunks::<2>().0);
        for ((bytes, own), out) in rows.zip(out.as_chunks_mut::<{ 2 * GROUP }>().0) {
            // 32 dims of two keys, one beside the other.
            let own = own.map(from_bf16);
            let scale: [f32; ROW] = std::array::from_fn(|i| own[i % 2]);
            let out = out.as_chunks_mut::<ROW>().0;
            for (bytes, out) in bytes.as_chunks::<ROW>().0.iter().zip(out) {
                multiply(bytes, &scale, out);
            }
        }
    }
}

/// For each group of a part its bytes, the sixteen tokens' scales, and where it goes.
#[inline(always)]
fn groups<'a>(
    part: &'a [u8],
    head_dim: usize,
    out: &'a mut [u16],
) -> impl Iterator<Item = (&'a [u8; GROUP_BYTES], [u16; TILE_TOKENS], &'a mut [u16; GROUP_BYTES])> {
    let (bytes, scales) = part.split_at(TILE_TOKENS * head_dim);
    let scales = scales.as_chunks::<ROW>().0;
    let bytes = bytes.as_chunks::<GROUP_BYTES>().0;
    bytes.iter().zip(scales).zip(out.as_chunks_mut::<GROUP_BYTES>().0).map(
        |((bytes, scales), out)| {
            let own = |i: usize| u16::from_ne_bytes([scales[2 * i], scales[2 * i + 1]]);
            (bytes, std::array::from_fn(own), out)
        },
    )
}

/// 32 bytes times their scales, in bf16.
#[inline(always)]
pub(crate) fn multiply(bytes: &[u8; ROW], scale: &[f32; ROW], out: &mut [u16; ROW]) {
    for ((byte, scale), out) in bytes.iter().zip(scale).zip(out) {
        *out = round_to_bf16(f32::from(*byte as i8) * scale);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::layout::{key_index, value_index};
    use super::*;

    /// The bf16 values of one token's numbers after a tile.
    fn through(head_dim: usize, slot: usize, k: &[f32], v: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let part = part_bytes(head_dim);
        let mut tile = vec![0; 2 * part];
        let (keys, values) = tile.split_at_mut(part);
        write_key(keys, slot, k);
        write_value(values, slot, v);
        let mut out = vec![0; 2 * TILE_TOKENS * head_dim];
        unpack(&tile, head_dim, &mut out);
        let (keys, values) = out.split_at(TILE_TOKENS * head_dim);
        for other in (0..TILE_TOKENS).filter(|other| *other != slot) {
            for d in 0..head_dim {
                assert_eq!((keys[key_index(d, other)], values[value_index(d, other)]), (0, 0));
            }
        }
        let read = |part: &[u16], index: fn(usize, usize) -> usize| {
            (0..head_dim).map(|d| from_bf16(part[index(d, slot)])).collect()
        };
        (read(keys, key_index), read(values, value_index))
    }

    /// The most that a number may be off: half a step of a scale that is up to 1/256 too large (or, where that is too small, what the
    /// largest is cut by), and the rounding to bf16.
    fn bound(group: &[f32]) -> f32 {
        let largest = group.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        largest * (0.505 / 127.0 + 1.01 / 256.0)
    }

    proptest! {
        #[test]
        fn numbers_are_near_what_they_were(
            slot in 0_usize..TILE_TOKENS,
            groups in 1_usize..5,
            magnitude in -20_i32..20,
            seed in any::<u32>(),
        ) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 2.0_f32.powi(magnitude)
            };
            let k: Vec<f32> = (0..32 * groups).map(|_| next()).collect();
            let v: Vec<f32> = (0..32 * groups).map(|_| next()).collect();
            let (key, value) = through(32 * groups, slot, &k, &v);
            for (got, want) in [(key, k), (value, v)] {
                for (got, want) in got.chunks(32).zip(want.chunks(32)) {
                    let bound = bound(want);
                    for (got, want) in got.iter().zip(want) {
                        prop_assert!((got - want).abs() <= bound, "{got} for {want}, bound {bound}");
                    }
                }
            }
        }
    }

    #[test]
    fn zeros_tiny_and_huge_numbers_and_what_is_none() {
        let of = |x: f32| through(32, 5, &[x; 32], &[-x; 32]);
        // Less than any scale.
        assert_eq!(of(1.0e-40), (vec![0.0; 32], vec![0.0; 32]));
        for x in [0.0, 1.0e-30, 1.0e30, 3.0e38] {
            let (k, v) = of(x);
            assert!(
                k.iter().zip(&v).all(|(k, v)| *k == -*v && (k - x).abs() <= x * 0.01),
                "{x}: {k:?}"
            );
        }
        for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut numbers = vec![1.0; 64];
            numbers[40] = x;
            let (k, v) = through(64, 0, &numbers, &numbers);
            for read in [k, v] {
                assert!(read[..32].iter().all(|x| (x - 1.0).abs() < 0.01));
                assert!(read[32..].iter().all(|x| x.is_nan()), "{read:?}");
            }
        }
    }
}
