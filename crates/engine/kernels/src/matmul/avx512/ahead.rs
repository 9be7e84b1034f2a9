//! Asking for the blocks that come next while the present ones are multiplied.
//!
//! With one row the processor's own look-ahead keeps the memory busy. With some ten rows a panel takes about as long to compute as
//! to fetch, and the look-ahead does not reach past that: both would take their turns.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use crate::weights::layout::Layout;

/// A cache line.
const LINE: usize = 64;

/// One tile's share of the lines that come next, in two panels.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    at: *const u8,
    /// From a place in the first panel to that in the second.
    apart: usize,
    /// Lines of each panel at a step.
    lines: usize,
}

impl Ahead {
    /// Nothing.
    pub(super) fn none() -> Ahead {
        Ahead { at: std::ptr::null(), apart: 0, lines: 0 }
    }

    /// For the tile `tile` of so many, which takes `steps` steps, its share of some blocks of two panels. Scales and high bits are
    /// asked for at once, quants step by step. Behind a matrix there may be nothing, which a prefetch does not mind.
    pub(super) fn new(
        layout: &Layout,
        panels: [*const u8; 2],
        blocks: Range<usize>,
        (tile, tiles): (usize, usize),
        steps: usize,
    ) -> Ahead {
        let apart = panels[1].addr().wrapping_sub(panels[0].addr());
        let share = |region: usize, step: usize| {
            let lines = (blocks.len() * step).div_ceil(LINE);
            let (first, end) = (lines * tile / tiles, lines * (tile + 1) / tiles);
            let at = panels[0].wrapping_add(region + blocks.start * step + first * LINE);
            (at, end - first)
        };
        for (region, step) in [(layout.scales, layout.scales_step), (layout.high, layout.high_step)]
        {
            let (at, lines) = share(region, step);
            Ahead { at, apart, lines }.step();
        }
        let (at, lines) = share(0, layout.quants_step);
        Ahead { at, apart, lines: lines.div_ceil(steps) }
    }

    /// Asks for the next few lines.
    #[inline(always)]
    pub(super) fn step(&mut self) {
        for _ in 0..self.lines {
            fetch(self.at);
            fetch(self.at.wrapping_add(self.apart));
            self.at = self.at.wrapping_add(LINE);
        }
    }
}

#[inline(always)]
fn fetch(line: *const u8) {
    // SAFETY: a prefetch reads nothing that anyone could see, wherever it points.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
}
