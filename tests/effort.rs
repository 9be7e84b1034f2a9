//! How much a test does: its own bounded number of cases, or as many as fit a time that is asked for.
//!
//! `TAPRI_TEST_FOR=1h cargo test -p tapri-gguf --test hostile` lets each property of that file run for an hour; `30s`,
//! `10m` and `8h` are other times. Without it every property has the number of cases that it names, which suits a run of
//! all tests. `TAPRI_TEST_SEED=N` runs the one round that a failed test has named. Test files take this file in by its path.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// The time that was asked for.
pub fn asked() -> Option<Duration> {
    let text = std::env::var("TAPRI_TEST_FOR").ok().filter(|text| !text.is_empty())?;
    let (number, unit) = text.split_at(text.len() - 1);
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => panic!("TAPRI_TEST_FOR={text}: a time is a number and s, m or h, as in 10m"),
    };
    let number: u64 = number.parse().expect("TAPRI_TEST_FOR: a time is a number and s, m or h");
    Some(Duration::from_secs(number * seconds))
}

/// The numbers of a test's rounds: the first `cases`, or, where a time was asked for, the first `whole` and then others
/// until it is over. A round makes all its random choices from its number.
pub fn rounds(cases: u64, whole: u64) -> Box<dyn Iterator<Item = u64>> {
    if let Ok(seed) = std::env::var("TAPRI_TEST_SEED") {
        return Box::new(std::iter::once(seed.parse().expect("TAPRI_TEST_SEED is a number")));
    }
    let Some(time) = asked() else { return Box::new(0..cases) };
    let start = Instant::now();
    // Others than in the last run, and in every run.
    let since_epoch = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let more = (since_epoch.as_nanos() as u64 | 1 << 63)..;
    Box::new((0..whole).chain(more.take_while(move |_| start.elapsed() < time)))
}

/// Holds `property` against so many values, or against new ones as long as was asked for. A value that fails is made
/// smaller and printed.
pub fn check<S: Strategy>(
    cases: u32,
    values: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let start = Instant::now();
    loop {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        match TestRunner::new(config).run(values, &property) {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => panic!("{why}\nfor the value {value:#?}"),
            Err(TestError::Abort(why)) => panic!("{why}"),
        }
        if asked().is_none_or(|time| start.elapsed() >= time) {
            return;
        }
    }
}

/// Random choices from a round's number (SplitMix64: Steele, Lea and Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new(round: u64) -> Random {
        Random(round)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// From `start` up to `end`, both included.
    pub fn within(&mut self, start: usize, end: usize) -> usize {
        start + self.below(end - start + 1)
    }

    /// True one time in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
