//! How a call's work is cut into items for the threads. No cut changes a result.

use std::ops::Range;

use super::{KEY_BLOCK, first_visible};
use crate::SeqRows;

/// Row tiles that one item takes at most: they share a key block while it is in the cache, and more would only coarsen the balance.
const ITEM_TILES: usize = 6;

/// Items per thread that the cut aims at.
const ITEMS_PER_THREAD: usize = 2;

/// Below this many rows a thread, threads share rows and split the keys instead: smaller tiles would spend their time on unpacking keys.
const SPLIT_BELOW_ROWS: usize = 6;

/// Key blocks that an item of split keys takes at least.
const SPLIT_BLOCKS: usize = 2;

/// Up to this many key blocks the keys are not split: decoding in a window of 512 takes 19 us on one thread, and 21 on two that
/// hand the work over twice.
const SPLIT_ABOVE: usize = 4;

/// All flat rows (token, head) of one sequence on one KV head.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) seq: usize,
    pub(super) kv_head: usize,
    pub(super) rows: usize,
    /// Key blocks that any row sees.
    pub(super) blocks: Range<usize>,
    /// Where the key blocks' results go when the keys are split: slot `base + (block - blocks.start) * rows + row`.
    pub(super) partials: Option<usize>,
}

/// What one thread does in one go.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) unit: usize,
    pub(super) rows: Range<usize>,
    pub(super) blocks: Range<usize>,
}

/// Units, and items that cover each unit's rows and blocks once, the costliest first.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) units: Vec<Unit>,
    pub(super) items: Vec<Item>,
    /// Slots for the results of single key blocks.
    pub(super) partials: usize,
}

/// The shape of a call that decides its plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) kv_heads: usize,
    pub(super) heads_per_kv: usize,
    pub(super) window: Option<usize>,
    pub(super) threads: usize,
    pub(super) tile_rows: usize,
}

/// Key blocks that the flat rows `rows` of a sequence see.
pub(super) fn seen_blocks(
    seq: &SeqRows<'_>,
    rows: &Range<usize>,
    heads_per_kv: usize,
    window: Option<usize>,
) -> Range<usize> {
    let first = seq.start + rows.start / heads_per_kv;
    let last = seq.start + (rows.end - 1) / heads_per_kv;
    first_visible(first, window) / KEY_BLOCK..last / KEY_BLOCK + 1
}

impl Plan {
    pub(super) fn new(seqs: &[SeqRows<'_>], shape: Shape) -> Plan {
        let mut plan = Plan::default();
        let mut total = 0;
        for (seq, rows) in seqs.iter().enumerate().filter(|(_, s)| s.rows > 0) {
            let flat = rows.rows * shape.heads_per_kv;
            let blocks = seen_blocks(rows, &(0..flat), shape.heads_per_kv, shape.window);
            total +=
                shape.kv_heads * flat.div_ceil(shape.tile_rows) * per_tile(&blocks, shape.window);
            for kv_head in 0..shape.kv_heads {
                plan.units.push(Unit {
                    seq,
                    kv_head,
                    rows: flat,
                    blocks: blocks.clone(),
                    partials: None,
                });
            }
        }
        let target = total.div_ceil(shape.threads * ITEMS_PER_THREAD).max(1);
        for unit in 0..plan.units.len() {
            plan.cut(unit, total, target, &seqs[plan.units[unit].seq], shape);
        }
        plan.items.sort_by_key(|i| {
            std::cmp::Reverse(i.rows.len().div_ceil(shape.tile_rows) * i.blocks.len())
        });
        plan
    }

    fn cut(&mut self, index: usize, total: usize, target: usize, seq: &SeqRows<'_>, shape: Shape) {
        let unit = &mut self.units[index];
        let (rows, blocks) = (unit.rows, unit.blocks.clone());
        let tiles = rows.div_ceil(shape.tile_rows);
        let tile_blocks = per_tile(&blocks, shape.window);
        // The threads that this unit deserves.
        let share = (tiles * tile_blocks * shape.threads).div_ceil(total).max(1);
        let one_tile = tiles == 1 && tile_blocks > target;
        if shape.threads > 1
            && blocks.len() > SPLIT_ABOVE
            && (one_tile || rows < SPLIT_BELOW_ROWS * share)
        {
            unit.partials = Some(self.partials);
            self.partials += blocks.len() * rows;
            let chunks = tiles.div_ceil(ITEM_TILES);
            let length = (target * chunks / tiles).max(SPLIT_BLOCKS);
            for chunk in 0..chunks {
                let rows = even(rows, chunks, chunk);
                for start in blocks.clone().step_by(length) {
                    let blocks = start..blocks.end.min(start + length);
                    self.items.push(Item { unit: index, rows: rows.clone(), blocks });
                }
            }
            return;
        }
        let chunk = ((target + tile_blocks / 2) / tile_blocks).clamp(1, ITEM_TILES);
        // As many items as keep all its threads busy to the end.
        let items = tiles.div_ceil(chunk).next_multiple_of(share).min(rows);
        for item in 0..items {
            let rows = even(rows, items, item);
            let blocks = seen_blocks(seq, &rows, shape.heads_per_kv, shape.window);
            self.items.push(Item { unit: index, rows, blocks });
        }
    }
}

/// The `index`-th of `parts` nearly equal parts of `0..length`.
pub(super) fn even(length: usize, parts: usize, index: usize) -> Range<usize> {
    length * index / parts..length * (index + 1) / parts
}

/// About how many key blocks one tile sees.
fn per_tile(blocks: &Range<usize>, window: Option<usize>) -> usize {
    blocks.len().min(window.map_or(usize::MAX, |w| w / KEY_BLOCK + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_cover_each_row_and_block_once(
            lengths in prop::collection::vec((0_usize..400, 0_usize..9_000), 1..5),
            kv_heads in 1_usize..4,
            heads_per_kv in 1_usize..9,
            window in prop::option::of(1_usize..1_000),
            threads in 1_usize..20,
        ) {
            let seqs: Vec<SeqRows<'_>> = lengths.iter().map(|&(rows, start)| SeqRows { first_row: 0, rows, start, blocks: &[] }).collect();
            let shape = Shape { kv_heads, heads_per_kv, window, threads, tile_rows: 12 };
            let plan = Plan::new(&seqs, shape);
            for (index, unit) in plan.units.iter().enumerate() {
                let mut count = vec![0; unit.rows * unit.blocks.len()];
                for item in plan.items.iter().filter(|i| i.unit == index) {
                    prop_assert!(!item.rows.is_empty() && !item.blocks.is_empty());
                    for row in item.rows.clone() {
                        for block in item.blocks.clone() {
                            count[row * unit.blocks.len() + block - unit.blocks.start] += 1;
                        }
                    }
                }
                for row in 0..unit.rows {
                    let seen = seen_blocks(&seqs[unit.seq], &(row..row + 1), heads_per_kv, window);
                    for block in unit.blocks.clone() {
                        let n = count[row * unit.blocks.len() + block - unit.blocks.start];
                        prop_assert!(n <= 1 && (n == 1 || !seen.contains(&block)), "row {row} block {block}: {n} times");
                    }
                }
            }
        }
    }
}
