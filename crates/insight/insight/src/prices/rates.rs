//! What a million tokens of each class cost.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// How long a provider keeps what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lifetime {
    /// 5 minutes after the last use.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// 30 minutes after the last use.
    #[serde(rename = "30m")]
    HalfHour,
    /// An hour after the last use.
    #[serde(rename = "1h")]
    Hour,
    /// 12 hours after the last use.
    #[serde(rename = "12h")]
    TwelveHours,
}

impl Lifetime {
    /// Every lifetime, the shortest first.
    pub const ALL: [Self; 4] = [Self::FiveMinutes, Self::HalfHour, Self::Hour, Self::TwelveHours];

    /// The stable name: `5m`, `30m`, `1h`, `12h`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::HalfHour => "30m",
            Self::Hour => "1h",
            Self::TwelveHours => "12h",
        }
    }

    /// As a length of time.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::FiveMinutes => 300,
            Self::HalfHour => 1800,
            Self::Hour => 3600,
            Self::TwelveHours => 43_200,
        })
    }
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that names no lifetime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no lifetime of a cache; there are 5m, 30m, 1h and 12h")]
pub struct UnknownLifetime(pub String);

impl FromStr for Lifetime {
    type Err = UnknownLifetime;

    fn from_str(text: &str) -> Result<Self, UnknownLifetime> {
        Self::ALL
            .into_iter()
            .find(|lifetime| lifetime.as_str() == text)
            .ok_or_else(|| UnknownLifetime(text.to_owned()))
    }
}

/// What a million tokens of each class cost. None is negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rates {
    /// Prompt tokens that were computed.
    pub input: Decimal,
    /// Prompt tokens from the cache; `None` where there is no price for them: they cost as much as computed ones.
    pub cached_input: Option<Decimal>,
    /// Tokens of the answer.
    pub output: Decimal,
    /// Prompt tokens that are written to the cache, in all and not on top of `input`. Empty where a write costs
    /// nothing beyond computing.
    pub writes: BTreeMap<Lifetime, Decimal>,
}

impl Rates {
    /// A million tokens from the cache.
    #[must_use]
    pub fn cached(&self) -> Decimal {
        self.cached_input.unwrap_or(self.input)
    }

    /// A million tokens written for this lifetime, or for the shortest one there is. Where that lifetime has no
    /// price: the next longer one's, else the longest one's.
    #[must_use]
    pub fn write(&self, lifetime: Option<Lifetime>) -> Decimal {
        let wanted = lifetime.unwrap_or(Lifetime::FiveMinutes);
        self.writes
            .range(wanted..)
            .next()
            .or_else(|| self.writes.last_key_value())
            .map_or(self.input, |(_, price)| *price)
    }

    /// Fills what is missing from rates of the same model: a multiplier of the input's price is taken to hold here
    /// as well, as providers document for writes and for long prompts.
    pub(crate) fn fill_from(&mut self, base: &Rates, cached_too: bool) {
        let scaled = |price: Decimal| {
            if base.input.is_zero() { price } else { (price * self.input / base.input).normalize() }
        };
        let writes: Vec<_> =
            base.writes.iter().map(|(lifetime, price)| (*lifetime, scaled(*price))).collect();
        let cached = base.cached_input.map(scaled);
        for (lifetime, price) in writes {
            self.writes.entry(lifetime).or_insert(price);
        }
        if cached_too {
            self.cached_input = self.cached_input.or(cached);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_without_its_own_price() {
        let mut rates = Rates {
            input: Decimal::from(4),
            cached_input: None,
            output: Decimal::from(20),
            writes: BTreeMap::new(),
        };
        assert_eq!(rates.write(Some(Lifetime::Hour)), Decimal::from(4));
        assert_eq!(rates.cached(), Decimal::from(4));
        rates.writes = BTreeMap::from([
            (Lifetime::HalfHour, Decimal::from(5)),
            (Lifetime::TwelveHours, Decimal::TEN),
        ]);
        assert_eq!(rates.write(None), Decimal::from(5));
        assert_eq!(rates.write(Some(Lifetime::FiveMinutes)), Decimal::from(5));
        assert_eq!(rates.write(Some(Lifetime::Hour)), Decimal::TEN);
        rates.writes.remove(&Lifetime::TwelveHours);
        assert_eq!(rates.write(Some(Lifetime::Hour)), Decimal::from(5));
    }

    #[test]
    fn multipliers_stack() {
        let base = Rates {
            input: Decimal::from(4),
            cached_input: Some(Decimal::new(4, 1)),
            output: Decimal::from(20),
            writes: BTreeMap::from([(Lifetime::Hour, Decimal::from(8))]),
        };
        let mut batch = Rates {
            input: Decimal::from(2),
            cached_input: None,
            writes: BTreeMap::new(),
            ..base.clone()
        };
        batch.fill_from(&base, false);
        assert_eq!(batch.write(Some(Lifetime::Hour)), Decimal::from(4));
        assert_eq!(batch.cached_input, None);
        batch.fill_from(&base, true);
        assert_eq!(batch.cached_input, Some(Decimal::new(2, 1)));
    }

    #[test]
    fn lifetimes_come_back() {
        for lifetime in Lifetime::ALL {
            assert_eq!(lifetime.as_str().parse(), Ok(lifetime));
            assert_eq!(serde_json::json!(lifetime), lifetime.as_str());
        }
        assert!("2h".parse::<Lifetime>().is_err());
        assert!(Lifetime::ALL.windows(2).all(|two| two[0].duration() < two[1].duration()));
    }
}
