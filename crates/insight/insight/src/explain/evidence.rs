//! What is known beside the texts: what the engine or the provider said, when, and how much was read.

use std::time::Duration;

use tapri_kv::StopReason;
use tapri_ledger::MissReason;

use super::classify::Verdict;
use super::difference::Compared;
use super::hosted::Hosted;
use super::{Also, Tokens};
use crate::prompt::PromptDoc;
use crate::rules::Rules;

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
    /// Tokens of a cache block, where there are blocks: less than one is never reused.
    pub block: Option<u64>,
    /// From the start of the old call to the start of the new one, where the documents don't say it.
    pub gap: Option<Duration>,
    /// Whether the old call's prompt was still being computed when the new one began, where the documents don't say
    /// it.
    pub overlapped: bool,
    /// Whether the cache has begun anew since the old call.
    pub restarted: bool,
    /// Tokens of the old prompt.
    pub old_prompt: Option<u64>,
    /// Rules of hosted providers, for models that they know.
    pub rules: Option<&'a Rules>,
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
}

impl<'a> Evidence<'a> {
    /// With what the tokens of both prompts say.
    #[must_use]
    pub fn with_tokens<T: PartialEq>(self, old: &[T], new: &[T]) -> Self {
        let shared = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        Evidence {
            shared: Some(shared as u64),
            prompt: Some(new.len() as u64),
            old_prompt: Some(old.len() as u64),
            ..self
        }
    }
}

impl Evidence<'_> {
    pub(super) fn counter(&self, new: &PromptDoc) -> Counter {
        let told = self.prompt.or_else(|| new.usage.and_then(|usage| usage.prompt));
        let prompt = told.filter(|tokens| *tokens > 0);
        let chars = new.chars();
        let chars_per_token = match prompt {
            Some(tokens) if chars > 0 => chars as f64 / tokens as f64,
            _ => CHARS_PER_TOKEN,
        };
        Counter { chars_per_token, shared: self.shared, prompt }
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
            None => self.tokens(whole),
        }
    }
}

/// What the texts say.
pub(super) struct Seen<'a> {
    pub(super) old: &'a PromptDoc,
    pub(super) new: &'a PromptDoc,
    pub(super) compared: &'a Compared<'a>,
    pub(super) verdict: &'a Verdict,
    pub(super) shared: Tokens,
    pub(super) prompt: Tokens,
}

/// What the evidence adds to the texts.
#[derive(Default)]
pub(super) struct Judged {
    /// Why the cache ended before the texts part, with the tokens that weren't read for it.
    pub(super) cause: Option<(MissReason, Tokens)>,
    /// What else is wrong, or the cause in words.
    pub(super) also: Vec<Also>,
}

/// Tokens that a template may end a prompt with, so that an answer begins: roles, an opened or empty block of reasoning.
const ENDING: u64 = 16;

/// Fewer tokens than this that weren't read are no sign of anything: the last block, the last token, an estimate.
const NO_SIGN: u64 = 64;

/// The reason that an engine's stop is by itself; `None` where the texts have to say it.
pub fn told(stop: StopReason) -> Option<MissReason> {
    match stop {
        StopReason::Evicted => Some(MissReason::Evicted),
        StopReason::Expired => Some(MissReason::Expired),
        StopReason::WindowGone => Some(MissReason::WindowGone),
        StopReason::BeingWritten => Some(MissReason::BeingWritten),
        StopReason::BelowOneBlock => Some(MissReason::BelowOneBlock),
        StopReason::OtherScope => Some(MissReason::Tenant),
        StopReason::Bypassed => Some(MissReason::Bypassed),
        StopReason::Unknown => Some(MissReason::Unknown),
        StopReason::NeverSeen
        | StopReason::Complete
        | StopReason::LastTokenRule
        | StopReason::FirstDifference => None,
    }
}

impl Evidence<'_> {
    /// Why the cache ended before the texts part, where it did, and what else is wrong.
    pub(super) fn judge(&self, seen: &Seen<'_>) -> Judged {
        let cached = self.cached.or_else(|| seen.new.usage.and_then(|usage| usage.cached));
        let unread =
            Tokens { count: seen.shared.count.saturating_sub(cached.unwrap_or(0)), ..seen.shared };
        let because = |reason| Judged { cause: Some((reason, unread)), also: Vec::new() };
        if seen.new.bypassed || self.stop == Some(StopReason::Bypassed) {
            return because(MissReason::Bypassed);
        }
        if self.restarted && seen.verdict.reason.is_expected() && unread.count > 0 {
            return because(MissReason::Restarted);
        }
        if let Some(stop) = self.stop {
            if let Some(reason) = told(stop) {
                return because(reason);
            }
            // The texts go on together, and yet the engine never had it: another process did, or it was reset.
            if stop == StopReason::NeverSeen
                && seen.verdict.reason.is_expected()
                && unread.count >= NO_SIGN
            {
                return because(MissReason::NeverSeen);
            }
            return self.rewritten(seen).map_or_else(Judged::default, |missing| Judged {
                cause: Some((MissReason::ReasoningRewritten, missing)),
                also: Vec::new(),
            });
        }
        if let Some(block) = self.block
            && seen.prompt.count < block
        {
            return because(MissReason::BelowOneBlock);
        }
        if let Some(missing) = self.rewritten(seen) {
            return Judged {
                cause: Some((MissReason::ReasoningRewritten, missing)),
                also: Vec::new(),
            };
        }
        self.by_rules(seen, cached, unread)
    }

    /// Whether the texts go on together and the tokens don't: the template wrote an earlier turn otherwise. With the
    /// tokens of the old prompt that aren't in the new one.
    fn rewritten(&self, seen: &Seen<'_>) -> Option<Tokens> {
        let (shared, old) = (self.shared?, self.old_prompt?);
        let grew = matches!(seen.compared, Compared::Grew | Compared::Same);
        // What a template ends a prompt with, to begin an answer, is no earlier turn.
        let count = old.saturating_sub(shared);
        (grew && count > ENDING).then_some(Tokens { count, estimated: false })
    }

    fn by_rules(&self, seen: &Seen<'_>, cached: Option<u64>, unread: Tokens) -> Judged {
        let rule =
            self.rules.zip(seen.new.model.as_deref()).and_then(|(rules, model)| rules.find(model));
        let step = rule.and_then(|rule| rule.provider.step).unwrap_or(0);
        let slack = if unread.estimated { seen.shared.count / 4 } else { 0 };
        // Known to have read less than the texts share.
        let short = cached.is_some() && unread.count > NO_SIGN.max(step).max(slack);
        if cached.is_some() && !short {
            return Judged::default();
        }
        let (old, new) = (seen.old, seen.new);
        let fault = rule.and_then(|rule| {
            let hosted = Hosted {
                rule,
                old,
                new,
                compared: seen.compared,
                prompt: seen.prompt,
                gap: self.gap.or_else(|| Duration::try_from(new.at?.duration_since(old.at?)).ok()),
                overlapped: self.overlapped
                    || matches!((old.first_token, new.at), (Some(end), Some(start)) if start < end),
            };
            hosted.fault(cached)
        });
        match (short, fault) {
            (true, Some(fault)) => {
                Judged { cause: Some((fault.reason, unread)), also: vec![fault] }
            }
            (true, None) if self.overlapped => {
                Judged { cause: Some((MissReason::BeingWritten, unread)), also: Vec::new() }
            }
            // Nothing here tells which.
            (true, None) => {
                let words = format!(
                    "{} of some {} tokens that are the same were read from the cache: the others were evicted, on \
                     another server, or never kept",
                    cached.unwrap_or(0),
                    seen.shared.count
                );
                let also = vec![Also { reason: MissReason::Unknown, words }];
                Judged { cause: Some((MissReason::Unknown, unread)), also }
            }
            (false, fault) => Judged { cause: None, also: fault.into_iter().collect() },
        }
    }
}
