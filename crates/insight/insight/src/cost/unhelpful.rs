//! When caching does not help: an answer like any other.

use std::fmt;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// Why caching would not help, or hardly.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhelpful {
    /// Each document was asked about once: what would be kept is never read.
    OneQuestion,
    /// The start is shorter than what the provider caches.
    ShortPrompt {
        /// Tokens of the start.
        tokens: u64,
        /// The provider's minimum.
        minimum: u64,
    },
    /// Calls with the same start come after it was forgotten.
    LongGaps {
        /// Between two calls: the usual one.
        gap: Duration,
        /// How long a start is kept.
        lifetime: Duration,
    },
    /// The top of the prompt is new each time, in front of text that is not.
    ChangingTop,
    /// Answers make the bill; prompts are a small part of it.
    LongAnswers {
        /// What caching could save at most, in percent.
        most: u32,
    },
    /// No two calls begin alike.
    UnsharedStarts,
    /// A token from the cache costs as much as a computed one.
    NoDiscount,
}

impl Unhelpful {
    /// A stable name.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::OneQuestion => "one_question",
            Self::ShortPrompt { .. } => "short_prompt",
            Self::LongGaps { .. } => "long_gaps",
            Self::ChangingTop => "changing_top",
            Self::LongAnswers { .. } => "long_answers",
            Self::UnsharedStarts => "unshared_starts",
            Self::NoDiscount => "no_discount",
        }
    }
}

impl Serialize for Unhelpful {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for Unhelpful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneQuestion => {
                write!(f, "one question to a document: what would be kept is never read again")
            }
            Self::ShortPrompt { tokens, minimum } => write!(
                f,
                "a short prompt: the start has {tokens} tokens, and the provider caches from {minimum} on"
            ),
            Self::LongGaps { gap, lifetime } => write!(
                f,
                "long gaps: calls come {} apart, and a start is kept for {}",
                span(*gap),
                span(*lifetime)
            ),
            Self::ChangingTop => write!(
                f,
                "a changing top: text that is the same each time stands behind text that is not; move it to the front"
            ),
            Self::LongAnswers { most } => write!(
                f,
                "long answers: they make the bill, and caching could save {most} percent of it at most"
            ),
            Self::UnsharedStarts => {
                write!(f, "unshared starts: no two prompts begin with the same text")
            }
            Self::NoDiscount => {
                write!(f, "no discount: a token from the cache costs as much as a computed one")
            }
        }
    }
}

/// A length of time in its largest whole unit: `45 s`, `12 min`, `3 h`, `2 d`.
#[must_use]
pub fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}
