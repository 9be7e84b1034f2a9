//! Which row of a batch belongs to which sequence, and which rows' logits are wanted.

use std::ops::Range;

use tapri_kernels::SeqRows;

use crate::Adapter;
use crate::batch::SequenceBatch;
use crate::scratch::Scratch;

/// The rows of a batch. The order of rows is the order of sequences, and of tokens in them.
pub(super) struct Rows<'a> {
    all: usize,
    wanted: usize,
    sequences: usize,
    /// `[groups, sequences]`: every row, with the group's block table.
    groups: Vec<SeqRows<'a>>,
    /// The same for the wanted rows alone, numbered from 0 among themselves.
    wanted_groups: Vec<SeqRows<'a>>,
    adapted: Vec<AdaptedRows<'a>>,
}

/// The rows of one adapter, in ascending ranges.
pub(super) struct AdaptedRows<'a> {
    pub(super) adapter: &'a Adapter,
    pub(super) all: Vec<Range<usize>>,
    /// Numbered as the wanted rows are.
    pub(super) wanted: Vec<Range<usize>>,
}

impl<'a> Rows<'a> {
    /// Lists the rows, and leaves their positions and the wanted ones in `scratch`. The batch has been checked.
    pub(super) fn new(
        batch: &[SequenceBatch<'a>],
        groups: usize,
        scratch: &mut Scratch,
    ) -> Rows<'a> {
        scratch.positions.clear();
        scratch.wanted.clear();
        for part in batch {
            let end = part.start + part.tokens.len();
            // Positions are below the context length, which is far below 2^32.
            scratch.positions.extend((part.start..end).map(|position| position as u32));
            let rows = scratch.positions.len();
            scratch.wanted.extend(rows - part.logits.rows(part.tokens.len())..rows);
        }
        scratch.wanted_positions.clear();
        let positions = scratch.wanted.iter().map(|&row| scratch.positions[row]);
        scratch.wanted_positions.extend(positions);

        let mut all_groups = Vec::with_capacity(groups * batch.len());
        let mut wanted_groups = Vec::with_capacity(groups * batch.len());
        for group in 0..groups {
            let (mut first_row, mut first_wanted) = (0, 0);
            for part in batch {
                let blocks = part.blocks[group];
                let rows = part.tokens.len();
                all_groups.push(SeqRows { first_row, rows, start: part.start, blocks });
                first_row += rows;
                let wanted = part.logits.rows(rows);
                let start = part.start + rows - wanted;
                wanted_groups.push(SeqRows {
                    first_row: first_wanted,
                    rows: wanted,
                    start,
                    blocks,
                });
                first_wanted += wanted;
            }
        }
        Rows {
            all: scratch.positions.len(),
            wanted: scratch.wanted.len(),
            sequences: batch.len(),
            groups: all_groups,
            wanted_groups,
            adapted: adapted(batch),
        }
    }

    /// The rows of each adapter in the batch.
    pub(super) fn adapted(&self) -> &[AdaptedRows<'a>] {
        &self.adapted
    }

    /// How many rows there are.
    pub(super) fn all(&self) -> usize {
        self.all
    }

    /// How many rows' logits are wanted.
    pub(super) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Every row, with a group's block tables.
    pub(super) fn group(&self, group: usize) -> &[SeqRows<'a>] {
        &self.groups[group * self.sequences..][..self.sequences]
    }

    /// The wanted rows, with a group's block tables.
    pub(super) fn wanted_group(&self, group: usize) -> &[SeqRows<'a>] {
        &self.wanted_groups[group * self.sequences..][..self.sequences]
    }
}

/// Which rows are whose adapter's. Without adapters nothing is allocated.
fn adapted<'a>(batch: &[SequenceBatch<'a>]) -> Vec<AdaptedRows<'a>> {
    let mut adapted: Vec<AdaptedRows<'a>> = Vec::new();
    let (mut row, mut wanted_row) = (0, 0);
    for part in batch {
        let rows = row..row + part.tokens.len();
        let wanted = wanted_row..wanted_row + part.logits.rows(part.tokens.len());
        (row, wanted_row) = (rows.end, wanted.end);
        let Some(adapter) = part.adapter else { continue };
        let index = adapted.iter().position(|it| std::ptr::eq(it.adapter, adapter));
        let index = index.unwrap_or_else(|| {
            adapted.push(AdaptedRows { adapter, all: Vec::new(), wanted: Vec::new() });
            adapted.len() - 1
        });
        append(&mut adapted[index].all, rows);
        append(&mut adapted[index].wanted, wanted);
    }
    adapted
}

/// Neighbours become one range.
fn append(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}
