//! What the caches saved: tokens, money and waiting time, by day, tenant, route and model.
//!
//! Tokens are measured. Money is an estimate: measured tokens at a price list. The waiting time is an estimate as well:
//! the tokens that weren't read, at the rate at which the same model read whole prompts in the same calls (the time to
//! the first token of calls of which nothing was cached, over their prompts' tokens).
//!
//! ```
//! use std::time::Duration;
//! use jiff::tz::TimeZone;
//! use tapri_insight::savings::Savings;
//! use tapri_ledger::CallRecord;
//!
//! let mut savings = Savings::new(TimeZone::UTC);
//! for cached in [0, 900] {
//!     let mut record = CallRecord::new("a", jiff::Timestamp::UNIX_EPOCH);
//!     record.tokens.prompt = Some(1000);
//!     record.tokens.cached = Some(cached);
//!     record.ttft = Some(Duration::from_millis(if cached == 0 { 2000 } else { 250 }));
//!     savings.add(&record);
//! }
//! let saved = savings.waiting(&savings.all);
//! assert_eq!((saved.time, saved.unknown), (Duration::from_millis(1800), 0));
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tapri_ledger::CallRecord;

use crate::report::Paid;

/// Names that have sums of their own; calls of further ones are only in [`Savings::all`].
const NAMES: usize = 1000;

/// Sums over calls.
#[derive(Debug, Clone)]
pub struct Savings {
    zone: TimeZone,
    /// Over everything.
    pub all: Saved,
    /// By day.
    pub days: BTreeMap<Date, Saved>,
    /// By tenant.
    pub tenants: BTreeMap<String, Saved>,
    /// By route.
    pub routes: BTreeMap<String, Saved>,
    /// By model.
    pub models: BTreeMap<String, Saved>,
    rates: BTreeMap<String, Rate>,
    /// Calls whose name had no sum left.
    pub beyond: u64,
}

/// What was saved by some calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Calls whose prompt was counted.
    pub calls: u64,
    /// Prompt tokens of those that say how many were cached, and of stored answers.
    pub prompt: u64,
    /// Of those, from a prefix cache.
    pub cached: u64,
    /// Of those, computed once for several calls that waited for them together.
    pub joined: u64,
    /// Of those, of calls that a stored answer answered: the model read none.
    pub spared: u64,
    /// Calls that a stored answer, or another call's, answered.
    pub answers: u64,
    /// Calls that don't say how many of their tokens were cached.
    pub unknown: u64,
    /// What it cost, an estimate, by currency.
    pub money: BTreeMap<String, Paid>,
    /// Calls without a price.
    pub unpriced: u64,
    /// Tokens that nobody waited for, by model: what was joined was waited for.
    unread: BTreeMap<String, u64>,
}

/// Waiting time that was saved: an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// The time.
    pub time: Duration,
    /// Tokens that weren't read either, of models of which no call read a whole prompt: their time isn't known.
    pub unknown: u64,
}

/// How fast a model reads.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    time: Duration,
    tokens: u64,
}

impl Savings {
    /// Nothing yet. Days begin in this zone.
    #[must_use]
    pub fn new(zone: TimeZone) -> Self {
        Savings {
            zone,
            all: Saved::default(),
            days: BTreeMap::new(),
            tenants: BTreeMap::new(),
            routes: BTreeMap::new(),
            models: BTreeMap::new(),
            rates: BTreeMap::new(),
            beyond: 0,
        }
    }

    /// Adds a call. One whose prompt wasn't counted, since it failed before, says nothing.
    pub fn add(&mut self, record: &CallRecord) {
        let Some(prompt) = record.tokens.prompt else { return };
        self.rate(record, prompt);
        self.all.add(record, prompt);
        self.days.entry(self.zone.to_datetime(record.at).date()).or_default().add(record, prompt);
        let groups = [
            (&mut self.tenants, &record.tenant),
            (&mut self.routes, &record.route),
            (&mut self.models, &record.model),
        ];
        for (group, name) in groups {
            if let Some(saved) = group.get_mut(name) {
                saved.add(record, prompt);
            } else if group.len() < NAMES {
                group.entry(name.clone()).or_default().add(record, prompt);
            } else {
                self.beyond += 1;
            }
        }
    }

    /// Learns from a call that read its whole prompt.
    fn rate(&mut self, record: &CallRecord, prompt: u64) {
        let whole = record.tokens.cached == Some(0)
            && record.tokens.joined.unwrap_or(0) == 0
            && !record.is_stored_answer();
        let Some(ttft) = record.ttft.filter(|_| whole && prompt > 0) else { return };
        if !self.rates.contains_key(&record.model) && self.rates.len() >= NAMES {
            return;
        }
        let rate = self.rates.entry(record.model.clone()).or_default();
        rate.time = rate.time.saturating_add(ttft);
        rate.tokens = rate.tokens.saturating_add(prompt);
    }

    /// The waiting time that some of these calls were spared.
    #[must_use]
    pub fn waiting(&self, saved: &Saved) -> Waiting {
        let mut waiting = Waiting::default();
        for (model, &tokens) in &saved.unread {
            match self.rates.get(model).filter(|rate| rate.tokens > 0) {
                Some(rate) => {
                    let seconds = rate.time.as_secs_f64() * tokens as f64 / rate.tokens as f64;
                    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                    waiting.time = waiting.time.saturating_add(time);
                }
                None => waiting.unknown = waiting.unknown.saturating_add(tokens),
            }
        }
        waiting
    }
}

impl Saved {
    fn add(&mut self, record: &CallRecord, prompt: u64) {
        self.calls += 1;
        let counts = &record.tokens;
        let stored = record.is_stored_answer();
        let unread = match counts.cached {
            _ if stored => {
                self.answers += 1;
                self.spared = self.spared.saturating_add(prompt);
                Some(prompt)
            }
            Some(cached) => {
                let cached = cached.min(prompt);
                self.cached = self.cached.saturating_add(cached);
                self.joined =
                    self.joined.saturating_add(counts.joined.unwrap_or(0).min(prompt - cached));
                Some(cached)
            }
            None => None,
        };
        match unread {
            Some(unread) => {
                self.prompt = self.prompt.saturating_add(prompt);
                if unread > 0 {
                    let sum = self.unread.entry(record.model.clone()).or_default();
                    *sum = sum.saturating_add(unread);
                }
            }
            None => self.unknown += 1,
        }
        match &record.cost {
            Some(cost) => {
                let sums = self.money.entry(cost.paid.currency.clone()).or_default();
                sums.paid = sums.paid.saturating_add(cost.paid.amount);
                sums.without_cache = sums.without_cache.saturating_add(cost.without_cache.amount);
            }
            None => self.unpriced += 1,
        }
    }

    /// Tokens that the model didn't read for these calls.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.cached.saturating_add(self.joined).saturating_add(self.spared)
    }

    /// The share of prompt tokens that the model didn't read, from 0 to 1; `None` where nothing is known.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.prompt > 0).then(|| self.unread() as f64 / self.prompt as f64)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use tapri_ledger::{CacheOutcome, CacheResult, Cost, Money};

    use super::*;

    fn record(model: &str, cached: Option<u64>, millis: u64) -> CallRecord {
        let mut record = CallRecord::new("a", "2026-11-30T20:00:00Z".parse().unwrap());
        record.model = model.to_owned();
        record.route = "/v1/messages".to_owned();
        record.tokens.prompt = Some(1000);
        record.tokens.cached = cached;
        record.ttft = Some(Duration::from_millis(millis));
        record
    }

    #[test]
    fn a_day_a_tenant_and_a_model_have_sums_of_their_own() {
        let mut savings = Savings::new(TimeZone::get("Asia/Kolkata").unwrap());
        savings.add(&record("small", Some(0), 1000));
        savings.add(&record("small", Some(800), 220));
        let mut stored = record("small", None, 1);
        stored.tenant = "acme".to_owned();
        stored.exact = Some(CacheResult { outcome: CacheOutcome::Hit, reason: None });
        stored.cost = Some(Cost {
            paid: Money::new(0.into(), "Rs"),
            without_cache: Money::new(3.into(), "Rs"),
            price_list: "example".to_owned(),
            price_date: None,
        });
        savings.add(&stored);
        // Nobody knows what it found, nor how fast its model reads.
        savings.add(&record("hosted", None, 500));
        savings.add(&record("hosted", Some(400), 300));
        // It failed before its prompt was counted.
        savings.add(&CallRecord::new("b", "2026-11-30T20:00:00Z".parse().unwrap()));

        let all = &savings.all;
        assert_eq!((all.calls, all.prompt, all.cached, all.spared), (5, 4000, 1200, 1000));
        assert_eq!((all.answers, all.unknown, all.unpriced), (1, 1, 4));
        assert_eq!(all.share(), Some(0.55));
        assert_eq!(all.money["Rs"].without_cache, 3.into());
        let days: Vec<String> = savings.days.keys().map(ToString::to_string).collect();
        assert_eq!(days, ["2026-12-01"], "it was past midnight there");
        let tenants: Vec<_> =
            savings.tenants.iter().map(|(name, it)| (&**name, it.calls)).collect();
        assert_eq!(tenants, [("acme", 1), ("default", 4)]);
        let waiting = savings.waiting(all);
        assert_eq!(waiting, Waiting { time: Duration::from_millis(1800), unknown: 400 });
        assert_eq!(savings.waiting(&savings.models["hosted"]).time, Duration::ZERO);
    }

    #[test]
    fn names_beyond_the_limit_are_in_the_whole() {
        let mut savings = Savings::new(TimeZone::UTC);
        for n in 0..NAMES + 5 {
            let mut call = record("m", Some(0), 10);
            call.tenant = format!("tenant {n}");
            savings.add(&call);
        }
        assert_eq!((savings.tenants.len(), savings.beyond), (NAMES, 5));
        assert_eq!(savings.all.calls, NAMES as u64 + 5);
    }
}
