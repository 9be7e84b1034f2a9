//! Whether predictions of cached tokens come true.
//!
//! For each call it is known which start the chosen replica should have. What the upstream says at the end is held
//! against it: the sums and the errors are exported, and where a start that should have been there never is, it is said
//! so: a replica that was restarted, a salt that isn't taken, another tokenizer's blocks. What load cost is exported as
//! well: the tokens that another replica had and the chosen one hadn't (NVIDIA Dynamo calls the ratio regret).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was expected of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expected {
    /// Bytes of the prompt's text.
    pub bytes: usize,
    /// Of those, bytes that the replica should have.
    pub seen: usize,
    /// Bytes that the best replica should have.
    pub best: usize,
    /// Tokens that should be read, by the provider's rules.
    pub tokens: usize,
}

/// Sums over the calls of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Calibration {
    /// Calls that told how many tokens were cached.
    pub told: u64,
    /// Calls that did not.
    pub untold: u64,
    /// Predicted cached tokens of the calls that told.
    pub predicted: u64,
    /// Their true ones.
    pub realised: u64,
    /// The sum of the differences, each without its sign.
    pub error: u64,
    /// Calls of which much was expected and nothing was there.
    pub surprises: u64,
    /// Tokens that another replica had and the chosen one hadn't.
    pub lost: u64,
    /// Tokens that no replica had.
    pub novel: u64,
}

/// So many surprises in a row are no chance.
const ALARM: u32 = 5;

/// Fewer tokens may be missed by a block that isn't full.
const WORTH: usize = 256;

/// Keeps the sums of one upstream.
#[derive(Debug)]
pub struct Calibrator {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    sums: Calibration,
    /// Bytes of text for a token, smoothed.
    bytes_per_token: f64,
    in_a_row: u32,
    /// The alarm is said at so many in a row; then twice as many.
    next_alarm: u32,
}

impl Default for Calibrator {
    fn default() -> Self {
        Calibrator {
            inner: Mutex::new(Inner {
                sums: Calibration::default(),
                // English and most code; corrected with the first answers.
                bytes_per_token: 4.0,
                in_a_row: 0,
                next_alarm: ALARM,
            }),
        }
    }
}

impl Calibrator {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many bytes of text in tokens.
    pub fn tokens(&self, bytes: usize) -> usize {
        (bytes as f64 / self.inner().bytes_per_token) as usize
    }

    /// The sums so far.
    pub fn sums(&self) -> Calibration {
        self.inner().sums
    }

    /// A call ended. Gives how many in a row read nothing though much was expected, when that should be said.
    pub fn see(
        &self,
        expected: &Expected,
        prompt: Option<usize>,
        cached: Option<usize>,
    ) -> Option<u32> {
        let mut inner = self.inner();
        if let Some(prompt) = prompt.filter(|prompt| *prompt > 0)
            && expected.bytes > 0
        {
            // One strange prompt must not turn it over: a tenth of each, within what tokenizers do.
            let now = (expected.bytes as f64 / prompt as f64).clamp(1.0, 16.0);
            inner.bytes_per_token += 0.1 * (now - inner.bytes_per_token);
            let tokens = |bytes: usize| (bytes as f64 / now) as u64;
            inner.sums.lost += tokens(expected.best.saturating_sub(expected.seen));
            inner.sums.novel += tokens(expected.bytes.saturating_sub(expected.best));
        }
        let Some(cached) = cached else {
            // Unknown is not zero.
            inner.sums.untold += 1;
            return None;
        };
        inner.sums.told += 1;
        inner.sums.predicted += expected.tokens as u64;
        inner.sums.realised += cached as u64;
        inner.sums.error += expected.tokens.abs_diff(cached) as u64;
        if expected.tokens < WORTH {
            return None;
        }
        if cached > 0 {
            (inner.in_a_row, inner.next_alarm) = (0, ALARM);
            return None;
        }
        inner.sums.surprises += 1;
        inner.in_a_row += 1;
        if inner.in_a_row < inner.next_alarm {
            return None;
        }
        inner.next_alarm = inner.next_alarm.saturating_mul(2);
        Some(inner.in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(tokens: usize) -> Expected {
        Expected { bytes: 8000, seen: tokens * 4, best: tokens * 4, tokens }
    }

    #[test]
    fn predictions_are_held_against_what_comes() {
        let calibrator = Calibrator::default();
        assert_eq!(calibrator.see(&expected(1000), Some(2000), Some(960)), None);
        assert_eq!(calibrator.see(&expected(0), Some(2000), None), None);
        let load = Expected { bytes: 8000, seen: 0, best: 4000, tokens: 0 };
        calibrator.see(&load, Some(2000), Some(0));
        let sums = calibrator.sums();
        assert_eq!((sums.told, sums.untold, sums.predicted, sums.realised), (2, 1, 1000, 960));
        assert_eq!((sums.error, sums.lost, sums.novel, sums.surprises), (40, 1000, 4000, 0));
    }

    #[test]
    fn nothing_where_much_was_expected_is_said_and_not_at_every_call() {
        let calibrator = Calibrator::default();
        let said: Vec<u32> =
            (0..50).filter_map(|_| calibrator.see(&expected(1000), None, Some(0))).collect();
        assert_eq!(said, [5, 10, 20, 40]);
        assert_eq!(calibrator.sums().surprises, 50);
        calibrator.see(&expected(1000), None, Some(900));
        let again: Vec<u32> =
            (0..5).filter_map(|_| calibrator.see(&expected(1000), None, Some(0))).collect();
        assert_eq!(again, [5], "it worked in between");
        assert_eq!(calibrator.see(&expected(100), None, Some(0)), None, "too little to tell");
    }

    #[test]
    fn bytes_of_a_token_are_learnt() {
        let calibrator = Calibrator::default();
        assert_eq!(calibrator.tokens(8000), 2000);
        for _ in 0..100 {
            calibrator.see(&expected(0), Some(4000), Some(0));
        }
        assert!(calibrator.tokens(8000).abs_diff(4000) < 20);
    }
}
