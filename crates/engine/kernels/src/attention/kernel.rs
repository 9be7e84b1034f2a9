//! The tile kernel, written once over [`Vector`].
//!
//! A score is a chain of fused products over the head's dimensions, an output one over the keys of the block, both
//! ascending; so neither the number of rows nor the width of a tile shows in the bits.

use std::array::from_fn;

use super::exp2::{COEFFICIENTS, LOWEST};
use super::merge::{NO_MAX, Softmax};
use super::tile::{Fresh, SCORE_STRIDE, Tile};
use super::vector::Vector;
use crate::kvstore::TILE_TOKENS;

/// How many rows of K ahead of its use a cache line is asked for. (Measured: with the prefetches in `score` and `value` 5 percent
/// more in prefill, 13 in decoding.)
const AHEAD: usize = 16;

/// Calls `$kernel::<R, W>` for the tile's number of rows.
macro_rules! per_rows {
    ($tile:expr, $fresh:expr, $kernel:ident, $([$rows:literal, $width:literal]),+) => {
        match $tile.visible.len() {
            $($rows => $kernel::<$rows, $width>($tile, $fresh),)+
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
}
pub(super) use per_rows;

/// One tile of `R` rows; `W` registers of keys (then of dimensions) are worked on side by side.
///
/// # Safety
/// The CPU must have the path's instructions.
#[inline(always)]
pub(super) unsafe fn block<V: Vector, const R: usize, const W: usize>(
    tile: &Tile<'_>,
    fresh: &mut Fresh,
) {
    let d = tile.head_dim;
    // What the pointers below rely on.
    assert!(tile.visible.len() == R && tile.q.len() == R * d && d.is_multiple_of(32));
    assert!(fresh.scores.len() >= R * SCORE_STRIDE && fresh.out.len() >= R * d);
    assert!(tile.used.end <= tile.pages.len());
    assert!(tile.ahead.iter().all(|half| half.len() == TILE_TOKENS * d));
    assert!(tile.pages[tile.used.clone()].iter().all(|page| page.len() == 2 * TILE_TOKENS * d));
    let scores = fresh.scores.as_mut_ptr();
    // SAFETY: the shapes were just checked; the instructions are the caller's contract.
    unsafe {
        let wide = W * V::LANES / TILE_TOKENS;
        let mut page = tile.used.start;
        while page + wide <= tile.used.end {
            score::<V, R, W>(tile, page, scores);
            page += wide;
        }
        while page < tile.used.end {
            if V::LANES == TILE_TOKENS {
                score::<V, R, 1>(tile, page, scores);
            } else {
                score::<V, R, 2>(tile, page, scores);
            }
            page += 1;
        }
        for row in 0..R {
            fresh.softmax[row] = softmax::<V>(tile, row, scores.add(row * SCORE_STRIDE));
        }
        let out = fresh.out.as_mut_ptr();
        let mut first = 0;
        while first + W * V::LANES <= d {
            value::<V, R, W>(tile, first, scores, out);
            first += W * V::LANES;
        }
        while first < d {
            value::<V, R, 2>(tile, first, scores, out);
            first += 2 * V::LANES;
        }
    }
}

/// Scores of `W * LANES` keys from page `page` on.
#[inline(always)]
unsafe fn score<V: Vector, const R: usize, const W: usize>(
    tile: &Tile<'_>,
    page: usize,
    scores: *mut f32,
) {
    let d = tile.head_dim;
    let q = tile.q.as_ptr();
    // SAFETY: `block` has checked the shapes. A row of a page's K is 16 keys of 2 dims, `d / 2` rows follow one another.
    unsafe {
        let keys: [*const u16; W] = from_fn(|w| {
            let key = w * V::LANES;
            tile.pages[page + key / TILE_TOKENS].as_ptr().add(key % TILE_TOKENS * 2)
        });
        // The pages after these, or the last ones again.
        let next: [*const u16; W] = from_fn(|w| {
            let key = w * V::LANES;
            let page =
                (page + W * V::LANES / TILE_TOKENS + key / TILE_TOKENS).min(tile.used.end - 1);
            tile.pages[page].as_ptr().add(key % TILE_TOKENS * 2)
        });
        let done = page - tile.used.start;
        let far: Option<[*const u16; W]> =
            tile.ahead.get(done..).filter(|left| !left.is_empty()).map(|left| {
                from_fn(|w| left[(w * V::LANES / TILE_TOKENS).min(left.len() - 1)].as_ptr())
            });
        let mut sums = [[V::splat(0.0); W]; R];
        for pair in 0..d / 2 {
            let ahead = pair + AHEAD;
            for w in (0..W).step_by(TILE_TOKENS / V::LANES) {
                let from = if ahead < d / 2 {
                    keys[w].add(ahead * 32)
                } else {
                    next[w].add((ahead - d / 2) * 32)
                };
                V::prefetch(from);
                if let Some(far) = far {
                    V::prefetch_far(far[w].add(pair * 32));
                }
            }
            let k: [(V, V); W] = from_fn(|w| V::load_pairs(keys[w].add(pair * 2 * TILE_TOKENS)));
            let q = q.add(pair * 2 * R);
            for (r, sums) in sums.iter_mut().enumerate() {
                let q = V::splat(*q.add(r));
                for (sum, k) in sums.iter_mut().zip(&k) {
                    *sum = q.mul_add(k.0, *sum);
                }
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let q = V::splat(*q.add(R + r));
                for (sum, k) in sums.iter_mut().zip(&k) {
                    *sum = q.mul_add(k.1, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (w, sum) in sums.iter().enumerate() {
                sum.store(scores.add(r * SCORE_STRIDE + page * TILE_TOKENS + w * V::LANES));
            }
        }
    }
}

/// Turns a row's scores into probabilities relative to the row's largest; keys that it does not see get 0.
#[inline(always)]
unsafe fn softmax<V: Vector>(tile: &Tile<'_>, row: usize, scores: *mut f32) -> Softmax {
    let visible = &tile.visible[row];
    let keys = tile.used.start * TILE_TOKENS..tile.used.end * TILE_TOKENS;
    if visible.start >= visible.end {
        // Zeros, so that the output is not computed from whatever the scores were.
        // SAFETY: the range is inside the row.
        unsafe { std::slice::from_raw_parts_mut(scores.add(keys.start), keys.len()).fill(0.0) };
        return Softmax::EMPTY;
    }
    let all = visible.start <= keys.start && visible.end >= keys.end;
    let bounds =
        |key: usize| (visible.start as isize - key as isize, visible.end as isize - key as isize);
    // SAFETY: the range is inside the row, and a multiple of the lanes; instructions as for `block`.
    unsafe {
        let none = V::splat(NO_MAX);
        let mut largest = none;
        for key in keys.clone().step_by(V::LANES) {
            let mut s = V::load(scores.add(key));
            if !all {
                let (from, to) = bounds(key);
                s = s.keep(from, to, none);
            }
            largest = largest.max(s);
        }
        let max = largest.largest();
        let (subtract, zero) = (V::splat(max), V::splat(0.0));
        let mut sum = zero;
        for key in keys.step_by(V::LANES) {
            let mut p = exp2(V::load(scores.add(key)).sub(subtract));
            if !all {
                let (from, to) = bounds(key);
                p = p.keep(from, to, zero);
            }
            p.store(scores.add(key));
            sum = sum.add(p);
        }
        Softmax { max, sum: sum.sum() }
    }
}

/// [`exp2`](super::exp2::exp2) in lanes.
#[inline(always)]
unsafe fn exp2<V: Vector>(x: V) -> V {
    // SAFETY: instructions as for `block`.
    unsafe {
        let x = x.max(V::splat(LOWEST));
        let n = x.round();
        let r = x.sub(n);
        let mut p = V::splat(COEFFICIENTS[0]);
        for c in &COEFFICIENTS[1..] {
            p = p.mul_add(r, V::splat(*c));
        }
        p.times_power_of_2(n)
    }
}

/// Output dimensions `first..first + W * LANES`.
#[inline(always)]
unsafe fn value<V: Vector, const R: usize, const W: usize>(
    tile: &Tile<'_>,
    first: usize,
    p: *const f32,
    out: *mut f32,
) {
    let d = tile.head_dim;
    // SAFETY: `block` has checked the shapes. V follows K in a page; a run of 32 dims is 8 rows of 32 dims of 2 keys.
    unsafe {
        let mut sums = [[V::splat(0.0); W]; R];
        for page in tile.used.clone() {
            let values = tile.pages[page].as_ptr().add(TILE_TOKENS * d);
            let runs: [*const u16; W] = from_fn(|w| {
                let dim = first + w * V::LANES;
                values.add(dim / 32 * 32 * TILE_TOKENS + dim % 32 * 2)
            });
            let p = p.add(page * TILE_TOKENS);
            let next = tile.pages[(page + 1).min(tile.used.end - 1)].as_ptr().add(TILE_TOKENS * d);
            for pair in 0..TILE_TOKENS / 2 {
                for w in (0..W).step_by(TILE_TOKENS / V::LANES) {
                    let dim = first + w * V::LANES;
                    V::prefetch(next.add(dim / 32 * 32 * TILE_TOKENS + dim % 32 * 2 + pair * 64));
                }
                let v: [(V, V); W] = from_fn(|w| V::load_pairs(runs[w].add(pair * 64)));
                for (r, sums) in sums.iter_mut().enumerate() {
                    let p = V::splat(*p.add(r * SCORE_STRIDE + 2 * pair));
                    for (sum, v) in sums.iter_mut().zip(&v) {
                        *sum = p.mul_add(v.0, *sum);
                    }
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let p = V::splat(*p.add(r * SCORE_STRIDE + 2 * pair + 1));
                    for (sum, v) in sums.iter_mut().zip(&v) {
                        *sum = p.mul_add(v.1, *sum);
                    }
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (w, sum) in sums.iter().enumerate() {
                sum.store(out.add(r * d + first + w * V::LANES));
            }
        }
    }
}

/// [`merge`](super::merge::merge) in lanes. `so_far` and `fresh` have the same length, a multiple of 32.
///
/// # Safety
/// The CPU must have the path's instructions.
#[inline(always)]
pub(super) unsafe fn merge<V: Vector>(so_far: &mut [f32], old: f32, fresh: &[f32], new: f32) {
    assert!(so_far.len() == fresh.len() && fresh.len().is_multiple_of(32));
    // SAFETY: inside both slices; instructions by the contract.
    unsafe {
        let (old, new) = (V::splat(old), V::splat(new));
        for (to, from) in so_far.chunks_exact_mut(V::LANES).zip(fresh.chunks_exact(V::LANES)) {
            let sum = V::load(from.as_ptr()).mul_add(new, V::load(to.as_ptr()).mul(old));
            sum.store(to.as_mut_ptr());
        }
    }
}
