//! How many uses pay for a write, and the longest gap worth keeping a start warm over.

use std::time::Duration;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};

use crate::prices::{Lifetime, Rates};

/// What follows from one lifetime's prices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakEven {
    /// The lifetime; `None` where a cache is kept without being asked, and a write has no price.
    pub lifetime: Option<Lifetime>,
    /// The number of calls with the same start, the writing one included, from which on caching costs no more than
    /// computing each time. `None`: never.
    pub calls: Option<u64>,
    /// How many times a start may be touched in vain before writing it again would have been cheaper.
    pub touches: Option<u64>,
    /// How long after its last use a start that is touched whenever it is about to expire is worth keeping.
    pub longest_gap: Option<Duration>,
}

/// A touch must come before the end; a fifth of the lifetime is left for delays.
#[must_use]
pub fn touch_after(lifetime: Lifetime) -> Duration {
    lifetime.duration() * 4 / 5
}

/// What follows from a list's rates, a lifetime each. A start that is not written for money gets one entry, without a
/// lifetime.
#[must_use]
pub fn break_even(rates: &Rates) -> Vec<BreakEven> {
    if rates.writes.is_empty() {
        return vec![BreakEven {
            lifetime: None,
            calls: calls_to_pay(rates, rates.input),
            touches: None,
            longest_gap: None,
        }];
    }
    let of = |(lifetime, write): (&Lifetime, &Decimal)| {
        let touches = touches(rates, *write);
        let longest_gap = touches.map(|_| longest_gap(rates, *write, touch_after(*lifetime)));
        BreakEven {
            lifetime: Some(*lifetime),
            calls: calls_to_pay(rates, *write),
            touches,
            longest_gap: longest_gap.flatten(),
        }
    };
    rates.writes.iter().map(of).collect()
}

/// The smallest n with W + (n - 1) R <= n I: one write and n - 1 reads against n times computed.
fn calls_to_pay(rates: &Rates, write: Decimal) -> Option<u64> {
    let (read, gain) = (rates.cached(), rates.input - rates.cached());
    if gain <= Decimal::ZERO {
        return None;
    }
    let calls = (write - read) / gain;
    calls.round_dp_with_strategy(0, RoundingStrategy::AwayFromZero).to_u64().map(|n| n.max(1))
}

/// Each touch costs a read, and so does the use at the end: n + 1 reads against one write.
fn touches(rates: &Rates, write: Decimal) -> Option<u64> {
    let read = rates.cached();
    // Reads for nothing could go on for ever; nobody sells them.
    if read.is_zero() {
        return None;
    }
    (write / read - Decimal::ONE).floor().to_u64()
}

/// I_max = tau (W / R - 1), where tau is the time between touches (Khailo, arXiv 2607.19214).
fn longest_gap(rates: &Rates, write: Decimal, tau: Duration) -> Option<Duration> {
    let factor = write / rates.cached() - Decimal::ONE;
    let seconds = Decimal::from(tau.as_secs()) * factor;
    seconds.trunc().to_u64().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::prices::PriceList;

    /// Rates by multiples of the input's price, in thousandths.
    fn rates(cached: i64, writes: &[(Lifetime, i64)]) -> Rates {
        Rates {
            input: Decimal::from(3),
            cached_input: Some(Decimal::new(3 * cached, 3)),
            output: Decimal::from(15),
            writes: writes.iter().map(|(l, w)| (*l, Decimal::new(3 * w, 3))).collect(),
        }
    }

    #[test]
    fn two_calls_pay_for_5_minutes_and_three_for_an_hour() {
        let rates = rates(100, &[(Lifetime::FiveMinutes, 1250), (Lifetime::Hour, 2000)]);
        let found = break_even(&rates);
        assert_eq!(found.iter().map(|b| b.calls).collect::<Vec<_>>(), [Some(2), Some(3)]);
        // 11 touches and the use: 1.2 against 1.25.
        assert_eq!(found[0].touches, Some(11));
    }

    #[test]
    fn gaps_as_in_the_paper() {
        // tau 240 s: 46 minutes at 0.1, 96 at 0.05, 196 at 0.025.
        let minutes = |cached| {
            let rates = rates(cached, &[(Lifetime::FiveMinutes, 1250)]);
            break_even(&rates)[0].longest_gap.map(|gap| gap.as_secs() / 60)
        };
        assert_eq!([minutes(100), minutes(50), minutes(25)], [Some(46), Some(96), Some(196)]);
    }

    #[test]
    fn without_a_price_for_writes_the_first_call_pays() {
        let list = PriceList::example();
        let found = break_even(list.rates(crate::prices::Tier::Standard, 0));
        assert_eq!((found[0].lifetime, found[0].calls), (None, Some(1)));
    }

    #[test]
    fn what_saves_nothing_never_pays() {
        assert_eq!(break_even(&rates(1000, &[(Lifetime::FiveMinutes, 1250)]))[0].calls, None);
        let free = Rates { cached_input: None, ..rates(0, &[]) };
        assert_eq!(break_even(&free)[0].calls, None);
        assert_eq!(break_even(&rates(0, &[(Lifetime::Hour, 2000)]))[0].touches, None);
    }

    proptest! {
        #[test]
        fn as_by_counting(cached in 1i64..999, write in 1000i64..4000) {
            let rates = rates(cached, &[(Lifetime::FiveMinutes, write)]);
            let found = &break_even(&rates)[0];
            let counted = (1i64..5000).find(|n| write + (n - 1) * cached <= n * 1000);
            prop_assert_eq!(found.calls, counted.and_then(|n| u64::try_from(n).ok()));
            let touched = (0i64..5000).take_while(|n| (n + 1) * cached <= write).last();
            prop_assert_eq!(found.touches, touched.and_then(|n| u64::try_from(n).ok()));
        }
    }

    #[test]
    fn nothing_is_written_for_nothing() {
        let none: BTreeMap<Lifetime, Decimal> = BTreeMap::new();
        assert!(break_even(&Rates { writes: none, ..rates(100, &[]) })[0].touches.is_none());
    }
}
