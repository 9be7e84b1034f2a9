//! What a kernel works on: a few rows against one key block.

use std::ops::Range;

use super::KEY_BLOCK;
use super::merge::Softmax;
use crate::kvstore::TILE_TOKENS;

/// The most rows that any kernel takes at once.
pub(super) const MAX_ROWS: usize = 12;

/// Pages of 16 keys in a key block.
pub(super) const PAGES: usize = KEY_BLOCK / TILE_TOKENS;

/// Floats between the score rows of a tile: more than a key block, so that the rows do not all start in one set of the L1 cache.
pub(super) const SCORE_STRIDE: usize = KEY_BLOCK + 16;

/// Some rows and one key block of one KV head.
pub(super) struct Tile<'a> {
    /// `[head_dim, rows]`, scaled for scores in units of log2: with the rows side by side a kernel reads them at fixed offsets.
    pub(super) q: &'a [f32],
    pub(super) head_dim: usize,
    /// For each page of the block its K and V in bf16 (see [`KvStore`](crate::KvStore)). Only those in `used` are filled.
    pub(super) pages: &'a [&'a [u16]; PAGES],
    /// Pages that any row sees.
    pub(super) used: Range<usize>,
    /// For each row the keys of the block that it sees.
    pub(super) visible: &'a [Range<usize>],
    /// Halves of pages (keys or values) of the next key block, to be asked for meanwhile: one with each page of this block, as
    /// far as they go.
    pub(super) ahead: &'a [&'a [u16]],
}

/// A key block's result for the rows of a tile.
#[derive(Debug)]
pub(super) struct Fresh {
    /// `[MAX_ROWS][SCORE_STRIDE]`: scores, then probabilities.
    pub(super) scores: Vec<f32>,
    pub(super) softmax: [Softmax; MAX_ROWS],
    /// `[MAX_ROWS, head_dim]`, not divided by the sum.
    pub(super) out: Vec<f32>,
}

impl Fresh {
    pub(super) fn new(head_dim: usize) -> Self {
        Fresh {
            scores: vec![0.0; MAX_ROWS * SCORE_STRIDE],
            softmax: [Softmax::EMPTY; MAX_ROWS],
            out: vec![0.0; MAX_ROWS * head_dim],
        }
    }
}

/// An instruction-set path's arithmetic.
pub(super) trait Kernel {
    /// Rows that a tile should have, at most [`MAX_ROWS`].
    const ROWS: usize;

    /// Fills `fresh` for the tile's rows; a row that sees no key of the block gets an empty softmax, and its output means nothing.
    ///
    /// # Safety
    /// The CPU must have the path's instructions.
    unsafe fn block(tile: &Tile<'_>, fresh: &mut Fresh);

    /// [`q8::unpack`](crate::kvstore::q8::unpack) with the path's instructions.
    ///
    /// # Safety
    /// As for `block`.
    unsafe fn unpack(tile: &[u8], head_dim: usize, out: &mut [u16]);

    /// [`merge`](super::merge::merge) with the path's instructions.
    ///
    /// # Safety
    /// As for `block`.
    unsafe fn merge(so_far: &mut [f32], old: f32, block: &[f32], fresh: f32);
}
