//! Finding the sequences that read the same keys.
//!
//! Prompts that start alike hold the same physical blocks. Decoding reads each key once for a handful of rows and waits for the
//! memory, so the rows of all sequences over a common start are put into the same tiles, and its keys are read once for all of them. (The
//! tree of common starts is the idea of ChunkAttention, Ye et al., ACL 2024; a start apart from the rest that of Hydragen, Juravsky et al.,
//! 2024. Unlike there, a start's results are kept key block by key block and merged in the order in which one sequence alone merges
//! them, so the bits are the same.)
//!
//! What counts is that whole key blocks lie in the same pages, not how they came to. Block tables are compared key block by key block
//! while they agree, with one neighbour in sorted order: nothing in common costs a look at each table's first pages.

use std::ops::Range;

use super::plan::{Shape, seen_blocks};
use super::{KEY_BLOCK, first_visible};
use crate::SeqRows;

/// Fewer common key blocks are left to each sequence: they stay in the core's own cache, and sharing costs one more hand-over to
/// the threads.
const SHARE_BLOCKS: usize = 4;

/// Tiles of rows up to which a sequence shares: with more it computes longer on a key block than memory takes to bring it.
const SHARE_TILES: usize = 2;

/// Key blocks that the rows of some sequences see, at least two of them or the rest of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) seqs: Vec<usize>,
    pub(super) blocks: Range<usize>,
}

/// A sequence that may share.
#[derive(Debug)]
struct Reader<'a> {
    seq: usize,
    table: &'a [u32],
    /// Key blocks that are in no node yet.
    left: Range<usize>,
    /// The first key block in which it has not been compared with its group.
    at: usize,
    /// In a window, the first key block: its pages may be gone already, for each sequence another number of them.
    lead: Option<Range<usize>>,
    /// Whether it is in a node.
    shares: bool,
}

impl Reader<'_> {
    /// The pages of a key block; empty outside what it sees.
    fn pages(&self, block: usize, per_key_block: usize) -> &[u32] {
        if block >= self.left.end {
            return &[];
        }
        let end = self.table.len().min((block + 1) * per_key_block);
        &self.table[(block * per_key_block).min(end)..end]
    }
}

/// The nodes of the sequences that share, each sequence's in ascending order; together they hold all the key blocks that it sees.
/// A sequence that shares nothing is in none. At most `slots` pairs of a row and a key block are in nodes.
pub(super) fn find(seqs: &[SeqRows<'_>], shape: Shape, mut slots: usize) -> Vec<Node> {
    let mut readers = Vec::new();
    if seqs.len() < 2 {
        return Vec::new();
    }
    for (seq, rows) in seqs.iter().enumerate() {
        let flat = rows.rows * shape.heads_per_kv;
        if flat == 0 || flat > SHARE_TILES * shape.tile_rows {
            continue;
        }
        let mut left = seen_blocks(rows, &(0..flat), shape.heads_per_kv, shape.window);
        let cost = flat * left.len() * shape.kv_heads;
        let mut lead = None;
        if !first_visible(rows.start, shape.window).is_multiple_of(KEY_BLOCK) {
            lead = Some(left.start..left.start + 1);
            left.start += 1;
        }
        if left.len() >= SHARE_BLOCKS && cost <= slots {
            slots -= cost;
            let at = left.start;
            readers.push(Reader { seq, table: rows.blocks, left, at, lead, shares: false });
        }
    }
    let mut nodes = Vec::new();
    grow(&mut readers, KEY_BLOCK / shape.block_tokens, &mut nodes);
    nodes
}

/// Adds the nodes of some readers. Those that have been compared before agree in everything up to `at`.
fn grow(readers: &mut [Reader<'_>], per_key_block: usize, nodes: &mut Vec<Node>) {
    if readers.len() > 1 {
        readers.sort_unstable_by(|a, b| {
            (a.at, a.pages(a.at, per_key_block), a.seq).cmp(&(
                b.at,
                b.pages(b.at, per_key_block),
                b.seq,
            ))
        });
    }
    let alike = |a: &Reader<'_>, b: &Reader<'_>| {
        let pages = a.pages(a.at, per_key_block);
        a.at == b.at && !pages.is_empty() && pages == b.pages(b.at, per_key_block)
    };
    for group in readers.chunk_by_mut(alike) {
        let [first, others @ ..] = group else { continue };
        if others.is_empty() {
            if first.shares && !first.left.is_empty() {
                nodes.push(Node { seqs: vec![first.seq], blocks: first.left.clone() });
            }
            continue;
        }
        let same = |other: &Reader<'_>| {
            let alike = |block: &usize| {
                let pages = first.pages(*block, per_key_block);
                !pages.is_empty() && pages == other.pages(*block, per_key_block)
            };
            (first.at..first.left.end).take_while(alike).count()
        };
        // At least one: the group agrees in the block at `at`.
        let end = first.at + others.iter().map(same).min().unwrap_or(0);
        let common = first.left.start..end;
        if common.len() >= SHARE_BLOCKS {
            for reader in group.iter_mut() {
                reader.shares = true;
                reader.left.start = end;
                if let Some(lead) = reader.lead.take() {
                    nodes.push(Node { seqs: vec![reader.seq], blocks: lead });
                }
            }
            nodes.push(Node { seqs: group.iter().map(|r| r.seq).collect(), blocks: common });
        }
        for reader in group.iter_mut() {
            reader.at = end;
        }
        grow(group, per_key_block, nodes);
    }
}

#[cfg(test)]
#[path = "share/tests.rs"]
mod tests;
