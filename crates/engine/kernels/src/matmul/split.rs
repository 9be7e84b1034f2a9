//! How a product is cut for the threads, and the scratch that each has. None of it changes a bit of the result.

use std::cell::RefCell;
use std::ops::Range;

use crate::compute::Compute;
use crate::weights::{Buffer, Weights};

/// Multiplications below which waking the other threads costs more than they bring.
const WORTH_THREADS: usize = 1 << 17;

/// What a thread reads of a streamed matrix before it asks for more: long enough that asking costs nothing, short enough
/// that the threads end together.
const STREAM_BYTES: usize = 256 << 10;

/// Rows that are worth unpacking the panels once more for.
const ROWS_WORTH_UNPACKING: usize = 64;

/// Runs the items of an `m`-row product, on all threads if it is large enough.
pub(super) fn run(
    compute: &Compute,
    weights: &Weights,
    m: usize,
    items: usize,
    item: impl Fn(usize) + Sync,
) {
    if m * weights.n() * weights.k() < WORTH_THREADS {
        (0..items).for_each(item);
    } else {
        compute.run(items, item);
    }
}

/// Consecutive panels for one item, where each panel is read once.
pub(super) fn panels_of_a_stream(compute: &Compute, weights: &Weights) -> usize {
    let even = weights.panels().div_ceil(compute.threads() * 4);
    even.clamp(1, (STREAM_BYTES / weights.layout().panel_bytes).max(1))
}

/// A product as runs of panels by ranges of rows.
pub(super) struct Grid {
    runs: usize,
    row_parts: usize,
    m: usize,
}

impl Grid {
    /// Runs of `panels_each` panels. Rows are cut only if there are too few runs for the threads.
    pub(super) fn new(compute: &Compute, weights: &Weights, m: usize, panels_each: usize) -> Grid {
        let runs = weights.panels().div_ceil(panels_each);
        let wanted = if compute.threads() == 1 { 1 } else { compute.threads() * 4 };
        let most = (m / ROWS_WORTH_UNPACKING).max(1);
        Grid { runs, row_parts: wanted.div_ceil(runs).clamp(1, most), m }
    }

    pub(super) fn items(&self) -> usize {
        self.runs * self.row_parts
    }

    /// The run of panels and the rows of an item.
    pub(super) fn item(&self, item: usize) -> (usize, Range<usize>) {
        let (run, part) = (item / self.row_parts, item % self.row_parts);
        // Even ones, so that pairs of rows stay together, and the end.
        let row = |part| match self.m * part / self.row_parts {
            row if part < self.row_parts => row / 2 * 2,
            end => end,
        };
        (run, row(part)..row(part + 1))
    }
}

thread_local! {
    static SCRATCH: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

/// Calls `work` with at least `bytes` of this thread's own memory, on a page boundary, contents unknown.
pub(super) fn with_scratch(bytes: usize, work: impl FnOnce(&mut [u8])) {
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.as_ref().is_none_or(|scratch| scratch.len() < bytes) {
            *scratch = Buffer::zeroed(bytes);
        }
        let scratch = scratch.as_deref_mut().unwrap_or_default();
        assert!(scratch.len() >= bytes, "no memory for {bytes} bytes of scratch");
        work(scratch);
    });
}
