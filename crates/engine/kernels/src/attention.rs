//! Paged attention: softmax(Q Kᵀ) V over keys and values that stay where they lie.
//!
//! All query rows of one sequence that share a KV head (its tokens times the heads per KV head) form one flat list of
//! rows, so a decode step, a short question and a long chunk run through the same code.
//!
//! # Why a row's bits depend on nothing but the row
//!
//! Keys are taken in blocks of [`KEY_BLOCK`], aligned to absolute positions. Each block yields, for each row, a fresh
//! maximum, sum and output; blocks are then merged in ascending order by one formula ([`merge`]). Within a block a score is a chain
//! over the head's dimensions, an output a chain over the block's keys, and the sum adds fixed lanes in a fixed order. Keys that
//! a row does not see get the probability 0, and adding zeros changes nothing but the sign of a zero, which the last step
//! fixes. So it is all the same how rows are cut into tiles, how key blocks are spread over threads, which
//! pages of a block are looked at, and whether the rows of several sequences that hold a key block in the same pages share its
//! tile ([`share`]).

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod exp2;
#[cfg(target_arch = "x86_64")]
mod kernel;
mod merge;
mod plan;
mod run;
mod scalar;
mod share;
mod tile;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::kvstore::check_rows;
use crate::{Compute, Isa, KvStore, SeqRows};

pub use run::AttnScratch;

/// Keys of one fresh softmax. A multiple of every block size, so that a block's pages belong to one key block.
pub(crate) const KEY_BLOCK: usize = 256;

/// Causal attention of a call's rows over the stored keys and values, those of the rows themselves included
/// (see [`write_kv`](crate::write_kv)).
///
/// `q` is `[rows, q_heads, head_dim]` after RoPE, `out` the same shape; query head `h` reads KV head `h / (q_heads / kv_heads)`.
/// A row at position `p` sees the keys `j` with `j <= p` and, with a window, `p - j < window`. Scores are multiplied by `scale`.
/// Rows of `out` that no sequence claims are left alone.
///
/// # Panics
/// When shapes disagree, sequences' rows overlap or reach outside, the window is 0, or a visible block is absent.
pub fn attention(
    compute: &Compute,
    store: &KvStore,
    layer_in_block: usize,
    seqs: &[SeqRows<'_>],
    q: &[f32],
    q_heads: usize,
    window: Option<usize>,
    scale: f32,
    scratch: &mut AttnScratch,
    out: &mut [f32],
) {
    let layout = store.layout();
    let width = q_heads * layout.head_dim;
    assert!(
        layer_in_block < layout.layers_per_block,
        "layer {layer_in_block} of {}",
        layout.layers_per_block
    );
    assert!(
        q_heads > 0 && q_heads.is_multiple_of(layout.kv_heads),
        "{q_heads} query heads over {} KV heads",
        layout.kv_heads
    );
    assert!(
        q.len() == out.len() && q.len().is_multiple_of(width),
        "q and out must be [rows, {width}]"
    );
    assert!(window != Some(0), "a window must hold the token itself");
    check_rows(seqs, q.len() / width);
    for seq in seqs.iter().filter(|s| s.rows > 0) {
        seq.check_blocks(store, first_visible(seq.start, window));
    }
    let call = run::Call { store, layer: layer_in_block, seqs, q, q_heads, window, scale };
    match compute.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => run::run::<avx512::Avx512>(compute, &call, scratch, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => run::run::<avx2::Avx2>(compute, &call, scratch, out),
        _ => run::run::<scalar::Scalar>(compute, &call, scratch, out),
    }
}

/// First position that a row at `position` sees.
pub(crate) fn first_visible(position: usize, window: Option<usize>) -> usize {
    window.map_or(0, |w| (position + 1).saturating_sub(w))
}
