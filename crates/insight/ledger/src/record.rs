//! The record of a call.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tapri_api::PartKind;

use crate::{MissReason, Money, digits, seconds};

/// What is kept of one call. Never its text, unless the ledger was told to keep texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The call's id, as in its answer: 32 hexadecimal digits for Tapri's own.
    pub id: String,
    /// When it began.
    pub at: Timestamp,
    /// Whose it is. Without configured tenants: `default`.
    pub tenant: String,
    /// The door it came through: the path of the API (`/v1/chat/completions`), or `ask`.
    pub route: String,
    /// The model that answered.
    pub model: String,
    /// What ran it: `embedded`, or the upstream's name.
    pub upstream: String,
    /// The conversation or session it belongs to, where the caller named one.
    pub conversation: Option<String>,
    /// How it ended.
    pub ending: Ending,
    /// Token counts, each absent where it isn't known.
    pub tokens: TokenCounts,
    /// From its arrival to the first token of the answer.
    #[serde(rename = "ttft_seconds", with = "seconds::maybe")]
    pub ttft: Option<Duration>,
    /// From its arrival to its end.
    #[serde(rename = "total_seconds", with = "seconds")]
    pub total: Duration,
    /// The exact response cache. `None` where the way has no such cache.
    pub exact: Option<CacheResult>,
    /// The semantic response cache.
    pub semantic: Option<CacheResult>,
    /// The prefix cache.
    pub prefix: Option<CacheResult>,
    /// Why it reused less than it could; absent where it reused all, and where nobody looked.
    pub explanation: Option<Explanation>,
    /// What it cost, an estimate: measured tokens at a price list.
    pub cost: Option<Cost>,
    /// The prompt's parts, in the order the model reads them.
    pub parts: Vec<PartPrint>,
    /// Salted fingerprints of the prompt's start after each [`CallRecord::TRACE_BLOCK`] tokens, each covering all
    /// before it: two calls share as many blocks as their lists share. Empty where token ids weren't known.
    #[serde(with = "digits::list")]
    pub trace: Vec<u64>,
    /// The prompt, as the request's JSON. Only with `--ledger-text`.
    pub text: Option<String>,
}

impl CallRecord {
    /// Tokens of a block in [`CallRecord::trace`].
    pub const TRACE_BLOCK: usize = 128;

    /// A record of which no more is known than its name and time.
    pub fn new(id: impl Into<String>, at: Timestamp) -> Self {
        CallRecord {
            id: id.into(),
            at,
            tenant: "default".to_owned(),
            route: String::new(),
            model: String::new(),
            upstream: String::new(),
            conversation: None,
            ending: Ending::Stop,
            tokens: TokenCounts::default(),
            ttft: None,
            total: Duration::ZERO,
            exact: None,
            semantic: None,
            prefix: None,
            explanation: None,
            cost: None,
            parts: Vec::new(),
            trace: Vec::new(),
            text: None,
        }
    }

    /// What came of it: of the cache that answered, else of the prefix cache.
    pub fn outcome(&self) -> Option<CacheOutcome> {
        self.replayed().or_else(|| self.prefix.as_ref().map(|cache| cache.outcome))
    }

    /// Whether it was answered by a stored answer, or by another call's: the prefix cache wasn't asked for it.
    pub fn is_stored_answer(&self) -> bool {
        self.replayed().is_some()
    }

    fn replayed(&self) -> Option<CacheOutcome> {
        let caches = [&self.exact, &self.semantic].into_iter().flatten();
        caches.map(|cache| cache.outcome).find(|outcome| outcome.is_replay())
    }

    /// The share of the prompt's tokens that were not computed for this call, from 0 to 1.
    pub fn cached_share(&self) -> Option<f64> {
        match (self.tokens.reused(), self.tokens.prompt) {
            (Some(cached), Some(prompt)) if prompt > 0 => Some(cached as f64 / prompt as f64),
            _ => None,
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The model's end or a stop string.
    Stop,
    /// The token limit.
    Length,
    /// The client left.
    Abort,
    /// An error, with its code.
    Error(String),
}

impl Ending {
    /// One word: `stop`, `length`, `abort`, `error`.
    pub fn word(&self) -> &'static str {
        match self {
            Ending::Stop => "stop",
            Ending::Length => "length",
            Ending::Abort => "abort",
            Ending::Error(_) => "error",
        }
    }
}

/// Token counts. Absent is unknown; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenCounts {
    /// All tokens of the prompt.
    pub prompt: Option<u64>,
    /// Of those, read from the prefix cache.
    pub cached: Option<u64>,
    /// Of the cached, read back from disk; the others were in memory.
    #[serde(default)]
    pub restored: Option<u64>,
    /// Of those, computed by another call that this one waited for.
    pub joined: Option<u64>,
    /// Of those, left behind in the prefix cache for the first time.
    pub written: Option<u64>,
    /// Tokens of the answer.
    pub answer: Option<u64>,
}

impl TokenCounts {
    /// Tokens of the prompt that were not computed for this call, cached or joined: what its answer calls cached tokens.
    pub fn reused(&self) -> Option<u64> {
        match (self.cached, self.joined) {
            (None, None) => None,
            (cached, joined) => Some(cached.unwrap_or(0).saturating_add(joined.unwrap_or(0))),
        }
    }
}

/// What one cache did for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheResult {
    /// What came of it.
    pub outcome: CacheOutcome,
    /// Why it gave no more, by the cache's own list (`never_seen`, `first_difference`, `off`).
    pub reason: Option<String>,
}

/// What came of asking a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheOutcome {
    /// It answered, or held all of the prompt that can be reused.
    Hit,
    /// It held a part of the prompt.
    Partial,
    /// It had nothing.
    Miss,
    /// It wasn't asked.
    Bypass,
    /// Another call in flight answered this one too.
    Collapsed,
}

impl CacheOutcome {
    /// Of a cache of whole answers: whether the answer was made for another call.
    pub fn is_replay(self) -> bool {
        matches!(self, CacheOutcome::Hit | CacheOutcome::Collapsed)
    }

    /// Every outcome.
    pub const ALL: [Self; 5] =
        [Self::Hit, Self::Partial, Self::Miss, Self::Bypass, Self::Collapsed];

    /// The stable name, as stored and printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Partial => "partial",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
            Self::Collapsed => "collapsed",
        }
    }
}

/// Why a call reused less than it could.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The reason.
    pub reason: MissReason,
    /// The nearest earlier call of the same tenant.
    pub nearest: Option<String>,
    /// Prompt tokens shared with it, from the start. An estimate where [`Explanation::estimated`].
    pub shared_tokens: Option<u64>,
    /// Whether `shared_tokens` was estimated from the text's length instead of counted.
    pub estimated: bool,
    /// Where the first difference is, in the caller's own terms.
    pub place: Option<Place>,
    /// What stands there now, where the tenant allows values.
    pub new: Option<String>,
    /// What stood there before, where the tenant allows values.
    pub old: Option<String>,
    /// What the value looks like, in words: `looks like a time of day`.
    pub looks_like: Option<String>,
    /// What to do about it.
    pub suggestion: String,
}

/// A place in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The path in the request's JSON: `messages[0].content`, `tools[2].function.description`.
    pub path: String,
    /// The character at that path, counted from 0, where it is text.
    pub character: Option<u64>,
    /// The page of a file, counted from 1, where the part is a file.
    pub page: Option<u64>,
}

/// The fingerprint of a part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartPrint {
    /// What it is.
    pub kind: PartKind,
    /// Its path in the request.
    pub path: String,
    /// Its length in characters.
    pub chars: u64,
    /// A keyed hash of its text: equal texts of one ledger have equal prints, and nobody without the ledger's
    /// secret can try texts against it.
    #[serde(with = "digits")]
    pub print: u64,
}

/// What a call cost, an estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// With what the cache gave.
    pub paid: Money,
    /// The same tokens with nothing out of a cache.
    pub without_cache: Money,
    /// The price list's name.
    pub price_list: String,
    /// Its date, where it has one: `2026-11-30`.
    pub price_date: Option<String>,
}
