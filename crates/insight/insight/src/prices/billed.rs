//! What a call used, in the classes that providers bill.

use serde::{Deserialize, Serialize};
use tapri_ledger::TokenCounts;

use crate::prices::Lifetime;

/// Tokens of one call by the class they are billed in. Each token is in one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Billed {
    /// Prompt tokens that were computed, and not written to a cache for money.
    pub uncached: u64,
    /// Prompt tokens that came from the cache.
    pub cached: u64,
    /// Prompt tokens that were computed and written to the cache.
    pub written: Written,
    /// Tokens of the answer.
    pub answer: u64,
    /// The way it was asked.
    pub tier: Tier,
}

/// Tokens written to a cache, by how long they are to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Nobody said for how long: billed as the shortest lifetime that the list has a price for.
    pub unsaid: u64,
    /// For 5 minutes.
    pub five_minutes: u64,
    /// For half an hour.
    pub half_hour: u64,
    /// For an hour.
    pub hour: u64,
    /// For 12 hours.
    pub twelve_hours: u64,
}

/// How a call was asked, where providers have a price for each.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The usual way.
    #[default]
    Standard,
    /// In a batch, answered within hours.
    Batch,
    /// At a lower price and speed.
    Flex,
    /// At a higher price and speed.
    Priority,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 4] = [Self::Standard, Self::Batch, Self::Flex, Self::Priority];

    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Batch => "batch",
            Self::Flex => "flex",
            Self::Priority => "priority",
        }
    }
}

impl Written {
    /// Tokens written for one lifetime.
    #[must_use]
    pub fn of(lifetime: Lifetime, tokens: u64) -> Self {
        let mut written = Written::default();
        *match lifetime {
            Lifetime::FiveMinutes => &mut written.five_minutes,
            Lifetime::HalfHour => &mut written.half_hour,
            Lifetime::Hour => &mut written.hour,
            Lifetime::TwelveHours => &mut written.twelve_hours,
        } = tokens;
        written
    }

    /// Each class with its tokens.
    pub(crate) fn classes(self) -> [(Option<Lifetime>, u64); 5] {
        [
            (None, self.unsaid),
            (Some(Lifetime::FiveMinutes), self.five_minutes),
            (Some(Lifetime::HalfHour), self.half_hour),
            (Some(Lifetime::Hour), self.hour),
            (Some(Lifetime::TwelveHours), self.twelve_hours),
        ]
    }

    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.classes().iter().fold(0, |sum, (_, tokens)| sum.saturating_add(*tokens))
    }
}

impl Billed {
    /// All tokens of the prompt.
    #[must_use]
    pub fn prompt(&self) -> u64 {
        self.uncached.saturating_add(self.cached).saturating_add(self.written.total())
    }

    /// From a record's counts, or `None` where the prompt's length isn't known. Unknown parts count as none; parts
    /// larger than the prompt are cut to it, so that no class is negative. Tokens that another call computed
    /// (`joined`) are billed as cached: an answer's usage counts them as such.
    #[must_use]
    pub fn from_counts(counts: &TokenCounts) -> Option<Self> {
        let prompt = counts.prompt?;
        let cached = counts.reused().unwrap_or(0).min(prompt);
        let unsaid = counts.written.unwrap_or(0).min(prompt - cached);
        Some(Billed {
            uncached: prompt - cached - unsaid,
            cached,
            written: Written { unsaid, ..Written::default() },
            answer: counts.answer.unwrap_or(0),
            tier: Tier::Standard,
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn no_class_is_negative() {
        let counts = TokenCounts {
            prompt: Some(100),
            cached: Some(80),
            written: Some(50),
            answer: None,
            restored: None,
            joined: Some(7),
        };
        let billed = Billed::from_counts(&counts).unwrap();
        assert_eq!((billed.uncached, billed.cached, billed.written.unsaid), (0, 87, 13));
        assert_eq!(billed.prompt(), 100);
        assert_eq!(Billed::from_counts(&TokenCounts::default()), None);
    }
}
