//! One sequence's rows within a call.

use super::KvStore;

/// The rows of a call that belong to one sequence, and where that sequence's keys and values lie.
#[derive(Clone, Copy, Debug)]
pub struct SeqRows<'a> {
    /// First row of the call that is this sequence's.
    pub first_row: usize,
    /// Number of rows; row `first_row + i` is the token at position `start + i`.
    pub rows: usize,
    /// Absolute position of the first row's token.
    pub start: usize,
    /// Physical block ids by absolute block number; 0 stands for a block that is not there, which is allowed only for
    /// blocks that no row can see.
    pub blocks: &'a [u32],
}

impl SeqRows<'_> {
    /// Position after the last row's token.
    pub(crate) fn end(&self) -> usize {
        self.start + self.rows
    }

    /// Panics unless the blocks of positions `from..self.end()` are there.
    pub(crate) fn check_blocks(&self, store: &KvStore, from: usize) {
        let size = store.layout().block_tokens;
        let (first, last) = (from / size, self.end().div_ceil(size));
        assert!(
            last <= self.blocks.len(),
            "{} blocks of {size} tokens do not cover position {}",
            self.blocks.len(),
            self.end() - 1
        );
        let mut ok = true;
        for &block in &self.blocks[first..last] {
            ok &= block != 0 && (block as usize) < store.blocks();
        }
        assert!(ok, "a visible block is absent or outside the store of {} blocks", store.blocks());
    }
}

/// Panics unless the sequences' rows lie within `0..rows` and do not overlap.
pub(crate) fn check_rows(seqs: &[SeqRows<'_>], rows: usize) {
    let mut spans: Vec<(usize, usize)> = Vec::with_capacity(seqs.len());
    for seq in seqs.iter().filter(|s| s.rows > 0) {
        assert!(
            seq.rows <= rows && seq.first_row <= rows - seq.rows,
            "rows {}+{} of a call with {rows}",
            seq.first_row,
            seq.rows
        );
        assert!(seq.start.checked_add(seq.rows).is_some(), "position overflow");
        spans.push((seq.first_row, seq.first_row + seq.rows));
    }
    spans.sort_unstable();
    assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "two sequences claim the same row");
}
