//! Many rows: two panels unpacked into scratch, then tiles of up to 6 rows by 2 panels.

use std::arch::x86_64::*;
use std::ops::Range;

use super::ahead::Ahead;
use super::unpack::{self, PAIR_FLOATS, Pair, pair as unpack_pair};
use super::with_format;
use crate::activations::Block;
use crate::matmul::{Output, split};
use crate::quant::Quant;
use crate::weights::Weights;
use crate::weights::layout::BLOCK_BYTES;

/// Rows of the largest tile: 6 x 2 integer sums and as many float ones, two groups of weights and a broadcast fill 27 of
/// the 32 registers; 12 chains keep both ports busy over the instruction's 5 cycles.
const MOST_ROWS: usize = 6;

/// Two panels of the product (`2 * pair` and the next, if there is one) for a range of rows. With `ahead`, the two panels after these
/// are asked for meanwhile: where few rows come to a panel, computing and waiting for the memory would take turns otherwise.
///
/// # Safety
/// The CPU has the AVX-512 path, `rows` is `[out.m][blocks]`, `part` is inside `0..out.m`, and no other thread writes these
/// rows of these panels.
pub(super) unsafe fn pair<const MINIMA: bool, const HALVES: bool>(
    weights: &Weights,
    pair: usize,
    rows: &[Block],
    part: Range<usize>,
    ahead: bool,
    out: &Output<'_>,
) {
    let layout = weights.layout();
    split::with_scratch(unpack::scratch_bytes(layout), |scratch| {
        let scratch = scratch.as_mut_ptr();
        let panels = 2 * pair..weights.panels().min(2 * pair + 2);
        // Where there is no second panel the first takes its place: it is computed again and not stored.
        let both = [panels.start, panels.end - 1].map(|panel| weights.panel(panel).as_ptr());
        // SAFETY: whole panels, and scratch for all their blocks.
        let unpacked = unsafe { with_format!(layout.quant, unpack_pair, (layout, both, scratch)) };
        let tiles = part.len().div_ceil(MOST_ROWS);
        let mut ahead = if ahead {
            Ahead::new(weights, panels.end..panels.end + 2, tiles)
        } else {
            Ahead::none()
        };
        for tile in 0..tiles {
            // Tiles of nearly equal height: a low one at the end would leave the ports idle.
            let first = part.start + part.len() * tile / tiles;
            let end = part.start + part.len() * (tile + 1) / tiles;
            let run = match end - first {
                1 => of_rows::<1, MINIMA, HALVES>,
                2 => of_rows::<2, MINIMA, HALVES>,
                3 => of_rows::<3, MINIMA, HALVES>,
                4 => of_rows::<4, MINIMA, HALVES>,
                5 => of_rows::<5, MINIMA, HALVES>,
                _ => of_rows::<6, MINIMA, HALVES>,
            };
            // SAFETY: the rows are inside `rows`, the scratch holds all blocks, and the CPU has the path.
            unsafe { run(layout.blocks, unpacked, rows, first, panels.clone(), &mut ahead, out) };
        }
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn of_rows<const R: usize, const MINIMA: bool, const HALVES: bool>(
    blocks: usize,
    pair: Pair,
    rows: &[Block],
    first_row: usize,
    panels: Range<usize>,
    ahead: &mut Ahead,
    out: &Output<'_>,
) {
    let rows = rows[first_row * blocks..(first_row + R) * blocks].as_ptr();
    for row in first_row..first_row + R {
        for panel in panels.clone() {
            // SAFETY: this part of the product is this call's alone.
            unsafe { out.expect_store(row, panel) };
        }
    }
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    for block in 0..blocks {
        ahead.step();
        // SAFETY: the scratch has this block; the rows have R times `blocks`.
        unsafe {
            let at = block * BLOCK_BYTES;
            let weights = [pair.groups[0].add(at), pair.groups[1].add(at)];
            let activations = rows.add(block);
            let floats = pair.floats.add(block * PAIR_FLOATS);
            let scale = load_pair([floats, floats.add(128)], 0);
            let second = load_pair([floats, floats.add(128)], 64);
            let mut dots = [[_mm512_setzero_si512(); 2]; R];
            for (row, dots) in dots.iter_mut().enumerate() {
                let activations = &*activations.add(row * blocks);
                let start = if HALVES { activations.start_low } else { activations.start };
                *dots = [_mm512_set1_epi32(start); 2];
            }
            if HALVES {
                add_groups::<R, 0, 4>(&mut dots, weights, activations, blocks);
                add_products(&mut sums, &dots, scale, activations, blocks);
                for (row, dots) in dots.iter_mut().enumerate() {
                    let activations = &*activations.add(row * blocks);
                    *dots = [_mm512_set1_epi32(activations.start - activations.start_low); 2];
                }
                add_groups::<R, 4, 8>(&mut dots, weights, activations, blocks);
                add_products(&mut sums, &dots, second, activations, blocks);
            } else {
                add_groups::<R, 0, 8>(&mut dots, weights, activations, blocks);
                add_products(&mut sums, &dots, scale, activations, blocks);
            }
            if MINIMA {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let scaled_sum = _mm512_set1_ps((*activations.add(row * blocks)).scaled_sum);
                    for (sum, minima) in sums.iter_mut().zip(second) {
                        *sum = _mm512_fmadd_ps(minima, scaled_sum, *sum);
                    }
                }
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (panel, sum) in panels.clone().zip(sums) {
            // SAFETY: the row is one of the product's, and this part of it is this call's alone.
            unsafe { out.store_register(first_row + row, panel, sum) };
        }
    }
}

/// The registers `offset` bytes into each of two places. (Not `array::map`: its closure would not be inlined.)
///
/// # Safety
/// Both are there, on 64-byte boundaries.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_pair(places: [*const u8; 2], offset: usize) -> [__m512; 2] {
    // SAFETY: the caller's contract.
    unsafe {
        [_mm512_load_ps(places[0].add(offset).cast()), _mm512_load_ps(places[1].add(offset).cast())]
    }
}

/// Adds the exact products of groups `FROM` to `TO` of a block.
///
/// # Safety
/// `weights` are a block's groups, and `activations` points at R blocks, `stride` apart.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn add_groups<const R: usize, const FROM: usize, const TO: usize>(
    dots: &mut [[__m512i; 2]; R],
    weights: [*const u8; 2],
    activations: *const Block,
    stride: usize,
) {
    for group in FROM..TO {
        // SAFETY: the caller's contract; a block has 8 groups.
        unsafe {
            let columns = load_pair(weights, group * 64);
            let columns = [_mm512_castps_si512(columns[0]), _mm512_castps_si512(columns[1])];
            for (row, dots) in dots.iter_mut().enumerate() {
                let quants = (&raw const (*activations.add(row * stride)).quants).cast::<i32>();
                let four = _mm512_set1_epi32(quants.add(group).read_unaligned());
                for (dot, columns) in dots.iter_mut().zip(columns) {
                    *dot = _mm512_dpbusd_epi32(*dot, columns, four);
                }
            }
        }
    }
}

/// Adds the scaled products of a block (or half of it) to the sums.
///
/// # Safety
/// `activations` points at R blocks, `stride` apart.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_products<const R: usize>(
    sums: &mut [[__m512; 2]; R],
    dots: &[[__m512i; 2]; R],
    scale: [__m512; 2],
    activations: *const Block,
    stride: usize,
) {
    for (row, (sums, dots)) in sums.iter_mut().zip(dots).enumerate() {
        // SAFETY: the caller's contract.
        let row_scale = _mm512_set1_ps(unsafe { (*activations.add(row * stride)).scale });
        for ((sum, dot), scale) in sums.iter_mut().zip(dots).zip(scale) {
            let product = _mm512_mul_ps(_mm512_cvtepi32_ps(*dot), scale);
            *sum = _mm512_fmadd_ps(product, row_scale, *sum);
        }
    }
}
