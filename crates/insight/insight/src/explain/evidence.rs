//! What is known beside the texts: what the engine or the provider said, when, and how much was read.

use tapri_kv::StopReason;
use tapri_ledger::MissReason;

use super::{Also, Tokens};
use crate::prompt::PromptDoc;

/// Counts the tokens of a text.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> u64;

/// What a caller knows. Nothing is needed; more gives better answers.
#[derive(Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// Why the engine's lookup stopped.
    pub stop: Option<StopReason>,
    /// Prompt tokens read from the cache, where the response didn't say so itself.
    pub cached: Option<u64>,
    /// Tokens that both prompts share from the start, counted on their ids.
    pub shared: Option<u64>,
    /// Tokens of the new prompt.
    pub prompt: Option<u64>,
    /// Counts tokens. Without it they are estimated.
    pub count: Option<CountTokens<'a>>,
}

impl std::fmt::Debug for Evidence<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evidence")
            .field("stop", &self.stop)
            .field("cached", &self.cached)
            .field("shared", &self.shared)
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}

/// Characters of a token where nothing better is known: English text has between 4 and 5.
const CHARS_PER_TOKEN: f64 = 4.0;

/// Turns characters of one prompt into tokens.
pub(super) struct Counter {
    chars_per_token: f64,
    shared: Option<u64>,
    prompt: Option<u64>,
    counted: bool,
}

impl Evidence<'_> {
    pub(super) fn counter(&self, new: &PromptDoc) -> Counter {
        let prompt = self.prompt.or_else(|| new.usage.and_then(|usage| usage.prompt));
        let counted = self.count.map(|count| new.parts.iter().map(|part| count(&part.text)).sum());
        let known = prompt.or(counted).filter(|tokens| *tokens > 0);
        let chars = new.chars();
        let chars_per_token = match known {
            Some(tokens) if chars > 0 => chars as f64 / tokens as f64,
            _ => CHARS_PER_TOKEN,
        };
        Counter {
            chars_per_token,
            shared: self.shared,
            prompt: known,
            counted: self.count.is_some(),
        }
    }
}

impl Counter {
    pub(super) fn tokens(&self, chars: u64) -> Tokens {
        Tokens { count: (chars as f64 / self.chars_per_token).round() as u64, estimated: true }
    }

    pub(super) fn shared(&self, chars: u64, whole: u64) -> Tokens {
        match (self.shared, self.prompt) {
            (Some(count), _) => Tokens { count, estimated: false },
            (None, Some(count)) if chars == whole => Tokens { count, estimated: false },
            _ => self.tokens(chars),
        }
    }

    pub(super) fn prompt(&self, whole: u64) -> Tokens {
        match self.prompt {
            Some(count) => Tokens { count, estimated: false },
            None => Tokens { estimated: !self.counted, ..self.tokens(whole) },
        }
    }
}

/// What was found so far.
pub(super) struct Seen<'a> {
    pub(super) new: &'a PromptDoc,
    pub(super) shared: Tokens,
}

impl Evidence<'_> {
    /// Why the cache ended before the texts part, with the tokens that were not read for it, where it did; and what
    /// else is wrong.
    pub(super) fn judge(&self, seen: &Seen<'_>) -> (Option<(MissReason, Tokens)>, Vec<Also>) {
        let unread = || {
            let cached = self.cached.or_else(|| seen.new.usage.and_then(|usage| usage.cached));
            let read = cached.unwrap_or(0);
            Tokens { count: seen.shared.count.saturating_sub(read), ..seen.shared }
        };
        if seen.new.bypassed || self.stop == Some(StopReason::Bypassed) {
            return (Some((MissReason::Bypassed, unread())), Vec::new());
        }
        let told = match self.stop {
            Some(StopReason::Evicted) => Some(MissReason::Evicted),
            Some(StopReason::Expired) => Some(MissReason::Expired),
            Some(StopReason::WindowGone) => Some(MissReason::WindowGone),
            Some(StopReason::BeingWritten) => Some(MissReason::BeingWritten),
            Some(StopReason::BelowOneBlock) => Some(MissReason::BelowOneBlock),
            Some(StopReason::OtherScope) => Some(MissReason::Tenant),
            Some(StopReason::Unknown) => Some(MissReason::Unknown),
            _ => None,
        };
        (told.map(|reason| (reason, unread())), Vec::new())
    }
}
