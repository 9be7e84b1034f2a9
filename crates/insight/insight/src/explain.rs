//! Why one prompt could not reuse all of another: the reason, the place in the caller's own terms, and what to do.
//!
//! [`explain`] compares two documents. What is at the first difference in reading order decides; what parts the cache
//! (model, tenant, salt) comes before all text; and where the cache is known to have ended before the first difference,
//! the evidence says why. Counts are those of the tokens where they are given ([`Evidence::with_tokens`]), else
//! estimates from the length of the text, and named so.
//!
//! ```
//! use tapri_insight::explain::{Evidence, explain};
//! use tapri_insight::prompt::PromptDoc;
//!
//! let body = |time: &str| {
//!     let system = format!("You are a clerk. It is {time}. {}", "Answer from the file. ".repeat(20));
//!     PromptDoc::from_value(&serde_json::json!({"model": "m", "messages": [
//!         {"role": "system", "content": system},
//!         {"role": "user", "content": "Who signed?"},
//!     ]}))
//! };
//! let found = explain(&body("10:41:55")?, &body("10:42:07")?, &Evidence::default());
//! assert_eq!(
//!     found.line(true),
//!     r#"messages[0].content, character 27: "10:42:07" was "10:41:55" (looks like a time of day)"#,
//! );
//! # Ok::<(), tapri_insight::prompt::PromptError>(())
//! ```

use serde::Serialize;
use tapri_ledger::{Explanation, MissReason, Place};

use crate::prompt::{PartitionKind, PromptDoc};

mod alone;
mod classify;
mod difference;
mod embedded;
mod evidence;
mod hosted;
mod lost;
mod pages;
mod suggest;
mod tools;
mod turns;
mod values;
mod volatile;

pub use alone::{alone, at_part};
pub(crate) use difference::{common, common_end};
pub use evidence::{Evidence, told};
pub use tapri_kv::StopReason;
pub use volatile::{Fleeting, fleeting};

/// A number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tokens {
    /// How many.
    pub count: u64,
    /// Whether that was estimated from the length of the text.
    pub estimated: bool,
}

/// Why a prompt could not reuse all of an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// The reason.
    pub reason: MissReason,
    /// Where the first difference is.
    pub place: Option<Place>,
    /// The whole value that stood there.
    pub old: Option<String>,
    /// The whole value that stands there now.
    pub new: Option<String>,
    /// What it looks like, or what became of it, without a value: `looks like a time of day`, `2 messages are gone`.
    pub looks_like: Option<String>,
    /// What to do about it.
    pub suggestion: String,
    /// Tokens that both prompts share from the start.
    pub shared: Tokens,
    /// Tokens behind the difference that both have as well: what would have been reused without it.
    pub lost: Tokens,
    /// Tokens of the new prompt.
    pub prompt: Tokens,
    /// The first differing character among all of the new prompt's parts, from 0.
    pub shared_chars: u64,
    /// What else keeps the cache from working, beside the reason.
    pub also: Vec<Also>,
}

/// Something else that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Also {
    /// The reason.
    pub reason: MissReason,
    /// In words, without values of the prompt.
    pub words: String,
}

/// Explains why `new` could not reuse all of `old`.
#[must_use]
pub fn explain(old: &PromptDoc, new: &PromptDoc, evidence: &Evidence<'_>) -> Found {
    let (compared, shared_chars) = difference::compare(old, new);
    let count = evidence.counter(new);
    let whole = new.chars();
    let (mut verdict, lost_chars) = match &compared {
        difference::Compared::Grew if shared_chars == 0 => {
            (classify::Verdict::of(MissReason::NeverSeen), 0)
        }
        difference::Compared::Same | difference::Compared::Grew => {
            (classify::Verdict::of(MissReason::Growth), 0)
        }
        difference::Compared::Cut => (classify::Verdict::of(MissReason::CutAtEnd), 0),
        difference::Compared::Differs(found) => {
            let lost = lost::lost_chars(old, new, found).min(whole.saturating_sub(shared_chars));
            let mut verdict = classify::classify(old, new, found, shared_chars, lost);
            verdict.place.get_or_insert_with(|| found.place.clone()).page = verdict.page;
            (verdict, lost)
        }
    };
    let shared = count.shared(shared_chars, whole);
    let prompt = count.prompt(whole);
    let mut lost = count.tokens(lost_chars);
    let mut also = Vec::new();
    if let Some(parted) = partition(old, new) {
        verdict = parted;
        lost = shared;
    } else {
        let seen =
            evidence::Seen { old, new, compared: &compared, verdict: &verdict, shared, prompt };
        let judged = evidence.judge(&seen);
        also = judged.also;
        if let Some((reason, unread)) = judged.cause {
            // The cache ended before the texts part: what the texts say comes second.
            if !verdict.reason.is_expected() {
                let words = verdict.reason.describe().trim_end_matches('.').to_owned();
                also.push(Also { reason: verdict.reason, words });
            }
            verdict = classify::Verdict::of(reason);
            lost = Tokens { count: lost.count.saturating_add(unread.count), ..unread };
        }
        // An estimate is never more than what is there.
        let behind = match judged.cause {
            Some(_) => prompt.count,
            None => prompt.count.saturating_sub(shared.count),
        };
        lost.count = lost.count.min(behind);
    }
    Found {
        reason: verdict.reason,
        suggestion: suggest::suggestion(verdict.reason).to_owned(),
        place: verdict.place,
        old: verdict.old,
        new: verdict.new,
        looks_like: verdict.looks_like.map(Into::into),
        shared,
        lost,
        prompt,
        shared_chars,
        also,
    }
}

/// Bytes that two prompts share from the start: to find the nearest of many before explaining. What parts the cache
/// between them isn't looked at.
#[must_use]
pub fn shared_bytes(old: &PromptDoc, new: &PromptDoc) -> usize {
    difference::shared_bytes(old, new)
}

/// What parts the cache between two prompts.
fn partition(old: &PromptDoc, new: &PromptDoc) -> Option<classify::Verdict> {
    let place = |path: &str| Place { path: path.to_owned(), character: None, page: None };
    if let (Some(was), Some(is)) = (&old.model, &new.model)
        && was != is
    {
        let verdict = classify::Verdict::of(MissReason::Model).at(place("model"));
        return Some(verdict.values(Some(was.clone()), Some(is.clone())));
    }
    let kinds = [
        (PartitionKind::Tenant, MissReason::Tenant),
        (PartitionKind::Salt, MissReason::Salt),
        (PartitionKind::CacheKey, MissReason::Salt),
        (PartitionKind::Adapter, MissReason::Adapter),
        (PartitionKind::Tokenizer, MissReason::Tokenizer),
        (PartitionKind::Template, MissReason::Template),
    ];
    kinds.into_iter().find_map(|(kind, reason)| {
        let of = |doc: &PromptDoc| doc.partitions.iter().find(|found| found.kind == kind).cloned();
        let (was, is) = (of(old), of(new));
        if was.as_ref().map(|found| &found.value) == is.as_ref().map(|found| &found.value) {
            return None;
        }
        let path = is.as_ref().or(was.as_ref()).map(|found| found.path.clone())?;
        let verdict = classify::Verdict::of(reason).at(place(&path));
        Some(verdict.values(was.map(|found| found.value), is.map(|found| found.value)))
    })
}

impl Found {
    /// Whether there is something to repair: not where all was reused, nothing was there to reuse, or the caller asked
    /// for it.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        !self.reason.is_expected()
            && !matches!(
                self.reason,
                MissReason::NeverSeen
                    | MissReason::BelowOneBlock
                    | MissReason::BelowMinimum
                    | MissReason::Bypassed
            )
    }

    /// One line: the place, what is there and what was. Without values, only the place and the kind.
    #[must_use]
    pub fn line(&self, values: bool) -> String {
        let mut line = self.place.as_ref().map(show_place).unwrap_or_default();
        let there = |value: &'_ Option<String>| value.clone().filter(|value| !value.is_empty());
        let what = match (there(&self.old), there(&self.new)) {
            (Some(old), Some(new)) if values => {
                format!("\"{}\" was \"{}\"", values::shown(&new), values::shown(&old))
            }
            (None, Some(new)) if values => format!("\"{}\" is new", values::shown(&new)),
            (Some(old), None) if values => format!("\"{}\" is gone", values::shown(&old)),
            _ => self
                .cause()
                .unwrap_or_else(|| self.reason.describe().trim_end_matches('.'))
                .to_owned(),
        };
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&what);
        if let Some(looks_like) = &self.looks_like {
            line.push_str(&format!(" ({looks_like})"));
        }
        line
    }

    /// What the evidence says of the reason, where it has more than its name.
    fn cause(&self) -> Option<&str> {
        let first = self.also.first().filter(|also| also.reason == self.reason)?;
        Some(&first.words)
    }

    /// For a record or an answer; values only where they are allowed.
    #[must_use]
    pub fn explanation(&self, nearest: Option<String>, values: bool) -> Explanation {
        let shown = |value: &Option<String>| {
            value.as_ref().filter(|_| values).map(|value| values::shown(value))
        };
        Explanation {
            reason: self.reason,
            nearest,
            shared_tokens: Some(self.shared.count),
            estimated: self.shared.estimated,
            place: self.place.clone(),
            new: shown(&self.new),
            old: shown(&self.old),
            looks_like: self.looks_like.clone(),
            suggestion: self.suggestion.clone(),
        }
    }
}

/// A place in words: `messages[0].content, page 3, character 14`.
#[must_use]
pub fn show_place(place: &Place) -> String {
    let mut text = place.path.clone();
    if let Some(page) = place.page {
        text.push_str(&format!(", page {page}"));
    }
    if let Some(character) = place.character {
        text.push_str(&format!(", character {character}"));
    }
    text
}

#[cfg(test)]
mod tests;
