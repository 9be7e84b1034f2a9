//! Running a plan's items, and merging what split keys left.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::merge::{Softmax, finish};
use super::plan::{Item, Plan, Readers, Shape, Unit, even};
use super::tile::{Fresh, Kernel, MAX_ROWS, PAGES, Tile};
use super::{KEY_BLOCK, first_visible};
use crate::compute::Disjoint;
use crate::kvstore::TILE_TOKENS;
use crate::{Compute, KvStore, KvType, SeqRows};

/// Results of single key blocks that are kept at most, in floats: 32 MiB. Eight sequences of four heads of 256 dimensions that
/// decode at a depth of 30,000 take 4 MiB.
const PARTIAL_FLOATS: usize = 8 << 20;

/// Memory that [`attention`](super::attention) reuses from call to call. It carries no state between calls.
#[derive(Debug, Default)]
pub struct AttnScratch {
    threads: Vec<Mutex<ThreadScratch>>,
    partial_softmax: Vec<Softmax>,
    partial_out: Vec<f32>,
}

impl AttnScratch {
    /// Empty; it grows to what the calls need.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// One thread's memory for one item.
#[derive(Debug, Default)]
struct ThreadScratch {
    /// The item's queries; see `Worker::pack_queries`.
    q: Vec<f32>,
    softmax: Vec<Softmax>,
    fresh: Option<Fresh>,
    /// The pages of a key block in bf16, where they are stored otherwise.
    unpacked: Vec<u16>,
}

/// The arguments of a call.
pub(super) struct Call<'a> {
    pub(super) store: &'a KvStore,
    pub(super) layer: usize,
    pub(super) seqs: &'a [SeqRows<'a>],
    pub(super) q: &'a [f32],
    pub(super) q_heads: usize,
    pub(super) window: Option<usize>,
    pub(super) scale: f32,
}

/// Attention by the kernel `K`, whose instructions the CPU must have (`Compute` guarantees it for its own path).
pub(super) fn run<K: Kernel>(
    compute: &Compute,
    call: &Call<'_>,
    scratch: &mut AttnScratch,
    out: &mut [f32],
) {
    let layout = call.store.layout();
    let shape = Shape {
        kv_heads: layout.kv_heads,
        heads_per_kv: call.q_heads / layout.kv_heads,
        window: call.window,
        threads: compute.threads(),
        tile_rows: K::ROWS,
        block_tokens: layout.block_tokens,
        slots: PARTIAL_FLOATS / layout.head_dim,
    };
    let plan = Plan::new(call.seqs, shape);
    scratch.threads.resize_with(compute.threads().max(scratch.threads.len()), Mutex::default);
    if scratch.partial_softmax.len() < plan.partials {
        scratch.partial_softmax.resize(plan.partials, Softmax::EMPTY);
    }
    if scratch.partial_out.len() < plan.partials * layout.head_dim {
        scratch.partial_out.resize(plan.partials * layout.head_dim, 0.0);
    }
    let threads = &scratch.threads;
    let out = Disjoint::new(out);
    {
        let partial_softmax = Disjoint::new(&mut scratch.partial_softmax);
        let partial_out = Disjoint::new(&mut scratch.partial_out);
        compute.run(plan.items.len(), |index| {
            let item = &plan.items[index];
            let worker = Worker { call, shape, plan: &plan, unit: &plan.units[item.unit], item };
            let mut scratch = free_scratch(threads);
            match worker.unit.partials {
                None => worker.whole::<K>(&mut scratch, &out),
                Some(base) => worker.split::<K>(&mut scratch, base, &partial_softmax, &partial_out),
            }
        });
    }
    let mut rows = Vec::new();
    for parts in plan.parts.chunk_by(|a, b| (a.seq, a.kv_head) == (b.seq, b.kv_head)) {
        let flat = call.seqs[parts[0].seq].rows * shape.heads_per_kv;
        rows.extend((0..flat).map(|row| (parts, row)));
    }
    let (partial_softmax, partial_out) = (&scratch.partial_softmax, &scratch.partial_out);
    compute.run(rows.len(), |index| {
        let (parts, row) = rows[index];
        let (seq, kv_head) = (parts[0].seq, parts[0].kv_head);
        // SAFETY: a (sequence, KV head, row) is listed once and has a row of `out` of its own; the items have ended.
        let out = unsafe { out.slice(out_offset(call, shape, kv_head, seq, row), layout.head_dim) };
        out.fill(0.0);
        let mut softmax = Softmax::EMPTY;
        for (part, block) in parts.iter().flat_map(|p| p.blocks.clone().map(move |b| (p, b))) {
            if !visible(call, shape, seq, row, block).is_empty() {
                let slot = part.slot(block, row);
                let (old, new) = softmax.merge(partial_softmax[slot]);
                let block = &partial_out[slot * layout.head_dim..(slot + 1) * layout.head_dim];
                // SAFETY: the CPU has the path's instructions.
                unsafe { K::merge(out, old, block, new) };
            }
        }
        finish(out, softmax.sum);
    });
}

/// A free slot: there are as many as threads, and each item holds one.
fn free_scratch(threads: &[Mutex<ThreadScratch>]) -> MutexGuard<'_, ThreadScratch> {
    for slot in threads {
        if let Ok(free) = slot.try_lock() {
            return free;
        }
    }
    // Only when a panic left locks poisoned: their contents are overwritten anyway.
    threads[0].lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys of block `block` that a flat row of a sequence sees, counted from the block's start.
fn visible(call: &Call<'_>, shape: Shape, seq: usize, row: usize, block: usize) -> Range<usize> {
    let position = call.seqs[seq].start + row / shape.heads_per_kv;
    let base = block * KEY_BLOCK;
    let first = first_visible(position, call.window).clamp(base, base + KEY_BLOCK);
    let end = (position + 1).clamp(base, base + KEY_BLOCK);
    first - base..end.max(first) - base
}

/// Where a flat row of a sequence lies in `q` and `out`.
fn out_offset(call: &Call<'_>, shape: Shape, kv_head: usize, seq: usize, row: usize) -> usize {
    let token = call.seqs[seq].first_row + row / shape.heads_per_kv;
    let head = kv_head * shape.heads_per_kv + row % shape.heads_per_kv;
    (token * call.q_heads + head) * call.store.layout().head_dim
}

struct Worker<'a> {
    call: &'a Call<'a>,
    shape: Shape,
    plan: &'a Plan,
    unit: &'a Unit,
    item: &'a Item,
}

impl Worker<'_> {
    /// The sequence of one of the unit's rows, and its flat row there.
    fn reader(&self, row: usize) -> (usize, usize) {
        match &self.unit.readers {
            Readers::One(seq) => (*seq, row),
            Readers::Many(rows) => self.plan.rows[rows.start + row],
        }
    }

    /// Where one of the unit's rows lies in `q` and `out`.
    fn offset(&self, row: usize) -> usize {
        let (seq, row) = self.reader(row);
        out_offset(self.call, self.shape, self.unit.kv_head, seq, row)
    }

    /// All key blocks of some rows: merged as they come, in the rows of `out`.
    fn whole<K: Kernel>(&self, scratch: &mut ThreadScratch, out: &Disjoint<'_, f32>) {
        let head_dim = self.call.store.layout().head_dim;
        scratch.softmax.clear();
        scratch.softmax.resize(self.item.rows.len(), Softmax::EMPTY);
        let mut softmax = std::mem::take(&mut scratch.softmax);
        let row_out = |row: usize| {
            // SAFETY: one item has all blocks of a row, and takes its rows one after another.
            unsafe { out.slice(self.offset(row), head_dim) }
        };
        for row in self.item.rows.clone() {
            row_out(row).fill(0.0);
        }
        self.blocks::<K>(scratch, |_, row, fresh, block_out| {
            let (old, new) = softmax[row - self.item.rows.start].merge(fresh);
            // SAFETY: the CPU has the path's instructions.
            unsafe { K::merge(row_out(row), old, block_out, new) };
        });
        for row in self.item.rows.clone() {
            finish(row_out(row), softmax[row - self.item.rows.start].sum);
        }
        scratch.softmax = softmax;
    }

    /// Some key blocks of some rows: kept one by one, to be merged in order when all are there.
    fn split<K: Kernel>(
        &self,
        scratch: &mut ThreadScratch,
        base: usize,
        partial_softmax: &Disjoint<'_, Softmax>,
        partial_out: &Disjoint<'_, f32>,
    ) {
        let head_dim = self.call.store.layout().head_dim;
        self.blocks::<K>(scratch, |block, row, fresh, block_out| {
            let slot = base + (block - self.unit.blocks.start) * self.unit.rows + row;
            // SAFETY: each (unit, block, row) has its own slot and belongs to one item.
            let (softmax, out) = unsafe {
                (partial_softmax.slice(slot, 1), partial_out.slice(slot * head_dim, head_dim))
            };
            softmax[0] = fresh;
            out.copy_from_slice(block_out);
        });
    }

    /// Calls `done(block, row, softmax, out)` for each row and each key block in which it sees something, blocks ascending.
    fn blocks<K: Kernel>(
        &self,
        scratch: &mut ThreadScratch,
        mut done: impl FnMut(usize, usize, Softmax, &[f32]),
    ) {
        let head_dim = self.call.store.layout().head_dim;
        let rows = &self.item.rows;
        let tiles = rows.len().div_ceil(K::ROWS);
        self.pack_queries(tiles, &mut scratch.q);
        let fresh = match &mut scratch.fresh {
            Some(fresh) if fresh.out.len() == MAX_ROWS * head_dim => fresh,
            other => other.insert(Fresh::new(head_dim)),
        };
        let mut ranges: [Range<usize>; MAX_ROWS] = Default::default();
        for block in self.item.blocks.clone() {
            let pages = self.pages::<K>(block, &mut scratch.unpacked);
            let next = self.next_block(block, tiles);
            for tile in 0..tiles {
                let part = even(rows.len(), tiles, tile);
                let (mut first, mut end) = (KEY_BLOCK, 0);
                for (range, row) in ranges.iter_mut().zip(part.clone()) {
                    let (seq, row) = self.reader(rows.start + row);
                    *range = visible(self.call, self.shape, seq, row, block);
                    if range.start < range.end {
                        first = first.min(range.start);
                        end = end.max(range.end);
                    }
                }
                if first >= end {
                    continue;
                }
                let ahead =
                    next.as_ref().map_or(&[][..], |halves| &halves[even(2 * PAGES, tiles, tile)]);
                let tile = Tile {
                    q: &scratch.q[part.start * head_dim..part.end * head_dim],
                    head_dim,
                    pages: &pages,
                    used: first / TILE_TOKENS..end.div_ceil(TILE_TOKENS),
                    visible: &ranges[..part.len()],
                    ahead,
                };
                // SAFETY: the CPU has the path's instructions.
                unsafe { K::block(&tile, fresh) };
                for (index, row) in part.enumerate() {
                    if !ranges[index].is_empty() {
                        let out = &fresh.out[index * head_dim..(index + 1) * head_dim];
                        done(block, rows.start + row, fresh.softmax[index], out);
                    }
                }
            }
        }
    }

    /// The item's queries, times the scale and log2(e): scores are then exponents of 2. Tile after tile, each `[head_dim, rows]`.
    fn pack_queries(&self, tiles: usize, packed: &mut Vec<f32>) {
        let head_dim = self.call.store.layout().head_dim;
        let factor = self.call.scale * std::f32::consts::LOG2_E;
        let rows = &self.item.rows;
        packed.resize(rows.len() * head_dim, 0.0);
        for tile in 0..tiles {
            let part = even(rows.len(), tiles, tile);
            let packed = &mut packed[part.start * head_dim..part.end * head_dim];
            for (index, row) in part.clone().enumerate() {
                let at = self.offset(rows.start + row);
                let q = &self.call.q[at..at + head_dim];
                // Eight dimensions at a time: the compiler unrolls that, which halves the time.
                for (q, packed) in q.chunks_exact(8).zip(packed.chunks_exact_mut(8 * part.len())) {
                    for (q, packed) in q.iter().zip(packed.chunks_exact_mut(part.len())) {
                        packed[index] = q * factor;
                    }
                }
            }
        }
    }

    /// What the key block after `block` has, keys first, if it is to be asked for while the tiles of this one are computed: otherwise the first
    /// tile waits for the memory, and then the memory for the other tiles.
    fn next_block(&self, block: usize, tiles: usize) -> Option<[&[u16]; 2 * PAGES]> {
        let layout = self.call.store.layout();
        // Unpacking 8-bit pages waits for the next block at its beginning, and not tile by tile.
        if tiles < 2 || block + 1 >= self.item.blocks.end || layout.kv_type != KvType::Bf16 {
            return None;
        }
        let stored = self.stored(block + 1).map(bytemuck::cast_slice);
        let half = TILE_TOKENS * layout.head_dim;
        Some(std::array::from_fn(|i| match stored.get(i) {
            Some(page) => &page[..half],
            None => &stored[i - PAGES][half..],
        }))
    }

    /// The pages of a key block as they lie in the store.
    fn stored(&self, block: usize) -> [&[u8]; PAGES] {
        let layout = self.call.store.layout();
        // Any of the unit's sequences: they hold these keys in the same pages.
        let table = self.call.seqs[self.reader(0).0].blocks;
        std::array::from_fn(|page| {
            let tile = block * PAGES + page;
            let id = table.get(tile / layout.tiles_per_block()).copied().unwrap_or(0);
            let id = if (id as usize) < self.call.store.blocks() { id } else { 0 };
            let tile = tile % layout.tiles_per_block();
            self.call.store.tile(id, self.call.layer, tile, self.unit.kv_head)
        })
    }

    /// The pages of a key block; one that is not there is read from the null block, and no row sees it.
    fn pages<'b, K: Kernel>(
        &'b self,
        block: usize,
        unpacked: &'b mut Vec<u16>,
    ) -> [&'b [u16]; PAGES] {
        let layout = self.call.store.layout();
        let stored = self.stored(block);
        if layout.kv_type == KvType::Bf16 {
            return stored.map(bytemuck::cast_slice);
        }
        // Once for all tiles of the item. Pages that none of its rows sees are left as they are.
        let (mut first, mut end) = (KEY_BLOCK, 0);
        for row in self.item.rows.clone() {
            let (seq, row) = self.reader(row);
            let seen = visible(self.call, self.shape, seq, row, block);
            if !seen.is_empty() {
                first = first.min(seen.start);
                end = end.max(seen.end);
            }
        }
        let size = layout.tile_elements();
        unpacked.resize(PAGES * size, 0);
        for page in first / TILE_TOKENS..end.div_ceil(TILE_TOKENS) {
            let out = &mut unpacked[page * size..(page + 1) * size];
            // SAFETY: the CPU has the path's instructions.
            unsafe { K::unpack(stored[page], layout.head_dim, out) };
        }
        std::array::from_fn(|page| &unpacked[page * size..(page + 1) * size])
    }
}
