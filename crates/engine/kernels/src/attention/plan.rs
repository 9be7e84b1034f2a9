//! How a call's work is cut into items for the threads. No cut changes a result.

use std::ops::Range;

use super::share::{self, Node};
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

/// Whose rows a unit has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Readers {
    /// All flat rows (token, head) of a sequence.
    One(usize),
    /// Those of several sequences that hold the unit's key blocks in the same pages: a part of [`Plan::rows`].
    Many(Range<usize>),
}

/// Flat rows on one KV head, and key blocks that they see.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) readers: Readers,
    pub(super) kv_head: usize,
    pub(super) rows: usize,
    /// Key blocks that any row sees.
    pub(super) blocks: Range<usize>,
    /// Where the key blocks' results go when they are kept one by one: slot `base + (block - blocks.start) * rows + row`.
    pub(super) partials: Option<usize>,
}

/// Where the results of some key blocks of one sequence on one KV head are kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) seq: usize,
    pub(super) kv_head: usize,
    pub(super) blocks: Range<usize>,
    /// The slot of the sequence's first row in the first of the blocks.
    base: usize,
    /// Slots from block to block.
    stride: usize,
}

impl Part {
    /// The slot of a block and a flat row of the sequence.
    pub(super) fn slot(&self, block: usize, row: usize) -> usize {
        self.base + (block - self.blocks.start) * self.stride + row
    }
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
    /// The rows of units of several sequences: a sequence, and its flat row.
    pub(super) rows: Vec<(usize, usize)>,
    /// What is to be merged: by sequence, KV head, and then ascending by blocks.
    pub(super) parts: Vec<Part>,
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
    /// Tokens in a block of the sequences' tables.
    pub(super) block_tokens: usize,
    /// How many results of single key blocks may be kept. (A single tile of rows may exceed it: it has no other way to occupy the threads.)
    pub(super) slots: usize,
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
        let nodes = share::find(seqs, shape, shape.slots);
        for node in &nodes {
            plan.add_node(node, seqs, shape);
        }
        let together = plan.units.len();
        let shares = |seq: usize| nodes.iter().any(|node| node.seqs.contains(&seq));
        for (seq, rows) in seqs.iter().enumerate().filter(|(_, s)| s.rows > 0) {
            if shares(seq) {
                continue;
            }
            let flat = rows.rows * shape.heads_per_kv;
            let blocks = seen_blocks(rows, &(0..flat), shape.heads_per_kv, shape.window);
            for kv_head in 0..shape.kv_heads {
                plan.units.push(Unit {
                    readers: Readers::One(seq),
                    kv_head,
                    rows: flat,
                    blocks: blocks.clone(),
                    partials: None,
                });
            }
        }
        let cost = |u: &Unit| u.rows.div_ceil(shape.tile_rows) * per_tile(&u.blocks, shape.window);
        let total = plan.units.iter().map(cost).sum::<usize>();
        let target = total.div_ceil(shape.threads * ITEMS_PER_THREAD).max(1);
        for unit in 0..plan.units.len() {
            if unit < together {
                plan.split(unit, target, shape);
            } else {
                plan.cut(unit, total, target, seqs, shape);
            }
        }
        plan.items.sort_by_key(|i| {
            std::cmp::Reverse(i.rows.len().div_ceil(shape.tile_rows) * i.blocks.len())
        });
        plan.parts.sort_unstable_by_key(|part| (part.seq, part.kv_head, part.blocks.start));
        plan
    }

    /// Adds a node's units.
    fn add_node(&mut self, node: &Node, seqs: &[SeqRows<'_>], shape: Shape) {
        let first = self.rows.len();
        let readers = match node.seqs[..] {
            [seq] => Readers::One(seq),
            _ => {
                for &seq in &node.seqs {
                    let flat = seqs[seq].rows * shape.heads_per_kv;
                    self.rows.extend((0..flat).map(|row| (seq, row)));
                }
                Readers::Many(first..self.rows.len())
            }
        };
        let rows = node.seqs.iter().map(|&seq| seqs[seq].rows * shape.heads_per_kv).sum();
        for kv_head in 0..shape.kv_heads {
            self.units.push(Unit {
                readers: readers.clone(),
                kv_head,
                rows,
                blocks: node.blocks.clone(),
                partials: None,
            });
        }
    }

    fn cut(
        &mut self,
        index: usize,
        total: usize,
        target: usize,
        seqs: &[SeqRows<'_>],
        shape: Shape,
    ) {
        let unit = &self.units[index];
        let (rows, blocks) = (unit.rows, unit.blocks.clone());
        let tiles = rows.div_ceil(shape.tile_rows);
        let tile_blocks = per_tile(&blocks, shape.window);
        // The threads that this unit deserves.
        let share = (tiles * tile_blocks * shape.threads).div_ceil(total).max(1);
        let one_tile = tiles == 1 && tile_blocks > target;
        let room = self.partials + blocks.len() * rows <= shape.slots;
        if shape.threads > 1
            && blocks.len() > SPLIT_ABOVE
            && (one_tile || room && rows < SPLIT_BELOW_ROWS * share)
        {
            self.split(index, target, shape);
            return;
        }
        let Readers::One(seq) = unit.readers else { return };
        let chunk = ((target + tile_blocks / 2) / tile_blocks).clamp(1, ITEM_TILES);
        // As many items as keep all its threads busy to the end.
        let items = tiles.div_ceil(chunk).next_multiple_of(share).min(rows);
        for item in 0..items {
            let rows = even(rows, items, item);
            let blocks = seen_blocks(&seqs[seq], &rows, shape.heads_per_kv, shape.window);
            self.items.push(Item { unit: index, rows, blocks });
        }
    }

    /// Cuts a unit along its keys, and keeps each key block's results.
    fn split(&mut self, index: usize, target: usize, shape: Shape) {
        let base = self.partials;
        let unit = &mut self.units[index];
        unit.partials = Some(base);
        let (rows, blocks) = (unit.rows, unit.blocks.clone());
        self.partials += blocks.len() * rows;
        let tiles = rows.div_ceil(shape.tile_rows);
        let chunks = tiles.div_ceil(ITEM_TILES);
        let length = (target * chunks / tiles).max(SPLIT_BLOCKS);
        for chunk in 0..chunks {
            let rows = even(rows, chunks, chunk);
            for start in blocks.clone().step_by(length) {
                let blocks = start..blocks.end.min(start + length);
                self.items.push(Item { unit: index, rows: rows.clone(), blocks });
            }
        }
        let kv_head = unit.kv_head;
        let part = |seq, first| Part {
            seq,
            kv_head,
            blocks: blocks.clone(),
            base: base + first,
            stride: rows,
        };
        match &unit.readers {
            Readers::One(seq) => self.parts.push(part(*seq, 0)),
            Readers::Many(range) => {
                for (first, (seq, row)) in self.rows[range.clone()].iter().enumerate() {
                    if *row == 0 {
                        self.parts.push(part(*seq, first));
                    }
                }
            }
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
#[path = "plan/tests.rs"]
mod tests;
