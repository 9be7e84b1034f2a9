//! Sums over calls, and the line that says whether the cache works.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde::Serialize;
use tapri_ledger::Money;

use super::{Observation, Priced};
use crate::numbers::{counted, grouped};

/// Sums over some calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// All calls.
    pub calls: u64,
    /// Of those, calls whose cached tokens weren't reported.
    pub unknown: u64,
    /// Of those whose cached tokens were: calls with none.
    pub without_hit: u64,
    /// Prompt tokens of calls whose cached tokens were reported.
    pub prompt: u64,
    /// Of those, from cache.
    pub cached: u64,
    /// Tokens written to a cache, where reported.
    pub written: u64,
    /// What it cost, an estimate, by currency.
    pub money: BTreeMap<String, Paid>,
    /// Calls without a price.
    pub unpriced: u64,
}

/// Two sums of money in one currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Paid {
    /// With what the cache gave.
    pub paid: Decimal,
    /// With nothing out of a cache, and nothing written to one.
    pub without_cache: Decimal,
}

/// Whether a share of tokens from cache is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At least the threshold.
    Ok,
    /// Below it.
    Alert,
    /// Nobody reported cached tokens.
    Unknown,
}

impl Totals {
    /// Adds a call.
    pub fn add(&mut self, call: &Observation) {
        self.calls += 1;
        match (call.prompt, call.cached) {
            (Some(prompt), Some(cached)) => {
                self.prompt = self.prompt.saturating_add(prompt);
                self.cached = self.cached.saturating_add(cached);
                self.without_hit += u64::from(cached == 0);
            }
            _ => self.unknown += 1,
        }
        self.written = self.written.saturating_add(call.written.unwrap_or(0));
        match &call.priced {
            Some(priced) => self.pay(priced),
            None => self.unpriced += 1,
        }
    }

    fn pay(&mut self, priced: &Priced) {
        let Money { amount: paid, currency } = &priced.paid;
        let sums = self.money.entry(currency.clone()).or_default();
        sums.paid = sums.paid.saturating_add(*paid);
        sums.without_cache = sums.without_cache.saturating_add(priced.without_cache.amount);
    }

    /// The share of prompt tokens from cache in [0, 1]; `None` where nothing was reported.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        (self.prompt > 0).then(|| self.cached as f64 / self.prompt as f64)
    }

    /// Whether it is enough.
    #[must_use]
    pub fn verdict(&self, threshold: f64) -> Verdict {
        match self.hit_rate() {
            None => Verdict::Unknown,
            Some(rate) if rate < threshold => Verdict::Alert,
            Some(_) => Verdict::Ok,
        }
    }

    /// `608,000 of 644,000 prompt tokens from cache (94%): OK`. Percents are cut, not rounded: only all is 100, and
    /// what is below a threshold doesn't read as on it.
    #[must_use]
    pub fn line(&self, threshold: f64) -> String {
        let verdict = match self.verdict(threshold) {
            Verdict::Ok => "OK",
            Verdict::Alert => "ALERT: check the top of the prompt",
            Verdict::Unknown if self.unknown == 0 => return "no prompt tokens".to_owned(),
            Verdict::Unknown => {
                return format!("{}: UNKNOWN", not_reported(self.unknown));
            }
        };
        let percent = u128::from(self.cached) * 100 / u128::from(self.prompt);
        let mut line = format!(
            "{} of {} prompt tokens from cache ({percent}%): {verdict}",
            grouped(self.cached),
            grouped(self.prompt),
        );
        if self.unknown > 0 {
            line.push_str(&format!("; {}", not_reported(self.unknown)));
        }
        line
    }
}

pub(super) fn not_reported(calls: u64) -> String {
    format!("cached tokens not reported for {}", counted(calls, "call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(cached: u64, prompt: u64, unknown: u64) -> Totals {
        Totals { calls: 20, cached, prompt, unknown, ..Totals::default() }
    }

    #[test]
    fn the_line_reads_exactly_so() {
        let line = |cached, prompt, unknown| totals(cached, prompt, unknown).line(0.5);
        assert_eq!(
            line(608_000, 644_000, 0),
            "608,000 of 644,000 prompt tokens from cache (94%): OK"
        );
        assert_eq!(
            line(0, 644_000, 0),
            "0 of 644,000 prompt tokens from cache (0%): ALERT: check the top of the prompt"
        );
        assert_eq!(
            line(322_000, 644_000, 0),
            "322,000 of 644,000 prompt tokens from cache (50%): OK"
        );
        assert_eq!(
            line(321_999, 644_000, 0),
            "321,999 of 644,000 prompt tokens from cache (49%): ALERT: check the top of the prompt"
        );
        assert_eq!(
            line(999_999, 1_000_000, 1),
            "999,999 of 1,000,000 prompt tokens from cache (99%): OK; cached tokens not reported for 1 call"
        );
        assert_eq!(line(0, 0, 20), "cached tokens not reported for 20 calls: UNKNOWN");
        assert_eq!(line(0, 0, 0), "no prompt tokens");
    }
}
