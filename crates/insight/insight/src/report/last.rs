//! The first step of a repair by hand: look at the last calls.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use jiff::Timestamp;
use serde::Serialize;

use super::Observation;
use super::totals::not_reported;
use crate::numbers::{counted, grouped};

/// Shorter prompts are cached by hardly any hosted service; their minimums begin at 512 or 1,024 tokens.
const SHORT: u64 = 512;

/// Keeps the last calls: by time, and those of one time (or without one) by their order in the log.
#[derive(Debug, Clone)]
pub(super) struct Latest {
    limit: usize,
    seen: u64,
    /// Calls without a time are taken for as late as the one before them.
    clock: Timestamp,
    kept: BinaryHeap<Reverse<Kept>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    at: Timestamp,
    order: u64,
    timed: bool,
    prompt: Option<u64>,
    cached: Option<u64>,
}

impl Latest {
    pub(super) fn new(limit: usize) -> Self {
        Latest { limit, seen: 0, clock: Timestamp::MIN, kept: BinaryHeap::new() }
    }

    pub(super) fn add(&mut self, call: &Observation) {
        if self.limit == 0 {
            return;
        }
        self.clock = call.at.unwrap_or(self.clock);
        self.seen += 1;
        self.kept.push(Reverse(Kept {
            at: self.clock,
            order: self.seen,
            timed: call.at.is_some(),
            prompt: call.prompt,
            cached: call.cached,
        }));
        if self.kept.len() > self.limit {
            self.kept.pop();
        }
    }

    pub(super) fn finish(self) -> LastCalls {
        let mut calls: Vec<Kept> = self.kept.into_iter().map(|Reverse(kept)| kept).collect();
        calls.sort_unstable();
        let mut last = LastCalls {
            asked: self.limit as u64,
            calls: calls.len() as u64,
            hits: 0,
            zeros: 0,
            unknown: 0,
            since_hit: 0,
            last_hit: None,
            short: 0,
        };
        for call in &calls {
            last.short += u64::from(call.prompt.is_some_and(|prompt| prompt < SHORT));
            match call.cached {
                None => last.unknown += 1,
                Some(0) => {
                    last.zeros += 1;
                    last.since_hit += 1;
                }
                Some(_) => {
                    last.hits += 1;
                    last.since_hit = 0;
                    last.last_hit = call.timed.then_some(call.at);
                }
            }
        }
        last
    }
}

/// What the last calls say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastCalls {
    /// How many were asked for.
    pub asked: u64,
    /// How many there are.
    pub calls: u64,
    /// Calls with cached tokens.
    pub hits: u64,
    /// Calls with zero cached tokens.
    pub zeros: u64,
    /// Calls whose cached tokens weren't reported.
    pub unknown: u64,
    /// Calls with zero cached tokens since the last hit, or since the first call if there was none.
    pub since_hit: u64,
    /// When the last hit was, where the log has times.
    pub last_hit: Option<Timestamp>,
    /// Calls with prompts shorter than 512 tokens.
    pub short: u64,
}

impl LastCalls {
    /// Whether the cache never hit.
    #[must_use]
    pub fn never_hit(&self) -> bool {
        self.hits == 0 && self.zeros > 0
    }

    /// What follows, in sentences, one a line.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.calls == 0 {
            return vec!["there are no calls".to_owned()];
        }
        if self.calls < self.asked {
            said.push(format!(
                "there {} only {}",
                if self.calls == 1 { "is" } else { "are" },
                counted(self.calls, "call")
            ));
        }
        let known = self.hits + self.zeros;
        let of_them = if self.unknown > 0 {
            format!("of the last {} that reported them", counted(known, "call"))
        } else if known == 1 {
            "of one call".to_owned()
        } else {
            format!("of the last {} calls", grouped(known))
        };
        if known == 0 {
            said.push(format!(
                "{}: whether the cache hit can't be told",
                not_reported(self.unknown)
            ));
            return said;
        }
        if self.hits == 0 && known == 1 {
            said.push("zero cached tokens on the only call, as on the first of every start: one call shows nothing".to_owned());
        } else if self.hits == 0 {
            said.push(format!(
                "zero cached tokens on every one {of_them}: the cache never hit: ALERT: check the top of the prompt"
            ));
        } else if self.zeros == 0 {
            said.push(format!("cached tokens on every one {of_them}: OK"));
        } else {
            said.push(format!("cached tokens on {} {of_them}", grouped(self.hits)));
            // A run this long of what was a mixture before: something changed there.
            let share = self.hits as f64 / known as f64;
            let chance = (1.0 - share).powf(self.since_hit as f64);
            if self.since_hit >= 5 && chance < 0.01 {
                let when = self.last_hit.map(|at| format!(" ({at})")).unwrap_or_default();
                said.push(format!(
                    "and on none of the last {}: ALERT: look at what changed after the last hit{when}",
                    grouped(self.since_hit)
                ));
            }
        }
        if self.unknown > 0 {
            said.push(not_reported(self.unknown));
        }
        if self.short * 2 > self.calls {
            said.push(format!(
                "{} of the prompts are shorter than {SHORT} tokens, which hosted caches leave out",
                grouped(self.short)
            ));
        }
        said
    }

    /// Whether one of the sentences is an alert.
    #[must_use]
    pub fn alerts(&self) -> bool {
        self.sentences().iter().any(|line| line.contains("ALERT"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(cached: &[Option<u64>], asked: usize) -> Vec<String> {
        let mut latest = Latest::new(asked);
        for (at, cached) in cached.iter().enumerate() {
            latest.add(&Observation {
                at: Timestamp::from_second(1_796_035_327 + at as i64).ok(),
                prompt: Some(32_200),
                cached: *cached,
                ..Observation::default()
            });
        }
        latest.finish().sentences()
    }

    #[test]
    fn every_case() {
        let (hit, zero, unknown) = (Some(30_400), Some(0), None);
        let cases = [
            vec![zero; 150],
            vec![zero; 37],
            vec![hit; 100],
            [vec![hit; 70], vec![zero; 30]].concat(),
            [hit, zero].repeat(50),
            [vec![unknown; 10], vec![zero; 90]].concat(),
            vec![unknown; 100],
            vec![zero],
            vec![],
            // A hit that is older than the last hundred is not seen.
            [vec![hit; 5], vec![zero; 100]].concat(),
        ];
        let said: Vec<_> = cases.iter().map(|case| after(case, 100).join("\n")).collect();
        insta::assert_snapshot!(said.join("\n--\n"));
    }

    #[test]
    fn by_time_whatever_the_order_of_the_lines() {
        let mut latest = Latest::new(2);
        for (second, cached) in [(3, 0), (1, 9), (2, 0)] {
            latest.add(&Observation {
                at: Timestamp::from_second(second).ok(),
                prompt: Some(10),
                cached: Some(cached),
                ..Observation::default()
            });
        }
        assert!(latest.finish().never_hit());
    }
}
