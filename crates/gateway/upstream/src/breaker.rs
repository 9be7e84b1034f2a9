//! A circuit breaker: an upstream that fails is left alone for a while, then tried with one call.
//!
//! Closed lets calls through and counts failures; open refuses until its time is up; half-open lets one call through,
//! whose end decides. Each failed try doubles the time. (The pattern is Michael Nygard's, "Release It!", 2007.)

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When it opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerConfig {
    /// So many failures in a row open it.
    pub in_a_row: u32,
    /// This share of failures among the last [`BreakerConfig::window`] calls opens it.
    pub share: f64,
    /// How many calls are looked back on. The share counts only once there were so many.
    pub window: u32,
    /// How long it stays open at first.
    pub open_for: Duration,
    /// The longest that doubling leads to.
    pub longest: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        BreakerConfig {
            in_a_row: 5,
            share: 0.5,
            // At most 64: one bit each.
            window: 20,
            open_for: Duration::from_secs(5),
            longest: Duration::from_secs(60),
        }
    }
}

/// What a breaker does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Lets it through.
    Closed,
    /// Lets one through, to see.
    HalfOpen,
    /// Refuses it.
    Open,
}

impl BreakerState {
    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half_open",
            BreakerState::Open => "open",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Closed,
    Open {
        until: Instant,
    },
    /// Its one call is on its way; it could come since then.
    Trying {
        since: Instant,
    },
}

#[derive(Debug)]
struct Inner {
    mode: Mode,
    in_a_row: u32,
    /// The last calls, the latest in the lowest bit; 1 is a failure.
    ring: u64,
    seen: u32,
    wait: Duration,
    opened: u64,
    /// Counts openings and closings, so that a call from before says nothing about the time after.
    era: u64,
}

/// The breaker of one upstream.
#[derive(Debug)]
pub struct Breaker {
    config: BreakerConfig,
    inner: Mutex<Inner>,
}

impl Breaker {
    /// A closed one.
    pub fn new(config: BreakerConfig) -> Arc<Self> {
        let config = BreakerConfig { window: config.window.clamp(1, 64), ..config };
        Arc::new(Breaker {
            inner: Mutex::new(Inner {
                mode: Mode::Closed,
                in_a_row: 0,
                ring: 0,
                seen: 0,
                wait: config.open_for,
                opened: 0,
                era: 0,
            }),
            config,
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it does with a call that comes now.
    pub fn state(&self, now: Instant) -> BreakerState {
        match self.inner().mode {
            Mode::Closed => BreakerState::Closed,
            Mode::Open { until } if until <= now => BreakerState::HalfOpen,
            Mode::Open { .. } | Mode::Trying { .. } => BreakerState::Open,
        }
    }

    /// When it may let a call through again; `None` where it does now or can't tell.
    pub fn opens_at(&self) -> Option<Instant> {
        match self.inner().mode {
            Mode::Open { until } => Some(until),
            Mode::Closed | Mode::Trying { .. } => None,
        }
    }

    /// How often it opened.
    pub fn opened(&self) -> u64 {
        self.inner().opened
    }

    /// Lets a call through, or doesn't.
    pub fn enter(self: &Arc<Self>, now: Instant) -> Option<Pass> {
        let mut inner = self.inner();
        let trial = match inner.mode {
            Mode::Closed => false,
            Mode::Open { until } if until <= now => {
                inner.mode = Mode::Trying { since: until };
                true
            }
            Mode::Open { .. } | Mode::Trying { .. } => return None,
        };
        let era = inner.era;
        Some(Pass { breaker: Arc::clone(self), era, trial, told: false })
    }

    fn told(&self, era: u64, failed: bool, now: Instant) {
        let mut inner = self.inner();
        if inner.era != era {
            return;
        }
        if matches!(inner.mode, Mode::Trying { .. }) {
            if failed {
                let wait = inner.wait.saturating_mul(2).min(self.config.longest);
                inner.wait = wait;
                open(&mut inner, now);
            } else {
                *inner = Inner {
                    mode: Mode::Closed,
                    in_a_row: 0,
                    ring: 0,
                    seen: 0,
                    wait: self.config.open_for,
                    opened: inner.opened,
                    era: inner.era + 1,
                };
            }
            return;
        }
        let config = &self.config;
        inner.ring = inner.ring << 1 | u64::from(failed);
        inner.seen = inner.seen.saturating_add(1);
        inner.in_a_row = if failed { inner.in_a_row + 1 } else { 0 };
        let mask = if config.window >= 64 { u64::MAX } else { (1 << config.window) - 1 };
        let failures = (inner.ring & mask).count_ones();
        let too_many = inner.seen >= config.window
            && f64::from(failures) >= config.share * f64::from(config.window);
        if failed && (inner.in_a_row >= config.in_a_row || too_many) {
            open(&mut inner, now);
        }
    }

    /// A try ended without a word about the upstream: the next call is one.
    fn untold(&self, era: u64, trial: bool) {
        let mut inner = self.inner();
        if let Mode::Trying { since } = inner.mode
            && trial
            && inner.era == era
        {
            inner.mode = Mode::Open { until: since };
        }
    }
}

fn open(inner: &mut Inner, now: Instant) {
    inner.mode = Mode::Open { until: now + inner.wait };
    (inner.in_a_row, inner.ring, inner.seen) = (0, 0, 0);
    inner.opened += 1;
    inner.era += 1;
}

/// A call that was let through. Dropped without a word, it says nothing about the upstream.
#[derive(Debug)]
pub struct Pass {
    breaker: Arc<Breaker>,
    era: u64,
    trial: bool,
    told: bool,
}

impl Pass {
    /// The upstream did its part.
    pub fn well(mut self, now: Instant) {
        self.told = true;
        self.breaker.told(self.era, false, now);
    }

    /// An answer has begun. Where this call was the trial, others may come now: an answer may take minutes. What is given
    /// goes on speaking for the answer.
    pub fn begun(self, now: Instant) -> Option<Pass> {
        if !self.trial {
            return Some(self);
        }
        let breaker = Arc::clone(&self.breaker);
        self.well(now);
        breaker.enter(now)
    }

    /// It failed.
    pub fn ill(mut self, now: Instant) {
        self.told = true;
        self.breaker.told(self.era, true, now);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if !self.told {
            self.breaker.untold(self.era, self.trial);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    fn fail(breaker: &Arc<Breaker>, clock: &ManualClock) {
        breaker.enter(clock.now()).unwrap().ill(clock.now());
    }

    #[test]
    fn opens_after_failures_tries_one_call_and_closes() {
        let (clock, breaker) = (ManualClock::default(), Breaker::new(BreakerConfig::default()));
        for _ in 0..5 {
            assert_eq!(breaker.state(clock.now()), BreakerState::Closed);
            fail(&breaker, &clock);
        }
        assert_eq!(breaker.state(clock.now()), BreakerState::Open);
        assert!(breaker.enter(clock.now()).is_none());
        clock.advance(Duration::from_secs(5));
        assert_eq!(breaker.state(clock.now()), BreakerState::HalfOpen);
        let trial = breaker.enter(clock.now()).unwrap();
        assert!(breaker.enter(clock.now()).is_none(), "one call at a time");
        trial.ill(clock.now());
        clock.advance(Duration::from_secs(9));
        assert_eq!(breaker.state(clock.now()), BreakerState::Open, "twice as long");
        clock.advance(Duration::from_secs(1));
        // A client that leaves says nothing about the upstream.
        drop(breaker.enter(clock.now()).unwrap());
        breaker.enter(clock.now()).unwrap().well(clock.now());
        assert_eq!(breaker.state(clock.now()), BreakerState::Closed);
        assert_eq!(breaker.opened(), 2);
    }

    #[test]
    fn a_share_of_failures_opens_it_and_old_calls_dont_count_afterwards() {
        let (clock, breaker) = (ManualClock::default(), Breaker::new(BreakerConfig::default()));
        let old = breaker.enter(clock.now()).unwrap();
        let mut calls = 0;
        while breaker.state(clock.now()) == BreakerState::Closed {
            if calls % 2 == 0 {
                breaker.enter(clock.now()).unwrap().well(clock.now());
            } else {
                fail(&breaker, &clock);
            }
            calls += 1;
            assert!(calls <= 20);
        }
        assert_eq!(calls, 20);
        clock.advance(Duration::from_secs(5));
        let trial = breaker.enter(clock.now()).unwrap();
        old.ill(clock.now());
        assert_eq!(breaker.state(clock.now()), BreakerState::Open, "the trial decides");
        trial.well(clock.now());
        assert_eq!(breaker.state(clock.now()), BreakerState::Closed);
    }
}
