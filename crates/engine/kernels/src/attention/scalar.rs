//! The reference: plain Rust, in the order of operations that the text of `attention` describes.

use super::exp2::exp2;
use super::merge::{self, NO_MAX, Softmax};
use super::tile::{Fresh, Kernel, MAX_ROWS, SCORE_STRIDE, Tile};
use crate::kvstore::{TILE_TOKENS, from_bf16, q8};

/// Partial sums of a row's probabilities: key `j` adds to lane `j % LANES`.
const LANES: usize = 16;

pub(super) struct Scalar;

impl Kernel for Scalar {
    const ROWS: usize = MAX_ROWS;

    unsafe fn block(tile: &Tile<'_>, fresh: &mut Fresh) {
        for row in 0..tile.visible.len() {
            let scores = &mut fresh.scores[row * SCORE_STRIDE..(row + 1) * SCORE_STRIDE];
            score(tile, row, scores);
            fresh.softmax[row] = softmax(tile, row, scores);
            value(tile, scores, &mut fresh.out[row * tile.head_dim..(row + 1) * tile.head_dim]);
        }
    }

    unsafe fn unpack(tile: &[u8], head_dim: usize, out: &mut [u16]) {
        q8::unpack(tile, head_dim, out);
    }

    unsafe fn merge(so_far: &mut [f32], old: f32, block: &[f32], fresh: f32) {
        merge::merge(so_far, old, block, fresh);
    }
}

fn score(tile: &Tile<'_>, row: usize, scores: &mut [f32]) {
    let rows = tile.visible.len();
    for page in tile.used.clone() {
        let mut sums = [0.0_f32; TILE_TOKENS];
        let keys = &tile.pages[page][..TILE_TOKENS * tile.head_dim];
        for (q, keys) in tile.q.chunks_exact(2 * rows).zip(keys.chunks_exact(2 * TILE_TOKENS)) {
            let q = [q[row], q[rows + row]];
            for (sum, key) in sums.iter_mut().zip(keys.chunks_exact(2)) {
                *sum = (*sum + q[0] * from_bf16(key[0])) + q[1] * from_bf16(key[1]);
            }
        }
        scores[page * TILE_TOKENS..(page + 1) * TILE_TOKENS].copy_from_slice(&sums);
    }
}

fn softmax(tile: &Tile<'_>, row: usize, scores: &mut [f32]) -> Softmax {
    let keys = tile.used.start * TILE_TOKENS..tile.used.end * TILE_TOKENS;
    let visible = &tile.visible[row];
    let mut max = NO_MAX;
    for &s in &scores[visible.clone()] {
        max = if s > max { s } else { max };
    }
    let mut lanes = [0.0_f32; LANES];
    for key in keys {
        let p = if visible.contains(&key) { exp2(scores[key] - max) } else { 0.0 };
        scores[key] = p;
        lanes[key % LANES] += p;
    }
    let mut sum = 0.0;
    for lane in lanes {
        sum += lane;
    }
    Softmax { max, sum }
}

fn value(tile: &Tile<'_>, probabilities: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for page in tile.used.clone() {
        let p = &probabilities[page * TILE_TOKENS..(page + 1) * TILE_TOKENS];
        let values = &tile.pages[page][TILE_TOKENS * tile.head_dim..];
        for (out, run) in out.chunks_exact_mut(32).zip(values.chunks_exact(32 * TILE_TOKENS)) {
            for (p, values) in p.chunks_exact(2).zip(run.chunks_exact(64)) {
                for (o, v) in out.iter_mut().zip(values.chunks_exact(2)) {
                    *o = (*o + p[0] * from_bf16(v[0])) + p[1] * from_bf16(v[1]);
                }
            }
        }
    }
}
