//! The estimate of a plan: so many calls with the same start.

use std::time::Duration;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};
use tapri_ledger::Money;

use crate::cost::Unhelpful;
use crate::prices::{Billed, Lifetime, PriceList, Split, Tier, Written};

/// Below this share of the bill, what caching can save is called little.
const LITTLE: Decimal = Decimal::from_parts(1, 0, 0, false, 1);

/// Calls that are to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Tokens that all calls begin with.
    pub prefix: u64,
    /// Tokens of each call's own, behind them.
    pub question: u64,
    /// Tokens of an answer.
    pub answer: u64,
    /// How many calls.
    pub calls: u64,
    /// How they are asked.
    pub tier: Tier,
    /// How long the start is to be kept; without it, the shortest that the price list has.
    pub lifetime: Option<Lifetime>,
    /// From one call to the next; without it, short enough.
    pub gap: Option<Duration>,
}

/// What a plan costs. All of it is an estimate: nothing was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// All calls, each computing its whole prompt.
    pub without: Money,
    /// All calls, with the start cached.
    pub with: Money,
    /// The same by class.
    pub without_split: Split,
    /// The same by class.
    pub with_split: Split,
    /// The first call, with caching.
    pub first: Money,
    /// Any later one, with caching.
    pub later: Money,
    /// Why caching does not help, or hardly.
    pub unhelpful: Vec<Unhelpful>,
}

impl Plan {
    /// Calls in the usual way, one soon after the other.
    #[must_use]
    pub fn new(prefix: u64, question: u64, answer: u64, calls: u64) -> Self {
        Plan { prefix, question, answer, calls, tier: Tier::Standard, lifetime: None, gap: None }
    }

    /// Tokens of a call's prompt.
    #[must_use]
    pub fn prompt(&self) -> u64 {
        self.prefix.saturating_add(self.question)
    }
}

impl Estimate {
    /// How much less it costs with caching, in percent, rounded; negative where it costs more.
    #[must_use]
    pub fn percent_less(&self) -> i64 {
        percent(self.without.amount - self.with.amount, self.without.amount)
    }

    /// Which part of the bill without caching is for reading the prompt, in percent, rounded.
    #[must_use]
    pub fn percent_reading(&self) -> i64 {
        percent(self.without_split.prompt(), self.without.amount)
    }
}

/// A part of a whole in percent, halves away from zero.
fn percent(part: Decimal, whole: Decimal) -> i64 {
    if whole.is_zero() {
        return 0;
    }
    let share = part * Decimal::ONE_HUNDRED / whole;
    let share = share.round_dp_with_strategy(0, RoundingStrategy::MidpointAwayFromZero);
    share.to_i64().unwrap_or(0)
}

/// The lifetime among those with a price that a plan costs least with, and that estimate.
#[must_use]
pub fn best_lifetime(list: &PriceList, plan: &Plan) -> Option<(Lifetime, Estimate)> {
    let priced = list.rates(plan.tier, plan.prompt()).writes.keys();
    priced
        .map(|lifetime| (*lifetime, estimate(list, &Plan { lifetime: Some(*lifetime), ..*plan })))
        .min_by(|a, b| a.1.with.amount.cmp(&b.1.with.amount))
}

/// Estimates a plan. The first call computes the start, and writes it where the list has a price for that; each
/// later one reads it from the cache, unless it comes too late.
#[must_use]
pub fn estimate(list: &PriceList, plan: &Plan) -> Estimate {
    let rates = list.rates(plan.tier, plan.prompt());
    let cold = Billed {
        uncached: plan.prompt(),
        answer: plan.answer,
        tier: plan.tier,
        ..Billed::default()
    };
    let lifetime = kept_for(list, plan);
    let short = list.minimum.filter(|minimum| plan.prefix < *minimum);
    let late = plan.gap.filter(|gap| *gap > lifetime);
    let written = match plan.lifetime {
        Some(lifetime) => Written::of(lifetime, plan.prefix),
        None => Written { unsaid: plan.prefix, ..Written::default() },
    };
    let first =
        if short.is_some() { cold } else { Billed { uncached: plan.question, written, ..cold } };
    let later = if short.is_some() || late.is_some() {
        first
    } else {
        Billed { uncached: plan.question, cached: plan.prefix, ..cold }
    };
    let (cold, once, again) = (list.split(&cold), list.split(&first), list.split(&later));
    let calls = Decimal::from(plan.calls);
    let without_split = times(&cold, calls);
    let others = Decimal::from(plan.calls.saturating_sub(1));
    let with_split = sum(&times(&once, calls.min(Decimal::ONE)), &times(&again, others));

    let mut unhelpful = Vec::new();
    if plan.calls == 1 {
        unhelpful.push(Unhelpful::OneQuestion);
    }
    if let Some(minimum) = short {
        unhelpful.push(Unhelpful::ShortPrompt { tokens: plan.prefix, minimum });
    }
    if let Some(gap) = late {
        unhelpful.push(Unhelpful::LongGaps { gap, lifetime });
    }
    if plan.prefix == 0 {
        unhelpful.push(Unhelpful::UnsharedStarts);
    }
    if rates.cached() >= rates.input {
        unhelpful.push(Unhelpful::NoDiscount);
    }
    unhelpful.extend(long_answers(&without_split, rates.input, rates.cached()));
    Estimate {
        without: list.money(without_split.total()),
        with: list.money(with_split.total()),
        first: list.money(once.total()),
        later: list.money(again.total()),
        without_split,
        with_split,
        unhelpful,
    }
}

/// How long a start stays: what was asked for, the shortest lifetime that the list has a price for, or 5 minutes,
/// the shortest that hosted services name.
fn kept_for(list: &PriceList, plan: &Plan) -> Duration {
    let priced = list.rates(plan.tier, plan.prompt()).writes.keys().next().copied();
    plan.lifetime.or(priced).unwrap_or(Lifetime::FiveMinutes).duration()
}

/// Whether even a bill whose whole prompt came from the cache would be little smaller.
pub(crate) fn long_answers(bill: &Split, input: Decimal, cached: Decimal) -> Option<Unhelpful> {
    if input.is_zero() || bill.total().is_zero() || bill.prompt().is_zero() {
        return None;
    }
    let most = bill.prompt() * (input - cached) / input;
    let little = most < bill.total() * LITTLE && bill.answer > bill.prompt();
    let most = percent(most, bill.total());
    little.then(|| Unhelpful::LongAnswers { most: u32::try_from(most).unwrap_or(0) })
}

fn times(split: &Split, n: Decimal) -> Split {
    Split {
        uncached: split.uncached * n,
        cached: split.cached * n,
        written: split.written * n,
        answer: split.answer * n,
    }
}

fn sum(a: &Split, b: &Split) -> Split {
    Split {
        uncached: a.uncached + b.uncached,
        cached: a.cached + b.cached,
        written: a.written + b.written,
        answer: a.answer + b.answer,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::prices::{Format, file};

    fn hosted() -> PriceList {
        let text = "name='h'\ncurrency='USD'\ninput=3\ncached_input='0.3'\noutput=15\nminimum=1024\n\
                    write={'5m'='3.75','1h'=6}\nbatch={input='1.5',cached_input='0.15',output='7.5'}\n\
                    long=[{above=200000,input=6,output='22.5'}]\n";
        file::read("h.toml", text, Format::Toml).unwrap().find("any").unwrap().clone()
    }

    #[test]
    fn the_example_of_the_lawyer() {
        let estimate = estimate(&PriceList::example(), &Plan::new(32_000, 200, 500, 20));
        assert_eq!(estimate.without.amount, Decimal::new(6840, 2));
        assert_eq!(estimate.with.amount, Decimal::new(1976, 2));
        assert_eq!((estimate.percent_less(), estimate.percent_reading()), (71, 94));
        assert_eq!(estimate.first.to_string(), "Rs 3.4200");
        assert_eq!(estimate.later.to_string(), "Rs 0.8600");
        assert_eq!(estimate.unhelpful, []);
    }

    #[test]
    fn writes_lifetimes_batches_and_long_prompts() {
        let of = |change: fn(&mut Plan)| {
            let mut plan = Plan::new(100_000, 0, 0, 3);
            change(&mut plan);
            estimate(&hosted(), &plan).with.amount
        };
        // A write at 0.375 and two reads at 0.03.
        assert_eq!(of(|_| {}), Decimal::new(435, 3));
        assert_eq!(of(|plan| plan.lifetime = Some(Lifetime::Hour)), Decimal::new(660, 3));
        assert_eq!(of(|plan| plan.tier = Tier::Batch), Decimal::new(2175, 4));
        assert_eq!(of(|plan| plan.prefix = 300_000), Decimal::new(261, 2));
    }

    #[test]
    fn when_it_does_not_help() {
        let of = |change: fn(&mut Plan)| {
            let mut plan = Plan::new(32_000, 200, 500, 20);
            change(&mut plan);
            let estimate = estimate(&hosted(), &plan);
            (estimate.percent_less(), estimate.unhelpful)
        };
        assert_eq!(of(|_| {}).1, []);
        // One question costs more with a write than without.
        let (less, why) = of(|plan| plan.calls = 1);
        assert!(less < 0, "{less}");
        assert_eq!(why, [Unhelpful::OneQuestion]);
        let (less, why) = of(|plan| plan.prefix = 1000);
        assert_eq!((less, why), (0, vec![Unhelpful::ShortPrompt { tokens: 1000, minimum: 1024 }]));
        let (less, why) = of(|plan| plan.gap = Some(Duration::from_secs(600)));
        assert!(less < 0, "{less}");
        assert!(matches!(why[..], [Unhelpful::LongGaps { .. }]));
        assert_eq!(
            of(|plan| {
                plan.gap = Some(Duration::from_secs(600));
                plan.lifetime = Some(Lifetime::Hour);
            })
            .1,
            []
        );
        let (less, why) = of(|plan| plan.answer = 100_000);
        assert!((0..10).contains(&less), "{less}");
        assert!(matches!(why[..], [Unhelpful::LongAnswers { most: 5 }]), "{why:?}");
        let (_, why) = of(|plan| plan.prefix = 0);
        assert!(why.contains(&Unhelpful::UnsharedStarts));
        let text = "name='n'\ncurrency='USD'\ninput=3\noutput=15\n";
        let list = file::read("n.toml", text, Format::Toml).unwrap().find("m").unwrap().clone();
        let none = estimate(&list, &Plan::new(32_000, 200, 500, 20));
        assert_eq!((none.percent_less(), none.unhelpful), (0, vec![Unhelpful::NoDiscount]));
    }

    #[test]
    fn no_calls_cost_nothing() {
        let none = estimate(&PriceList::example(), &Plan::new(10, 10, 10, 0));
        assert_eq!((none.with.amount, none.percent_less()), (Decimal::ZERO, 0));
    }
}
