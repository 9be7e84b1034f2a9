//! What keeping a start would have cost over the calls that were made, exactly: each way replayed over their gaps.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rust_decimal::Decimal;

use crate::cost::breakeven::{break_even, touch_after};
use crate::cost::unhelpful::span;
use crate::prices::{Lifetime, PriceList, Rates, Tier};

/// A way to keep a start, or not to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// No marker: every call computes it.
    Nothing,
    /// A marker: it is written once, and stays this long after its last use.
    Kept(Lifetime),
    /// A marker, and a touch whenever the start is about to be forgotten, so many times at most.
    Touched {
        /// The marker's lifetime.
        lifetime: Lifetime,
        /// After the last use or touch.
        every: Duration,
        /// How many touches after a use. What more would cost than writing it again.
        most: u64,
    },
}

impl Policy {
    /// A stable name: `nothing`, `5m`, `5m_touched`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Policy::Nothing => "nothing".to_owned(),
            Policy::Kept(lifetime) => lifetime.to_string(),
            Policy::Touched { lifetime, .. } => format!("{lifetime}_touched"),
        }
    }

    /// The ways that a list has prices for, the simplest first. Where writes have no price, starts are kept without
    /// being asked, for a time that nobody promises: each lifetime is a way, at the price of computing.
    #[must_use]
    pub fn all(list: &PriceList) -> Vec<Policy> {
        let rates = list.rates(Tier::Standard, 0);
        let mut all = vec![Policy::Nothing];
        if rates.writes.is_empty() {
            all.extend(Lifetime::ALL.map(Policy::Kept));
            return all;
        }
        all.extend(rates.writes.keys().copied().map(Policy::Kept));
        for one in break_even(rates) {
            if let (Some(lifetime), Some(most @ 1..)) = (one.lifetime, one.touches) {
                all.push(Policy::Touched { lifetime, every: touch_after(lifetime), most });
            }
        }
        all
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Nothing => f.write_str("no marker"),
            Policy::Kept(lifetime) => write!(f, "a marker kept for {lifetime}"),
            Policy::Touched { lifetime, every, most } => write!(
                f,
                "a marker kept for {lifetime}, touched every {} up to {most} times",
                span(*every)
            ),
        }
    }
}

/// A use of a start by a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// When the call began.
    pub at: Timestamp,
    /// From then to its first token: what it wrote can be read afterwards.
    pub ready: Duration,
    /// Whether the provider would cache it at all: long enough.
    pub cacheable: bool,
    /// Which of the list's rates hold for its prompt's length: an index chosen by the caller.
    pub rates: usize,
}

/// How often a start was computed, written, read and touched, by the rates that held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Computed and not written.
    pub computed: u64,
    /// Computed and written.
    pub written: u64,
    /// Read.
    pub read: u64,
    /// Read only to keep it.
    pub touched: u64,
}

impl Counts {
    /// What it costs for a million tokens at these rates.
    #[must_use]
    pub fn million(&self, rates: &Rates, policy: Policy) -> Decimal {
        let lifetime = match policy {
            Policy::Nothing => None,
            Policy::Kept(lifetime) | Policy::Touched { lifetime, .. } => Some(lifetime),
        };
        Decimal::from(self.computed) * rates.input
            + Decimal::from(self.written) * rates.write(lifetime)
            + Decimal::from(self.read + self.touched) * rates.cached()
    }
}

/// Replays a way over uses in the order of their time. `kinds` is how many rates there are.
///
/// A start that is still being written when the next call begins is written again. After the last use a touched one
/// is touched on, since nobody knows that it was the last.
#[must_use]
pub fn replay(uses: &[Use], policy: Policy, kinds: usize) -> Vec<Counts> {
    let mut counts = vec![Counts::default(); kinds.max(1)];
    let mut last: Option<Kept> = None;
    for one in uses {
        let Some(count) = counts.get_mut(one.rates) else { continue };
        let keeps = policy != Policy::Nothing && one.cacheable;
        if !keeps {
            count.computed += 1;
            continue;
        }
        let alive = match last {
            None => false,
            Some(kept) => {
                let gap = gap(kept.at, one.at);
                let (touches, alive) = kept_over(policy, gap);
                if let Some(count) = counts.get_mut(kept.rates) {
                    count.touched += touches;
                }
                alive && one.at >= kept.readable
            }
        };
        let Some(count) = counts.get_mut(one.rates) else { continue };
        let readable = if alive {
            count.read += 1;
            one.at
        } else {
            count.written += 1;
            one.at.checked_add(one.ready).unwrap_or(one.at)
        };
        last = Some(Kept { at: one.at, readable, rates: one.rates });
    }
    if let (Some(kept), Policy::Touched { most, .. }) = (last, policy)
        && let Some(count) = counts.get_mut(kept.rates)
    {
        count.touched += most;
    }
    counts
}

#[derive(Clone, Copy)]
struct Kept {
    at: Timestamp,
    readable: Timestamp,
    rates: usize,
}

/// From one call to the next; none where the second is said to have begun first.
pub(crate) fn gap(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// How many touches fall into a gap, and whether the start is there at its end.
fn kept_over(policy: Policy, gap: Duration) -> (u64, bool) {
    match policy {
        Policy::Nothing => (0, false),
        Policy::Kept(lifetime) => (0, gap <= lifetime.duration()),
        Policy::Touched { lifetime, every, most } => {
            let every = every.as_nanos().max(1);
            // A touch that falls on the use itself isn't made.
            let wanted = gap.as_nanos().saturating_sub(1) / every;
            let touches = wanted.min(u128::from(most));
            let end = touches * every + lifetime.duration().as_nanos();
            (u64::try_from(touches).unwrap_or(u64::MAX), gap.as_nanos() <= end)
        }
    }
}

#[cfg(test)]
#[path = "policy/tests.rs"]
mod tests;
