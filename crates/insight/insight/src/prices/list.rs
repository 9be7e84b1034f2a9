//! One model's prices.

use std::collections::BTreeMap;

use jiff::civil::Date;
use rust_decimal::Decimal;
use tapri_ledger::Money;

use crate::prices::{Billed, Rates, Tier};

/// Counts above this are no counts: a log's nonsense. They are taken as this, so that sums stay exact.
const MOST_TOKENS: u64 = 1_000_000_000_000_000;

/// What one model's tokens cost. [`file`](crate::prices::file) has its written form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList {
    /// The list's name, shown beside every estimate: `example`, `bundled`.
    pub name: String,
    /// The model, where the list comes from a book.
    pub model: Option<String>,
    /// Who sells it.
    pub provider: Option<String>,
    /// Of what: `Rs`, `USD`.
    pub currency: String,
    /// The day these prices were seen.
    pub date: Option<Date>,
    /// Where they were seen.
    pub source: Option<String>,
    /// The shortest prompt that the provider caches, in tokens.
    pub minimum: Option<u64>,
    /// The rates by tier; the standard ones are always there.
    pub(crate) sheets: BTreeMap<Tier, Sheet>,
}

/// One tier's rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sheet {
    pub(crate) base: Rates,
    /// For prompts of more than so many tokens, these rates for the whole request. Ascending.
    pub(crate) long: BTreeMap<u64, Rates>,
}

/// A bill by class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// For computing prompt tokens.
    pub uncached: Decimal,
    /// For reading the cache.
    pub cached: Decimal,
    /// For computing and writing to the cache.
    pub written: Decimal,
    /// For the answer.
    pub answer: Decimal,
}

impl Split {
    /// For the prompt.
    #[must_use]
    pub fn prompt(&self) -> Decimal {
        self.uncached + self.cached + self.written
    }

    /// For all of it.
    #[must_use]
    pub fn total(&self) -> Decimal {
        self.prompt() + self.answer
    }
}

impl PriceList {
    /// The built-in example: Rs 100 for a million prompt tokens, 20 from the cache, 400 for the answer's. No
    /// provider's prices, but of the usual proportions.
    #[must_use]
    pub fn example() -> Self {
        let base = Rates {
            input: Decimal::from(100),
            cached_input: Some(Decimal::from(20)),
            output: Decimal::from(400),
            writes: BTreeMap::new(),
        };
        PriceList {
            name: "example".to_owned(),
            model: None,
            provider: None,
            currency: "Rs".to_owned(),
            date: None,
            source: None,
            minimum: None,
            sheets: BTreeMap::from([(Tier::Standard, Sheet { base, long: BTreeMap::new() })]),
        }
    }

    /// Whether the list has prices for a tier.
    #[must_use]
    pub fn has(&self, tier: Tier) -> bool {
        self.sheets.contains_key(&tier)
    }

    /// The rates for a request with so many prompt tokens; the standard ones where the tier has none of its own.
    #[must_use]
    pub fn rates(&self, tier: Tier, prompt: u64) -> &Rates {
        let sheet = self.sheets.get(&tier).unwrap_or_else(|| &self.sheets[&Tier::Standard]);
        // "Above 200k" begins with the token after.
        sheet.long.range(..prompt).next_back().map_or(&sheet.base, |(_, rates)| rates)
    }

    /// The prompt lengths above which a tier's rates change.
    #[must_use]
    pub fn thresholds(&self, tier: Tier) -> Vec<u64> {
        self.sheets.get(&tier).map_or_else(Vec::new, |sheet| sheet.long.keys().copied().collect())
    }

    /// What a call costs, by class.
    #[must_use]
    pub fn split(&self, call: &Billed) -> Split {
        let rates = self.rates(call.tier, call.prompt());
        let written = call.written.classes().into_iter().map(|(lifetime, tokens)| {
            price(tokens, if tokens == 0 { Decimal::ZERO } else { rates.write(lifetime) })
        });
        Split {
            uncached: price(call.uncached, rates.input),
            cached: price(call.cached, rates.cached()),
            written: written.sum(),
            answer: price(call.answer, rates.output),
        }
    }

    /// What a call costs.
    #[must_use]
    pub fn cost(&self, call: &Billed) -> Money {
        self.money(self.split(call).total())
    }

    /// What the same call costs with nothing out of a cache and nothing written to one.
    #[must_use]
    pub fn without_cache(&self, call: &Billed) -> Money {
        self.cost(&Billed {
            uncached: call.prompt(),
            answer: call.answer,
            tier: call.tier,
            ..Billed::default()
        })
    }

    /// An amount in this list's currency.
    #[must_use]
    pub fn money(&self, amount: Decimal) -> Money {
        Money::new(amount, self.currency.clone())
    }

    /// The list's date as text: `2026-11-30`.
    #[must_use]
    pub fn date_text(&self) -> Option<String> {
        self.date.map(|date| date.to_string())
    }
}

fn price(tokens: u64, million: Decimal) -> Decimal {
    Decimal::from(tokens.min(MOST_TOKENS)) * million / Decimal::from(1_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prices::{Lifetime, Written};

    fn usd() -> PriceList {
        let base = Rates {
            input: Decimal::from(3),
            cached_input: Some(Decimal::new(3, 1)),
            output: Decimal::from(15),
            writes: BTreeMap::from([
                (Lifetime::FiveMinutes, Decimal::new(375, 2)),
                (Lifetime::Hour, Decimal::from(6)),
            ]),
        };
        let long = Rates {
            input: Decimal::from(6),
            cached_input: Some(Decimal::new(6, 1)),
            output: Decimal::new(225, 1),
            writes: BTreeMap::from([(Lifetime::FiveMinutes, Decimal::new(75, 1))]),
        };
        let sheet = Sheet { base, long: BTreeMap::from([(200_000, long)]) };
        PriceList {
            name: "n".into(),
            currency: "USD".into(),
            sheets: BTreeMap::from([(Tier::Standard, sheet)]),
            ..PriceList::example()
        }
    }

    #[test]
    fn the_lawyer() {
        // 32,000 tokens of a file, questions of 200, answers of 500, 20 calls; the first reads the file.
        let list = PriceList::example();
        let first = Billed { uncached: 32_200, answer: 500, ..Billed::default() };
        let later = Billed { uncached: 200, cached: 32_000, answer: 500, ..Billed::default() };
        let without = list.without_cache(&later).amount * Decimal::from(20);
        let with = list.cost(&first).amount + list.cost(&later).amount * Decimal::from(19);
        assert_eq!((without, with), (Decimal::new(6840, 2), Decimal::new(1976, 2)));
    }

    #[test]
    fn every_class_has_its_price() {
        let written = Written { five_minutes: 1_000, hour: 2_000, ..Written::default() };
        let call = Billed {
            uncached: 10_000,
            cached: 100_000,
            written,
            answer: 400,
            tier: Tier::Standard,
        };
        let split = usd().split(&call);
        assert_eq!(split.uncached, Decimal::new(3, 2));
        assert_eq!(split.cached, Decimal::new(3, 2));
        assert_eq!(split.written, Decimal::new(375, 5) + Decimal::new(12, 3));
        assert_eq!(split.answer, Decimal::new(6, 3));
        assert_eq!(usd().cost(&call).to_string(), "USD 0.0818");
        assert_eq!(usd().without_cache(&call).to_string(), "USD 0.3450");
    }

    #[test]
    fn a_long_prompt_costs_more_from_its_first_token() {
        let at = |uncached| usd().cost(&Billed { uncached, ..Billed::default() }).amount;
        assert_eq!(at(200_000), Decimal::new(6, 1));
        assert_eq!(at(200_001), Decimal::new(1_200_006, 6));
        assert_eq!(usd().thresholds(Tier::Standard), [200_000]);
        // Cached and written tokens count as well.
        let half = Billed { uncached: 100_000, cached: 100_001, ..Billed::default() };
        assert_eq!(usd().split(&half).uncached, Decimal::new(6, 1));
    }

    #[test]
    fn nonsense_counts_do_not_overflow() {
        let most = Billed {
            uncached: u64::MAX,
            cached: u64::MAX,
            written: Written { unsaid: u64::MAX, hour: u64::MAX, ..Written::default() },
            answer: u64::MAX,
            tier: Tier::Batch,
        };
        assert!(usd().cost(&most).amount > Decimal::ZERO);
    }

    proptest! {
        #[test]
        fn a_bill_is_the_sum_of_its_tokens(
            uncached in 0u64..90_000, cached in 0u64..90_000, hour in 0u64..9_000, answer in 0u64..90_000,
        ) {
            let call = Billed { uncached, cached, written: Written::of(Lifetime::Hour, hour), answer, tier: Tier::Standard };
            let list = usd();
            // In hundred-millionths of a dollar, by whole numbers alone.
            let by_hand = u128::from(uncached) * 300 + u128::from(cached) * 30 + u128::from(hour) * 600
                + u128::from(answer) * 1_500;
            prop_assert_eq!(list.cost(&call).amount * Decimal::from(100_000_000), Decimal::from(by_hand));
            prop_assert!(list.cost(&call).amount >= Decimal::ZERO);
        }
    }
}
