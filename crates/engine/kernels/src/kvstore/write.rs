//! Writing new keys and values into their tiles.

use super::sequence::check_rows;
use super::{KvLayout, KvStore, KvType, SeqRows, TILE_TOKENS, q8, to_bf16};
use crate::Compute;
use crate::compute::Disjoint;

/// Rows from which writing is worth the hand-off to other threads.
const PARALLEL_ROWS: usize = 64;

/// Stores the keys and values of a call's rows, rounded to the store's type.
///
/// `k` and `v` are `[rows, kv_heads, head_dim]`, keys after RoPE. `layer_in_block` counts within the group.
///
/// # Panics
/// When shapes disagree, rows overlap or reach outside, a block is absent, or one physical block would be written at two
/// places (a shared block is never written: only full blocks are shared).
pub fn write_kv(
    compute: &Compute,
    store: &mut KvStore,
    layer_in_block: usize,
    seqs: &[SeqRows<'_>],
    k: &[f32],
    v: &[f32],
) {
    let layout = *store.layout();
    let width = layout.kv_heads * layout.head_dim;
    assert!(
        layer_in_block < layout.layers_per_block,
        "layer {layer_in_block} of {}",
        layout.layers_per_block
    );
    assert!(k.len() == v.len() && k.len().is_multiple_of(width), "k and v must be [rows, {width}]");
    check_rows(seqs, k.len() / width);

    // One job is the part of one tile that one sequence writes; jobs touch different tiles.
    let mut jobs = Vec::new();
    let mut touched = Vec::new();
    for seq in seqs.iter().filter(|s| s.rows > 0) {
        seq.check_blocks(store, seq.start);
        let blocks = seq.start / layout.block_tokens..seq.end().div_ceil(layout.block_tokens);
        touched.extend_from_slice(&seq.blocks[blocks]);
        for tile in seq.start / TILE_TOKENS..seq.end().div_ceil(TILE_TOKENS) {
            let block = seq.blocks[tile / layout.tiles_per_block()];
            let from = seq.start.max(tile * TILE_TOKENS);
            let to = seq.end().min((tile + 1) * TILE_TOKENS);
            jobs.push(Job {
                row: seq.first_row + from - seq.start,
                slots: (from % TILE_TOKENS, from % TILE_TOKENS + to - from),
                offset: store.tile_offset(
                    block,
                    layer_in_block,
                    tile % layout.tiles_per_block(),
                    0,
                ),
            });
        }
    }
    touched.sort_unstable();
    assert!(touched.windows(2).all(|w| w[0] != w[1]), "one block would be written at two places");
    for &block in &touched {
        store.written[block as usize] = true;
    }

    let tile_span = layout.kv_heads * layout.tile_bytes();
    let bytes = store.bytes_mut();
    if k.len() / width < PARALLEL_ROWS || compute.threads() == 1 {
        for job in &jobs {
            job.write(&mut bytes[job.offset..job.offset + tile_span], &layout, k, v);
        }
        return;
    }
    let region = Disjoint::new(bytes);
    compute.run(jobs.len(), |i| {
        // SAFETY: jobs lie in different tiles (the blocks are distinct, as checked above, and a sequence has one job a
        // tile), each run once, and `bytes` is borrowed exclusively until `run` returns.
        let tile = unsafe { region.slice(jobs[i].offset, tile_span) };
        jobs[i].write(tile, &layout, k, v);
    });
}

/// Part of a tile to be written: rows `row..` go to the token slots of `slots`.
struct Job {
    row: usize,
    slots: (usize, usize),
    offset: usize,
}

impl Job {
    /// `tile` is `[kv_heads][K then V]`.
    fn write(&self, tile: &mut [u8], layout: &KvLayout, k: &[f32], v: &[f32]) {
        let (head_dim, width) = (layout.head_dim, layout.kv_heads * layout.head_dim);
        for (head, tile) in tile.chunks_exact_mut(layout.tile_bytes()).enumerate() {
            let (keys, values) = tile.split_at_mut(tile.len() / 2);
            for slot in self.slots.0..self.slots.1 {
                let at = (self.row + slot - self.slots.0) * width + head * head_dim;
                let (k, v) = (&k[at..at + head_dim], &v[at..at + head_dim]);
                match layout.kv_type {
                    KvType::Bf16 => {
                        write_key(bytemuck::cast_slice_mut(keys), slot, k);
                        write_value(bytemuck::cast_slice_mut(values), slot, v);
                    }
                    KvType::Q8_0 => {
                        q8::write_key(keys, slot, k);
                        q8::write_value(values, slot, v);
                    }
                }
            }
        }
    }
}

fn write_key(keys: &mut [u16], slot: usize, k: &[f32]) {
    for (pair, row) in k.chunks_exact(2).zip(keys.chunks_exact_mut(2 * TILE_TOKENS)) {
        row[2 * slot] = to_bf16(pair[0]);
        row[2 * slot + 1] = to_bf16(pair[1]);
    }
}

fn write_value(values: &mut [u16], slot: usize, v: &[f32]) {
    for (group, run) in v.chunks_exact(32).zip(values.chunks_exact_mut(32 * TILE_TOKENS)) {
        let run = &mut run[slot / 2 * 64..slot / 2 * 64 + 64];
        for (value, pair) in group.iter().zip(run.chunks_exact_mut(2)) {
            pair[slot % 2] = to_bf16(*value);
        }
    }
}
