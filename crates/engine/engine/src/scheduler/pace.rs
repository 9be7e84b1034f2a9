//! How many prompt tokens a step may take while another call waits for its next token.
//!
//! That token comes when the whole step is done. What a prompt's token costs grows with the tokens before it, as
//! attention reads them all, so the same chunk that is a moment at the start of a file is a pause at its end. What steps cost is
//! therefore measured as they go, as a line over the depth, and a step takes as many tokens as fit the time. Which tokens
//! share a step changes nothing in what is computed, so a clock may decide it.

use std::time::Duration;

/// The time that a step with a prompt's tokens may take: with a step of decoding before it, the pause that a reader sees stays
/// below 150 ms.
pub(super) const STEP: Duration = Duration::from_millis(100);

/// A tile: the fewest tokens of the oldest prompt that a step takes, so that it is read at last on any machine.
pub(super) const FEWEST: usize = 16;

/// Tokens where nothing like it was measured.
const UNTRIED: usize = 64;

/// How much each earlier step still counts when another is measured.
const MEMORY: f64 = 0.85;

/// Sums over measured steps, each weighted by its tokens, older ones less: those of a straight line by least squares.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    weight: f64,
    depth: f64,
    depth_squared: f64,
    cost: f64,
    cost_by_depth: f64,
    /// The greatest depth that was ever measured.
    deepest: f64,
}

impl Pace {
    /// A step computed so many tokens of prompts, in the mean at this depth, and took so long in all.
    pub(super) fn note(&mut self, depth: f64, rows: usize, took: Duration) {
        // A step of few tokens is mostly the reading of weights.
        if rows < FEWEST {
            return;
        }
        let weight = rows as f64;
        let cost = took.as_secs_f64() / weight;
        let add = |sum: &mut f64, new: f64| *sum = *sum * MEMORY + weight * new;
        add(&mut self.weight, 1.0);
        add(&mut self.depth, depth);
        add(&mut self.depth_squared, depth * depth);
        add(&mut self.cost, cost);
        add(&mut self.cost_by_depth, cost * depth);
        self.deepest = self.deepest.max(depth);
    }

    /// Seconds that a token at this depth is likely to take; `None` where nothing was measured.
    fn seconds(&self, depth: f64) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let (mean_depth, mean_cost) = (self.depth / self.weight, self.cost / self.weight);
        let spread = self.depth_squared / self.weight - mean_depth * mean_depth;
        let together = self.cost_by_depth / self.weight - mean_depth * mean_cost;
        // No token is cheaper for being deeper, and none at the start costs less than nothing.
        let steepest = mean_cost / mean_depth.max(1.0);
        let slope = if spread > 1.0 { (together / spread).clamp(0.0, steepest) } else { 0.0 };
        Some(mean_cost + slope * (depth - mean_depth))
    }

    /// How many tokens of a prompt from a depth on fit the time, at most so many, and how much of it they take. Whole tiles
    /// of 16 but for the end of a prompt; 0 where not even one tile fits.
    pub(super) fn fit(&self, depth: usize, time: Duration, most: usize) -> (usize, Duration) {
        let depth = depth as f64;
        let Some(seconds) = self.seconds(depth).filter(|seconds| *seconds > 0.0) else {
            let rows = UNTRIED.min(most);
            return (rows, time.mul_f64(rows as f64 / UNTRIED as f64));
        };
        let mut fits = (time.as_secs_f64() / seconds) as usize / FEWEST * FEWEST;
        if depth > 2.0 * self.deepest + 1024.0 {
            fits = fits.min(UNTRIED);
        }
        let rows = fits.min(most);
        // Where too little is left for any, nobody after it gets it.
        let takes = if rows == 0 { time } else { Duration::from_secs_f64(seconds * rows as f64) };
        (rows, takes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which a step takes 16 ms and a token a third of one, and more the deeper it is.
    fn took(depth: f64, rows: usize) -> Duration {
        Duration::from_secs_f64(0.016 + rows as f64 * (330e-6 + 48e-9 * depth))
    }

    fn read(pace: &mut Pace, from: usize, upto: usize) -> (Vec<usize>, Vec<Duration>) {
        let (mut at, mut rows, mut times) = (from, Vec::new(), Vec::new());
        while at < upto {
            let (now, _) = pace.fit(at, STEP, 512.min(upto - at));
            let middle = at as f64 + now as f64 / 2.0;
            let now = now.max(FEWEST.min(upto - at));
            rows.push(now);
            times.push(took(middle, now));
            pace.note(middle, now, took(middle, now));
            at += now;
        }
        (rows, times)
    }

    #[test]
    fn a_step_keeps_to_its_time_from_the_start_of_a_file_to_its_end() {
        let mut pace = Pace::default();
        let (rows, times) = read(&mut pace, 0, 30_000);
        assert!(times.iter().all(|time| *time < STEP.mul_f64(1.15)), "{times:?}");
        assert!(rows.iter().any(|rows| *rows > 200), "much at the start: {rows:?}");
        let last = rows[rows.len() - 2];
        assert!((16..80).contains(&last), "little at the end: {last}");
    }

    #[test]
    fn a_prompt_at_another_depth_is_judged_by_the_line() {
        let mut pace = Pace::default();
        read(&mut pace, 0, 12_000);
        let (_, times) = read(&mut pace, 20_000, 21_000);
        assert!(times[0] < STEP.mul_f64(1.2), "{times:?}");
        let (rows, times) = read(&mut pace, 0, 2_000);
        assert!(times.iter().all(|time| *time < STEP.mul_f64(1.2)), "{times:?}");
        assert!(rows[1] > 128, "{rows:?}");
    }

    #[test]
    fn nothing_is_known_at_first_and_little_far_beyond_what_was_measured() {
        let mut pace = Pace::default();
        assert_eq!(pace.fit(0, STEP, 512).0, UNTRIED);
        assert_eq!(pace.fit(0, STEP, 20), (20, STEP.mul_f64(20.0 / 64.0)));
        for _ in 0..9 {
            pace.note(64.0, 128, Duration::from_millis(4));
        }
        assert_eq!(pace.fit(0, STEP, 512).0, 512);
        assert_eq!(pace.fit(30_000, STEP, 512).0, UNTRIED);
    }

    #[test]
    fn nothing_fits_where_one_tile_takes_too_long() {
        let mut pace = Pace::default();
        pace.note(100.0, 64, Duration::from_secs(30));
        assert_eq!(pace.fit(0, STEP, 512), (0, STEP));
        assert_eq!(pace.fit(0, Duration::ZERO, 512), (0, Duration::ZERO));
        // A clock that stood still says nothing.
        let mut pace = Pace::default();
        pace.note(100.0, 64, Duration::ZERO);
        assert_eq!(pace.fit(0, STEP, 512).0, UNTRIED);
    }
}
