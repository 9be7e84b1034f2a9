//! More rows: chunks of two panels unpacked into scratch, then tiles of up to 6 rows by 2 panels.

use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use super::ahead::Ahead;
use super::unpack::{self, Pair, pair as unpack_pair};
use crate::activations::Block;
use crate::matmul::format::with_format;
use crate::matmul::{Output, split};
use crate::quant::Quant;
use crate::weights::Weights;

/// Rows of the largest tile: 6 x 2 integer sums and as many float ones, two groups of weights and a broadcast fill 27 of
/// the 32 registers; 12 chains keep both ports busy over the instruction's 5 cycles.
const MOST_ROWS: usize = 6;

/// Blocks that are unpacked at a time for few rows: with the sums and the rows they stay in a core's first cache.
const CHUNK: usize = 12;

/// Up to so many rows, fetching the matrix takes about as long as multiplying it.
pub(super) const STREAM_ROWS: usize = 48;

/// Two panels of the product (`2 * pair` and the next, if there is one) for a range of rows.
///
/// For up to [`STREAM_ROWS`] rows the panels are taken chunk by chunk, each with all rows, and the next chunk is asked for meanwhile. After
/// a chunk the sums go to memory: a load and a store for each of its [`CHUNK`] blocks' 90 instructions. For more rows unpacking
/// and waiting for the memory do not count, and a chunk is the whole.
///
/// # Safety
/// The CPU has the AVX-512 path, `rows` is `[out.m][blocks]`, `part` is inside `0..out.m`, and no other thread writes these
/// rows of these panels.
pub(super) unsafe fn pair<const MINIMA: bool, const HALVES: bool>(
    weights: &Weights,
    pair: usize,
    rows: &[Block],
    part: Range<usize>,
    out: &Output<'_>,
) {
    let layout = weights.layout();
    let rows = &rows[part.start * layout.blocks..part.end * layout.blocks];
    let panels = 2 * pair..weights.panels().min(2 * pair + 2);
    // Where there is no second panel the first takes its place: it is computed again and not stored.
    let both = [panels.start, panels.end - 1].map(|panel| weights.panel(panel).as_ptr());
    let streams = part.len() <= STREAM_ROWS;
    let chunks = if streams { layout.blocks.div_ceil(CHUNK) } else { 1 };
    let chunk = |index: usize| layout.blocks * index / chunks..layout.blocks * (index + 1) / chunks;
    let tiles = part.len().div_ceil(MOST_ROWS);
    let of_sums = part.len() * size_of::<[__m512; 2]>();
    let of_blocks = unpack::scratch_bytes(layout.blocks.div_ceil(chunks));
    split::with_scratch(of_sums + of_blocks, |scratch| {
        let sums = scratch.as_mut_ptr().cast::<__m512>();
        let scratch = scratch[of_sums..].as_mut_ptr();
        for index in 0..chunks {
            let blocks = chunk(index);
            // What comes next: the panels' next chunk, or the first one of the two panels behind them.
            let next = match index + 1 {
                next if next < chunks => (both, chunk(next)),
                _ => (both.map(|panel| panel.wrapping_add(2 * layout.panel_bytes)), chunk(0)),
            };
            // SAFETY: whole panels, and scratch for a chunk.
            let unpacked = unsafe {
                let blocks = blocks.clone();
                with_format!(layout.quant, unpack_pair, (layout, both, blocks, scratch))
            };
            let chunk = Chunk {
                pair: unpacked,
                blocks: blocks.len(),
                begins: blocks.start == 0,
                ends: blocks.end == layout.blocks,
                panels: panels.clone(),
            };
            for index_of_tile in 0..tiles {
                // Tiles of nearly equal height: a low one at the end would leave the ports idle.
                let first = part.len() * index_of_tile / tiles;
                let end = part.len() * (index_of_tile + 1) / tiles;
                let run = match end - first {
                    1 => of_rows::<1, MINIMA, HALVES>,
                    2 => of_rows::<2, MINIMA, HALVES>,
                    3 => of_rows::<3, MINIMA, HALVES>,
                    4 => of_rows::<4, MINIMA, HALVES>,
                    5 => of_rows::<5, MINIMA, HALVES>,
                    _ => of_rows::<6, MINIMA, HALVES>,
                };
                let tile = Tile {
                    rows: &rows[first * layout.blocks + blocks.start..],
                    stride: layout.blocks,
                    first: part.start + first,
                };
                let ahead = if streams {
                    let (panels, blocks) = next.clone();
                    Ahead::new(layout, panels, blocks, (index_of_tile, tiles), chunk.blocks)
                } else {
                    Ahead::none()
                };
                // SAFETY: the scratch holds the chunk and two sums for each row, and the CPU has the path.
                unsafe { run(&chunk, &tile, sums.add(2 * first), ahead, out) };
            }
        }
    });
}

/// Some blocks of two panels.
struct Chunk {
    pair: Pair,
    blocks: usize,
    /// Whether these are the panels' first blocks, and whether their last.
    begins: bool,
    ends: bool,
    panels: Range<usize>,
}

/// Some rows, from a chunk's first block on.
struct Tile<'a> {
    rows: &'a [Block],
    stride: usize,
    /// The first one in the product.
    first: usize,
}

/// A chunk's products with a tile of `R` rows, whose sums are taken up where the last chunk left them.
///
/// # Safety
/// The CPU has the AVX-512 path, `chunk.pair` holds its blocks, `sums` has two registers for each row, and no other thread writes these rows
/// of these panels.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
unsafe fn of_rows<const R: usize, const MINIMA: bool, const HALVES: bool>(
    chunk: &Chunk,
    tile: &Tile<'_>,
    sums: *mut __m512,
    mut ahead: Ahead,
    out: &Output<'_>,
) {
    let rows = tile.rows[..(R - 1) * tile.stride + chunk.blocks].as_ptr();
    if chunk.ends {
        for row in tile.first..tile.first + R {
            for panel in chunk.panels.clone() {
                // SAFETY: this part of the product is this call's alone.
                unsafe { out.expect_store(row, panel) };
            }
        }
    }
    let kept = sums.cast::<[[__m512; 2]; R]>();
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    if !chunk.begins {
        // SAFETY: the caller's contract.
        sums = unsafe { kept.read() };
    }
    for block in 0..chunk.blocks {
        ahead.step();
        // SAFETY: the scratch has this block, and the rows have it R times.
        unsafe {
            let pair = chunk.pair.block(block);
            add_block::<R, MINIMA, HALVES>(&mut sums, pair, rows.add(block), tile.stride);
        }
    }
    if !chunk.ends {
        // SAFETY: the caller's contract.
        unsafe { kept.write(sums) };
        return;
    }
    for (row, sums) in sums.into_iter().enumerate() {
        for (panel, sum) in chunk.panels.clone().zip(sums) {
            // SAFETY: the row is one of the product's, and this part of it is this call's alone.
            unsafe { out.store_register(tile.first + row, panel, sum) };
        }
    }
}

/// Adds one block's products with `R` rows.
///
/// # Safety
/// `pair` points at an unpacked block, and `activations` at R blocks, `stride` apart.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn add_block<const R: usize, const MINIMA: bool, const HALVES: bool>(
    sums: &mut [[__m512; 2]; R],
    pair: Pair,
    activations: *const Block,
    stride: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let (weights, floats) = (pair.groups, pair.floats);
        let floats = [floats, floats.add(128)];
        let mut dots = [[_mm512_setzero_si512(); 2]; R];
        for (row, dots) in dots.iter_mut().enumerate() {
            let activations = &*activations.add(row * stride);
            let start = if HALVES { activations.start_low } else { activations.start };
            *dots = [_mm512_set1_epi32(start); 2];
        }
        if HALVES {
            add_groups::<R, 0, 4>(&mut dots, weights, activations, stride);
            add_products(sums, &dots, load_pair(floats, 0), activations, stride);
            for (row, dots) in dots.iter_mut().enumerate() {
                let activations = &*activations.add(row * stride);
                *dots = [_mm512_set1_epi32(activations.start - activations.start_low); 2];
            }
            add_groups::<R, 4, 8>(&mut dots, weights, activations, stride);
            add_products(sums, &dots, load_pair(floats, 64), activations, stride);
        } else {
            add_groups::<R, 0, 8>(&mut dots, weights, activations, stride);
            add_products(sums, &dots, load_pair(floats, 0), activations, stride);
        }
        if MINIMA {
            let second = load_pair(floats, 64);
            for (row, sums) in sums.iter_mut().enumerate() {
                let scaled_sum = _mm512_set1_ps((*activations.add(row * stride)).scaled_sum);
                for (sum, minima) in sums.iter_mut().zip(second) {
                    *sum = _mm512_fmadd_ps(minima, scaled_sum, *sum);
                }
            }
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
            // Without it the compiler loads all groups first, and has no registers left for the sums.
            if R < MOST_ROWS {
                compiler_fence(Ordering::SeqCst);
            }
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
