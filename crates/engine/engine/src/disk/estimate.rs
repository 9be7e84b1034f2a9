//! What reading a page and computing a token cost, as measured here.

use std::time::Duration;

/// Tokens at depths of up to 1, 2, 4, ... thousand tokens are measured apart: attention over a long start is a growing part.
const DEPTHS: usize = 16;

/// How much a new measurement counts.
const WEIGHT: f64 = 0.2;

/// What a disk is taken to read until it was measured: slow for one of today.
const BYTES_A_SECOND: f64 = 200e6;

/// How much better an untried disk looks each time: one that was slow for a moment gets another chance.
const FORGIVENESS: f64 = 1.1;

/// Running means.
#[derive(Debug, Clone)]
pub(crate) struct Estimates {
    bytes_a_second: f64,
    /// Seconds that computing a token takes, by depth.
    token: [Option<f64>; DEPTHS],
}

impl Default for Estimates {
    fn default() -> Self {
        Estimates { bytes_a_second: BYTES_A_SECOND, token: [None; DEPTHS] }
    }
}

fn depth(position: usize) -> usize {
    ((position / 1024 + 1).ilog2() as usize).min(DEPTHS - 1)
}

impl Estimates {
    /// So many prompt tokens were computed from a position on.
    pub(crate) fn note_computed(&mut self, position: usize, tokens: usize, took: Duration) {
        if tokens > 0 {
            let new = took.as_secs_f64() / tokens as f64;
            let known = &mut self.token[depth(position)];
            *known = Some(known.map_or(new, |old| old + WEIGHT * (new - old)));
        }
    }

    /// So many bytes were read.
    pub(crate) fn note_read(&mut self, bytes: u64, took: Duration) {
        // Below a millisecond it is mostly the clock that is measured.
        if took >= Duration::from_millis(1) {
            let new = bytes as f64 / took.as_secs_f64();
            self.bytes_a_second += WEIGHT * (new - self.bytes_a_second);
        }
    }

    /// Whether reading so many bytes is likely to be faster than computing the tokens of these positions. What was never
    /// measured is taken to be slow to compute: after a start, pages are tried.
    pub(crate) fn is_faster(&mut self, bytes: u64, from: usize, upto: usize) -> bool {
        let Some(token) = self.token_at(usize::midpoint(from, upto)) else { return true };
        let compute = token * upto.saturating_sub(from) as f64;
        let faster = bytes as f64 / self.bytes_a_second < compute;
        if !faster {
            self.bytes_a_second *= FORGIVENESS;
        }
        faster
    }

    /// Seconds for a token at a position: as measured there, or at the nearest depth.
    fn token_at(&self, position: usize) -> Option<f64> {
        let at = depth(position);
        let measured = self.token.iter().enumerate().filter_map(|(d, &token)| Some((d, token?)));
        measured.min_by_key(|(d, _)| d.abs_diff(at)).map(|(_, token)| token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_way_is_taken_and_a_slow_disk_is_tried_again() {
        let mut known = Estimates::default();
        assert!(known.is_faster(u64::MAX, 0, 16), "nothing was measured");
        known.note_computed(0, 1000, Duration::from_secs(1));
        // 20 MB are a tenth of a second, 1,000 tokens a whole one.
        assert!(known.is_faster(20_000_000, 0, 1000));
        assert!(!known.is_faster(400_000_000, 0, 1000));
        for _ in 0..40 {
            known.note_read(1_000_000, Duration::from_secs(1));
        }
        assert!(!known.is_faster(20_000_000, 0, 1000));
        assert!((0..40).any(|_| known.is_faster(20_000_000, 0, 1000)));
    }

    #[test]
    fn depths_are_measured_apart() {
        let mut known = Estimates::default();
        known.note_computed(0, 1000, Duration::from_millis(10));
        known.note_computed(40_000, 1000, Duration::from_secs(10));
        assert!(!known.is_faster(20_000_000, 0, 1000));
        assert!(known.is_faster(20_000_000, 39_000, 40_000));
    }
}
