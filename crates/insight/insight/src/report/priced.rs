//! What a call cost, and what it would have cost.

use rust_decimal::Decimal;
use tapri_ledger::{Cost, Money};

use super::Observation;
use crate::prices::{Billed, PriceList, Written};

/// What a call cost, an estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    /// With what the cache gave.
    pub paid: Money,
    /// The same tokens with nothing read from a cache or written to one.
    pub without_cache: Money,
    /// What the uncached part of the prompt cost above reading it from the cache, where the price list tells.
    pub missed: Option<Money>,
    /// The list it was estimated with.
    pub list: PriceTag,
}

/// A price list's name and date.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PriceTag {
    /// Its name.
    pub name: String,
    /// Its date.
    pub date: Option<String>,
}

impl Priced {
    /// Prices a call; `None` where its tokens aren't known.
    #[must_use]
    pub fn with(list: &PriceList, call: &Observation) -> Option<Priced> {
        let (prompt, cached) = (call.prompt?, call.cached?);
        let written = call.written.unwrap_or(0);
        let long = call.written_long.unwrap_or(0).min(written);
        let billed = Billed {
            uncached: prompt.saturating_sub(cached).saturating_sub(written),
            cached,
            // Only Anthropic's and OpenAI's longer lifetimes are told apart; both lists call theirs the long one.
            written: Written { unsaid: written - long, hour: long, ..Written::default() },
            answer: call.answer.unwrap_or(0),
            ..Billed::default()
        };
        let all_cached = Billed { cached: prompt, answer: billed.answer, ..Billed::default() };
        let paid = list.cost(&billed);
        let missed = (paid.amount - list.cost(&all_cached).amount).max(Decimal::ZERO);
        Some(Priced {
            missed: Some(list.money(missed)),
            without_cache: list.without_cache(&billed),
            paid,
            list: PriceTag { name: list.name.clone(), date: list.date_text() },
        })
    }
}

impl From<Cost> for Priced {
    fn from(cost: Cost) -> Self {
        Priced {
            paid: cost.paid,
            without_cache: cost.without_cache,
            missed: None,
            list: PriceTag { name: cost.price_list, date: cost.price_date },
        }
    }
}

impl std::fmt::Display for PriceTag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.date {
            Some(date) => write!(f, "{} of {date}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_lawyer() {
        let call = |cached| Observation {
            prompt: Some(32_200),
            cached: Some(cached),
            answer: Some(500),
            ..Observation::default()
        };
        let list = PriceList::example();
        let hit = Priced::with(&list, &call(32_000)).unwrap();
        assert_eq!(
            (hit.paid.rounded(2), hit.without_cache.rounded(2)),
            ("Rs 0.86".into(), "Rs 3.42".into())
        );
        let miss = Priced::with(&list, &call(0)).unwrap();
        assert_eq!(
            (miss.paid.rounded(2), miss.missed.unwrap().rounded(3)),
            ("Rs 3.42".into(), "Rs 2.576".into())
        );
        assert_eq!(Priced::with(&list, &Observation::default()), None);
    }
}
