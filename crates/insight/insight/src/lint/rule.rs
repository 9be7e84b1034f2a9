//! The rules, with stable ids.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It may be right so.
    Note,
    /// The cache is used less than it could be.
    Warning,
    /// The cache can't be used, or the provider refuses the request.
    Error,
}

impl Severity {
    /// Its name, the same in SARIF.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A time or date in front of what stays the same.
    VolatileTime,
    /// A UUID, an id, a counter or a random value in front of what stays the same.
    VolatileId,
    /// A user's name or address in the shared part.
    UserText,
    /// Tools in another order, or other tools.
    ToolOrder,
    /// JSON that is written in another order of keys.
    UnsortedJson,
    /// A start below the provider's minimum.
    ShortStart,
    /// Much text behind the last marker.
    AfterLastMarker,
    /// More markers than the provider takes.
    TooManyMarkers,
    /// A marker with a longer lifetime behind one with a shorter.
    MarkerOrder,
    /// More blocks between markers than the provider looks back.
    Lookback,
    /// Text that stays the same behind text that doesn't.
    StableBehindVolatile,
    /// No marker where the provider needs one.
    MarkerMissing,
    /// Instructions or documents that differ between requests without need.
    UnstableStart,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Self; 13] = [
        Self::VolatileTime,
        Self::VolatileId,
        Self::UserText,
        Self::ToolOrder,
        Self::UnsortedJson,
        Self::ShortStart,
        Self::AfterLastMarker,
        Self::TooManyMarkers,
        Self::MarkerOrder,
        Self::Lookback,
        Self::StableBehindVolatile,
        Self::MarkerMissing,
        Self::UnstableStart,
    ];

    /// The stable id.
    #[must_use]
    pub fn id(self) -> &'static str {
        match self {
            Self::VolatileTime => "TPL001",
            Self::VolatileId => "TPL002",
            Self::UserText => "TPL003",
            Self::ToolOrder => "TPL004",
            Self::UnsortedJson => "TPL005",
            Self::ShortStart => "TPL006",
            Self::AfterLastMarker => "TPL007",
            Self::TooManyMarkers => "TPL008",
            Self::MarkerOrder => "TPL009",
            Self::Lookback => "TPL010",
            Self::StableBehindVolatile => "TPL011",
            Self::MarkerMissing => "TPL012",
            Self::UnstableStart => "TPL013",
        }
    }

    /// A stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::VolatileTime => "volatile-time",
            Self::VolatileId => "volatile-id",
            Self::UserText => "user-text",
            Self::ToolOrder => "tool-order",
            Self::UnsortedJson => "unsorted-json",
            Self::ShortStart => "short-start",
            Self::AfterLastMarker => "after-last-marker",
            Self::TooManyMarkers => "too-many-markers",
            Self::MarkerOrder => "marker-order",
            Self::Lookback => "lookback",
            Self::StableBehindVolatile => "stable-behind-volatile",
            Self::MarkerMissing => "marker-missing",
            Self::UnstableStart => "unstable-start",
        }
    }

    /// One sentence.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::VolatileTime => "A time or date stands in front of text that stays the same.",
            Self::VolatileId => {
                "An id, a counter or a random value stands in front of text that stays the same."
            }
            Self::UserText => "A user's name or address stands in the part that users share.",
            Self::ToolOrder => "Tools come in another order, or are others, from call to call.",
            Self::UnsortedJson => "The same JSON is written in another order of keys.",
            Self::ShortStart => "The prompt is shorter than what the provider caches.",
            Self::AfterLastMarker => "Much text stands behind the last marker.",
            Self::TooManyMarkers => "There are more markers than the provider takes.",
            Self::MarkerOrder => "A longer lifetime is marked behind a shorter one.",
            Self::Lookback => "More blocks stand between markers than the provider looks back.",
            Self::StableBehindVolatile => {
                "Text that stays the same stands behind text that doesn't."
            }
            Self::MarkerMissing => "The provider caches only what is marked, and nothing is.",
            Self::UnstableStart => "The start differs from call to call.",
        }
    }

    /// How bad it is, unless a finding says otherwise.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::TooManyMarkers | Self::MarkerOrder => Severity::Error,
            Self::ShortStart | Self::AfterLastMarker => Severity::Note,
            _ => Severity::Warning,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Text that names no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no rule; there are TPL001 (volatile-time) to TPL013 (unstable-start)")]
pub struct UnknownRule(pub String);

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(text: &str) -> Result<Self, UnknownRule> {
        Self::ALL
            .into_iter()
            .find(|rule| rule.id().eq_ignore_ascii_case(text) || rule.name() == text)
            .ok_or_else(|| UnknownRule(text.to_owned()))
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// Where in the file the request stands: `line 3`.
    pub at: String,
    /// The path in the request.
    pub path: String,
    /// The character of the text at that path, from 0.
    pub character: Option<u64>,
    /// What is there.
    pub message: String,
    /// What to do.
    pub suggestion: String,
    /// In how many requests it was seen.
    pub requests: u64,
}

impl Finding {
    /// At a path, with the rule's own severity.
    #[must_use]
    pub fn new(
        rule: Rule,
        path: impl Into<String>,
        message: impl Into<String>,
        suggestion: impl Into<String>,
    ) -> Self {
        Finding {
            rule,
            severity: rule.severity(),
            at: String::new(),
            path: path.into(),
            character: None,
            message: message.into(),
            suggestion: suggestion.into(),
            requests: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_stable_and_come_back() {
        for (number, rule) in (1..).zip(Rule::ALL) {
            assert_eq!(rule.id(), format!("TPL{number:03}"));
            assert_eq!(rule.id().parse(), Ok(rule));
            assert_eq!(rule.name().parse(), Ok(rule));
        }
        assert!("TPL099".parse::<Rule>().is_err());
    }
}
