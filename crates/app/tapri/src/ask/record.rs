//! What was measured, and what it would cost.

use std::time::Duration;

use rust_decimal::Decimal;
use serde_json::{Value, json};
use tapri_insight::prices::{Billed, PriceList, Written};
use tapri_ledger::Money;
use tapri_pipeline::api::{FinishReason, ReuseStop};

/// One question that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) question: String,
    pub(crate) answer: String,
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
    /// Left behind in the cache for the first time.
    pub(crate) written_tokens: usize,
    pub(crate) answer_tokens: usize,
    /// From the question to the answer's first token.
    pub(crate) ttft: Duration,
    /// From the answer's first token to its last.
    pub(crate) decode: Duration,
    pub(crate) finish: FinishReason,
    /// Why reuse ended where it did.
    pub(crate) stop: ReuseStop,
}

impl Record {
    /// What it used, as bills count it.
    fn billed(&self) -> Billed {
        let cached = self.cached_tokens.min(self.prompt_tokens);
        let written = self.written_tokens.min(self.prompt_tokens - cached);
        Billed {
            uncached: (self.prompt_tokens - cached - written) as u64,
            cached: cached as u64,
            written: Written { unsaid: written as u64, ..Written::default() },
            answer: self.answer_tokens as u64,
            ..Billed::default()
        }
    }

    /// Answer tokens per second, the first one apart: it belongs to the time before it.
    pub(crate) fn rate(&self) -> Option<f64> {
        let later = self.answer_tokens.checked_sub(1).filter(|later| *later > 0)?;
        let seconds = self.decode.as_secs_f64();
        (seconds > 0.0).then(|| later as f64 / seconds)
    }
}

/// A session's records and what follows from them.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) model: String,
    pub(crate) prefix_cache: bool,
    pub(crate) prices: PriceList,
    pub(crate) records: Vec<Record>,
}

impl Report {
    pub(crate) fn new(model: String, prefix_cache: bool, prices: PriceList) -> Self {
        Report { model, prefix_cache, prices, records: Vec::new() }
    }

    pub(crate) fn add(&mut self, record: Record) {
        self.records.push(record);
    }

    /// What a question cost.
    pub(crate) fn cost(&self, record: &Record) -> Money {
        self.prices.cost(&record.billed())
    }

    fn sum(&self, cost: impl Fn(&Record) -> Money) -> Money {
        self.prices.money(self.records.iter().map(|record| cost(record).amount).sum::<Decimal>())
    }

    /// The cost of all questions as they ran.
    pub(crate) fn total_cost(&self) -> Money {
        self.sum(|record| self.cost(record))
    }

    /// What the same tokens would cost with nothing out of the cache.
    pub(crate) fn cost_without_cache(&self) -> Money {
        self.sum(|record| self.prices.without_cache(&record.billed()))
    }

    pub(crate) fn prompt_tokens(&self) -> usize {
        self.records.iter().map(|record| record.prompt_tokens).sum()
    }

    pub(crate) fn cached_tokens(&self) -> usize {
        self.records.iter().map(|record| record.cached_tokens).sum()
    }

    pub(crate) fn first_ttft(&self) -> Option<Duration> {
        self.records.first().map(|record| record.ttft)
    }

    /// The median TTFT of every question but the first.
    pub(crate) fn later_ttft(&self) -> Option<Duration> {
        let mut times: Vec<_> = self.records.iter().skip(1).map(|record| record.ttft).collect();
        times.sort();
        let middle = times.len() / 2;
        match times.len() {
            0 => None,
            n if n % 2 == 1 => Some(times[middle]),
            _ => Some((times[middle - 1] + times[middle]) / 2),
        }
    }

    /// The whole as data.
    pub(crate) fn json(&self) -> Value {
        let questions: Vec<_> = self
            .records
            .iter()
            .map(|record| {
                json!({
                    "question": record.question,
                    "answer": record.answer,
                    "finish_reason": record.finish.as_str(),
                    "prompt_tokens": record.prompt_tokens,
                    "cached_tokens": record.cached_tokens,
                    "cache_stop": record.stop.to_string(),
                    "ttft_seconds": record.ttft.as_secs_f64(),
                    "answer_tokens": record.answer_tokens,
                    "answer_seconds": record.decode.as_secs_f64(),
                    "cost": self.cost(record).amount,
                })
            })
            .collect();
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        json!({
            "model": self.model,
            "prefix_cache": self.prefix_cache,
            "questions": questions,
            "summary": {
                "questions": self.records.len(),
                "prompt_tokens": self.prompt_tokens(),
                "cached_tokens": self.cached_tokens(),
                "first_ttft_seconds": seconds(self.first_ttft()),
                "median_later_ttft_seconds": seconds(self.later_ttft()),
                "currency": self.total_cost().currency,
                "cost": self.total_cost().amount,
                "cost_without_cache": self.cost_without_cache().amount,
                "price_list": self.prices.name,
                "measured": ["prompt_tokens", "cached_tokens", "answer_tokens", "ttft_seconds", "answer_seconds",
                    "first_ttft_seconds", "median_later_ttft_seconds"],
                "estimated": ["cost", "cost_without_cache"],
            },
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A session of three questions about a file of 1,000 tokens.
    pub(crate) fn report() -> Report {
        let mut report = Report::new("gemma-3-270m".into(), true, PriceList::example());
        for (at, (cached, ttft)) in [(0, 2000), (1008, 50), (1008, 70)].into_iter().enumerate() {
            report.add(Record {
                question: format!("Question {at}?"),
                answer: "It is so.".into(),
                prompt_tokens: 1020,
                cached_tokens: cached,
                written_tokens: 0,
                answer_tokens: 5,
                ttft: Duration::from_millis(ttft),
                decode: Duration::from_millis(100),
                finish: FinishReason::Stop,
                stop: if cached == 0 {
                    ReuseStop::NeverSeen
                } else {
                    ReuseStop::Difference { token: 1010 }
                },
            });
        }
        report
    }

    #[test]
    fn sums_and_medians() {
        let report = report();
        assert_eq!(report.first_ttft(), Some(Duration::from_secs(2)));
        assert_eq!(report.later_ttft(), Some(Duration::from_millis(60)));
        assert_eq!(report.records[0].rate(), Some(40.0));
        // 3 x (1,020 x 100 + 5 x 400) millionths, and 2 x 1,008 x 80 less with the cache.
        assert_eq!(report.cost_without_cache().amount.to_string(), "0.312");
        assert_eq!(report.total_cost().amount.to_string(), "0.15072");
    }

    #[test]
    fn the_data() {
        insta::assert_json_snapshot!(report().json());
    }

    #[test]
    fn a_session_without_answers() {
        let report = Report::new("m".into(), true, PriceList::example());
        assert_eq!((report.first_ttft(), report.later_ttft()), (None, None));
        assert_eq!(report.json()["summary"]["cost"], "0");
    }
}
