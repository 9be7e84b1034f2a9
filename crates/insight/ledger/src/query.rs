//! Which calls are wanted.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::types::Value;

use crate::row::{micros, select_list};
use crate::{CacheOutcome, CallRecord, MissReason};

/// Which calls are wanted, and how. The default is every one, whole, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Begun at this time or later.
    pub since: Option<Timestamp>,
    /// Begun before this time.
    pub until: Option<Timestamp>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Through this door.
    pub route: Option<String>,
    /// Of this model.
    pub model: Option<String>,
    /// Run by this.
    pub upstream: Option<String>,
    /// Of this conversation.
    pub conversation: Option<String>,
    /// Whose id begins with this.
    pub id_prefix: Option<String>,
    /// With this [`CallRecord::outcome`](crate::CallRecord::outcome).
    pub outcome: Option<CacheOutcome>,
    /// Explained by this reason.
    pub reason: Option<MissReason>,
    /// Whose prefix reuse stopped for this, by the cache's own name: `evicted`.
    pub stop: Option<String>,
    /// Explained by this reason, or stopped for it, by its name.
    pub why: Option<String>,
    /// That ended so: `stop`, `length`, `abort`, `error`.
    pub ending: Option<String>,
    /// With at least so many prompt tokens.
    pub min_prompt: Option<u64>,
    /// Whose share of cached prompt tokens is below this, from 0 to 1.
    pub hit_below: Option<f64>,
    /// Whose share of cached prompt tokens is above this, from 0 to 1.
    pub hit_above: Option<f64>,
    /// Which come first. By the time they began; those of one moment, as they were written.
    pub order: Order,
    /// That come after this place in the order.
    pub after: Option<Cursor>,
    /// No more than so many.
    pub limit: Option<u64>,
    /// How much of each.
    pub detail: Detail,
}

/// Which come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The oldest.
    #[default]
    OldestFirst,
    /// The newest.
    NewestFirst,
}

/// A call's place among all calls: its beginning, and of those that began in one moment, when it was written. It keeps
/// its meaning while calls are added and old ones go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(crate) at: i64,
    pub(crate) seq: i64,
}

/// The text is no [`Cursor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no place among calls: take it from a page of them")]
pub struct CursorError;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (at, seq) = text.split_once('.').ok_or(CursorError)?;
        let number = |text: &str| text.parse().map_err(|_| CursorError);
        Ok(Cursor { at: number(at)?, seq: number(seq)? })
    }
}

/// How much of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// All of it.
    #[default]
    Whole,
    /// All but `parts`, `trace` and `text`, which come back empty: faster over many calls.
    Figures,
}

/// As [`TokenCounts::reused`](crate::TokenCounts::reused).
macro_rules! reused {
    () => {
        "coalesce(cached_tokens + joined_tokens, cached_tokens, joined_tokens)"
    };
}

/// A statement and what its question marks stand for.
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
}

impl Filter {
    /// Whether a call is wanted, whatever the order, the place in it and the limit: as the ledger would say of its record.
    #[must_use]
    pub fn matches(&self, record: &CallRecord) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let reason = record.explanation.as_ref().map(|it| it.reason);
        let stop = record.prefix.as_ref().and_then(|it| it.reason.as_deref());
        let (cached, prompt) = (record.tokens.reused(), record.tokens.prompt);
        // An unknown count is neither above nor below, as a NULL is.
        let share = |than: fn(f64, f64) -> bool, wanted: Option<f64>| {
            wanted.is_none_or(|wanted| {
                let (Some(cached), Some(prompt)) = (cached, prompt) else { return false };
                than(cached as f64, wanted * prompt as f64)
            })
        };
        self.since.is_none_or(|since| micros(record.at) >= micros(since))
            && self.until.is_none_or(|until| micros(record.at) < micros(until))
            && is(&self.tenant, Some(&record.tenant))
            && is(&self.route, Some(&record.route))
            && is(&self.model, Some(&record.model))
            && is(&self.upstream, Some(&record.upstream))
            && is(&self.conversation, record.conversation.as_deref())
            && is(&self.stop, stop)
            && is(&self.ending, Some(record.ending.word()))
            && self.id_prefix.as_ref().is_none_or(|prefix| record.id.starts_with(prefix))
            && self.outcome.is_none_or(|outcome| record.outcome() == Some(outcome))
            && self.reason.is_none_or(|wanted| reason == Some(wanted))
            && self.why.as_deref().is_none_or(|why| {
                stop == Some(why) || reason.is_some_and(|reason| reason.as_str() == why)
            })
            && self.min_prompt.is_none_or(|least| prompt.is_some_and(|prompt| prompt >= least))
            && share(|cached, bound| cached < bound, self.hit_below)
            && share(|cached, bound| cached > bound, self.hit_above)
    }

    pub(crate) fn sql(&self) -> Sql {
        let mut wheres = Vec::new();
        let mut values = Vec::new();
        // A condition has a question mark, or several for the same value.
        let mut add = |condition: &str, value: Value| {
            let marks = condition.matches('?').count();
            values.extend(std::iter::repeat_n(value, marks));
            wheres.push(condition.to_owned());
        };
        if let Some(since) = self.since {
            add("at >= ?", micros(since).into());
        }
        if let Some(until) = self.until {
            add("at < ?", micros(until).into());
        }
        let equal = [
            ("tenant = ?", &self.tenant),
            ("route = ?", &self.route),
            ("model = ?", &self.model),
            ("upstream = ?", &self.upstream),
            ("conversation = ?", &self.conversation),
            ("prefix_reason = ?", &self.stop),
            ("ending = ?", &self.ending),
        ];
        for (condition, value) in equal {
            if let Some(value) = value {
                add(condition, value.clone().into());
            }
        }
        if let Some(prefix) = &self.id_prefix {
            // A range, which an index serves, where LIKE would need its signs escaped.
            add("id >= ?", prefix.clone().into());
            add("id < ?", format!("{prefix}\u{10ffff}").into());
        }
        if let Some(why) = &self.why {
            add("(miss_reason = ? OR prefix_reason = ?)", why.clone().into());
        }
        if let Some(outcome) = self.outcome {
            add(OUTCOME, outcome.as_str().to_owned().into());
        }
        if let Some(reason) = self.reason {
            add("miss_reason = ?", reason.as_str().to_owned().into());
        }
        if let Some(tokens) = self.min_prompt {
            add("prompt_tokens >= ?", i64::try_from(tokens).unwrap_or(i64::MAX).into());
        }
        for (condition, share) in [
            (concat!(reused!(), " < ? * prompt_tokens"), self.hit_below),
            (concat!(reused!(), " > ? * prompt_tokens"), self.hit_above),
        ] {
            if let Some(share) = share {
                add(condition, share.into());
            }
        }
        if let Some(Cursor { at, seq }) = self.after {
            wheres.push(match self.order {
                Order::OldestFirst => "(at, seq) > (?, ?)".to_owned(),
                Order::NewestFirst => "(at, seq) < (?, ?)".to_owned(),
            });
            values.extend([at.into(), seq.into()]);
        }
        let mut text = format!("SELECT {}, seq FROM calls", select_list(self.detail));
        if !wheres.is_empty() {
            text.push_str(" WHERE ");
            text.push_str(&wheres.join(" AND "));
        }
        text.push_str(match self.order {
            Order::OldestFirst => " ORDER BY at, seq",
            Order::NewestFirst => " ORDER BY at DESC, seq DESC",
        });
        if let Some(limit) = self.limit {
            text.push_str(" LIMIT ?");
            values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
        }
        Sql { text, values }
    }
}

/// [`CallRecord::outcome`](crate::CallRecord::outcome), in SQL.
const OUTCOME: &str = "CASE WHEN exact_outcome IN ('hit', 'collapsed') THEN exact_outcome \
                       WHEN semantic_outcome IN ('hit', 'collapsed') THEN semantic_outcome \
                       ELSE prefix_outcome END = ?";
