//! Asking for the panels that come next while the present ones are multiplied.
//!
//! With one row the processor's own look-ahead keeps the memory busy. With some ten rows a panel takes about as long to compute as
//! to fetch, and the look-ahead does not reach past that: both would take their turns.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::ops::Range;

use crate::weights::Weights;

/// A cache line.
const LINE: usize = 64;

/// Lines that are still to be asked for, a few at a time.
pub(super) struct Ahead {
    at: *const u8,
    /// Lines to ask for.
    left: usize,
    /// Lines at a time.
    step: usize,
}

impl Ahead {
    /// Nothing.
    pub(super) fn none() -> Ahead {
        Ahead { at: std::ptr::null(), left: 0, step: 0 }
    }

    /// These panels, as far as the matrix has them, in `rounds` rounds over a panel's blocks.
    pub(super) fn new(weights: &Weights, panels: Range<usize>, rounds: usize) -> Ahead {
        let (layout, end) = (weights.layout(), panels.end.min(weights.panels()));
        if panels.start >= end {
            return Ahead::none();
        }
        let left = ((end - panels.start) * layout.panel_bytes).div_ceil(LINE);
        let step = left.div_ceil((rounds * layout.blocks).max(1));
        Ahead { at: weights.panel(panels.start).as_ptr(), left, step }
    }

    /// Asks for the next few lines.
    #[inline(always)]
    pub(super) fn step(&mut self) {
        let lines = self.step.min(self.left);
        for line in 0..lines {
            // SAFETY: a prefetch reads nothing that anyone could see, wherever it points.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.at.wrapping_add(line * LINE).cast()) };
        }
        self.at = self.at.wrapping_add(lines * LINE);
        self.left -= lines;
    }
}
