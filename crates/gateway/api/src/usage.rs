//! The usage algebra: one way to count tokens, read from every provider's words and rendered in every API's.
//!
//! `prompt = cached + joined + written + uncached`, and `computed = written + uncached` is what was read anew. The cached and
//! the joined together are the reused ones: what no model computed for this call, and what APIs call cached tokens. A count
//! that nobody told is unknown, which is not zero: unknown ones are absent in answers, and a zero is written as 0.
//! Providers disagree about what a total includes (OpenAI's `prompt_tokens` has the cached ones in it, Anthropic's
//! `input_tokens` has neither reads nor writes), and some of their counts contradict each other. Whatever comes in,
//! no count here is negative and no part is above its total.

pub(crate) mod anthropic;
mod openai;

use serde::{Deserialize, Serialize};

/// Token counts of a call. See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Parts", into = "Parts")]
pub struct Usage {
    /// Within the bounds that [`Usage::of`] sets, in the order of [`Parts`]' fields. Of 32 bits, as events with a usage
    /// go through channels by value; a count beyond that is no prompt's.
    counts: [Option<u32>; 8],
}

/// Counts as somebody told them, each `None` where nobody did. [`Usage::of`] makes them agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// All tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<usize>,
    /// Of those, read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<usize>,
    /// Of those, being computed by another call that this one waited for. Not a hit, not this call's work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<usize>,
    /// Of those, left behind in a cache for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<usize>,
    /// Of the written ones, those with the provider's short life (Anthropic's 5 minutes, OpenAI's 30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_short: Option<usize>,
    /// Of the written ones, those with the provider's long life (Anthropic's hour, OpenAI's 12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_long: Option<usize>,
    /// All tokens of the answer, or of all answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<usize>,
    /// Of those, tokens of thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<usize>,
}

impl Parts {
    /// Every count within what a [`Usage`] can hold.
    fn bounded(self) -> Self {
        let bound = |count: Option<usize>| count.map(|count| count.min(MOST));
        Parts {
            prompt: bound(self.prompt),
            cached: bound(self.cached),
            joined: bound(self.joined),
            written: bound(self.written),
            written_short: bound(self.written_short),
            written_long: bound(self.written_long),
            answer: bound(self.answer),
            reasoning: bound(self.reasoning),
        }
    }
}

/// The largest count.
const MOST: usize = u32::MAX as usize;

impl Usage {
    /// From counts that may contradict each other: a part beyond its total is cut down to it, the cached ones first
    /// served, then the joined, then the written.
    pub fn of(told: Parts) -> Self {
        let told = told.bounded();
        let mut parts = told;
        let lives = match (told.written_short, told.written_long) {
            (None, None) => None,
            (short, long) => Some((short.unwrap_or(0) + long.unwrap_or(0)).min(MOST)),
        };
        parts.written = told.written.or(lives);
        if let Some(prompt) = told.prompt {
            let mut room = prompt;
            let told = [&mut parts.cached, &mut parts.joined, &mut parts.written];
            for count in told.into_iter().flatten() {
                *count = (*count).min(room);
                room -= *count;
            }
        }
        if let Some(written) = parts.written {
            parts.written_short = told.written_short.map(|short| short.min(written));
            let room = written - parts.written_short.unwrap_or(0);
            parts.written_long = told.written_long.map(|long| long.min(room));
        }
        if let Some(answer) = told.answer {
            parts.reasoning = told.reasoning.map(|reasoning| reasoning.min(answer));
        }
        Usage::packed(parts)
    }

    fn packed(parts: Parts) -> Self {
        let Parts {
            prompt,
            cached,
            joined,
            written,
            written_short,
            written_long,
            answer,
            reasoning,
        } = parts;
        let counts =
            [prompt, cached, joined, written, written_short, written_long, answer, reasoning];
        Usage { counts: counts.map(|count| count.and_then(|count| u32::try_from(count).ok())) }
    }

    /// Of an engine that knows all of it.
    pub fn from_prompt(prompt: usize, cached: usize, joined: usize, answer: usize) -> Self {
        Usage::of(Parts {
            prompt: Some(prompt),
            cached: Some(cached),
            joined: Some(joined),
            answer: Some(answer),
            ..Parts::default()
        })
    }

    /// With how much was left behind in the cache.
    pub fn with_written(self, written: usize) -> Self {
        Usage::of(Parts { written: Some(written), ..self.parts() })
    }

    /// Nothing but what a response cache says of its own answers: everything was there, and nothing was computed.
    pub fn replayed(self) -> Self {
        let parts = self.parts();
        let none = |count: Option<usize>| count.map(|_| 0);
        Usage::of(Parts {
            cached: parts.prompt,
            joined: none(parts.joined),
            written: none(parts.written),
            written_short: none(parts.written_short),
            written_long: none(parts.written_long),
            ..parts
        })
    }

    /// The counts.
    pub fn parts(&self) -> Parts {
        let [prompt, cached, joined, written, written_short, written_long, answer, reasoning] =
            self.counts.map(|count| count.map(|count| count as usize));
        Parts { prompt, cached, joined, written, written_short, written_long, answer, reasoning }
    }

    /// Whether nobody told anything.
    pub fn is_unknown(&self) -> bool {
        self.counts == [None; 8]
    }

    /// All tokens of the prompt: OpenAI's `prompt_tokens`.
    pub fn prompt(&self) -> Option<usize> {
        self.parts().prompt
    }

    /// Prompt tokens that were read from a cache.
    pub fn cached(&self) -> Option<usize> {
        self.parts().cached
    }

    /// Prompt tokens that another call was computing, and this one waited for.
    pub fn joined(&self) -> Option<usize> {
        self.parts().joined
    }

    /// Prompt tokens that were left behind in a cache for the first time.
    pub fn written(&self) -> Option<usize> {
        self.parts().written
    }

    /// Prompt tokens that were not computed for this call, read from a cache or joined: what APIs call cached tokens. Never
    /// more than the prompt.
    pub fn reused(&self) -> Option<usize> {
        let Parts { cached, joined, .. } = self.parts();
        match (cached, joined) {
            (None, None) => None,
            (cached, joined) => Some(cached.unwrap_or(0).saturating_add(joined.unwrap_or(0))),
        }
    }

    /// Prompt tokens that were computed for this call: neither read nor joined. Where reads are unknown, all of them.
    pub fn computed(&self) -> Option<usize> {
        let Parts { prompt, cached, joined, .. } = self.parts();
        Some(prompt? - cached.unwrap_or(0) - joined.unwrap_or(0))
    }

    /// Prompt tokens that no cache has to do with, neither reused nor written: Anthropic's `input_tokens`.
    pub fn uncached(&self) -> Option<usize> {
        Some(self.computed()? - self.parts().written.unwrap_or(0))
    }

    /// Tokens of the answer.
    pub fn answer(&self) -> Option<usize> {
        self.parts().answer
    }

    /// Tokens of the answer that are thinking.
    pub fn reasoning(&self) -> Option<usize> {
        self.parts().reasoning
    }

    /// Prompt and answer, where both are known.
    pub fn total(&self) -> Option<usize> {
        let parts = self.parts();
        Some(parts.prompt?.saturating_add(parts.answer?))
    }
}

impl From<Parts> for Usage {
    fn from(told: Parts) -> Self {
        Usage::of(told)
    }
}

impl From<Usage> for Parts {
    fn from(usage: Usage) -> Self {
        usage.parts()
    }
}

/// A count: a whole number that isn't negative. Some servers write it as `12.0`. Anything else tells nothing.
fn count(value: Option<&serde_json::Value>) -> Option<usize> {
    let number = value?;
    if let Some(whole) = number.as_u64() {
        return usize::try_from(whole).ok();
    }
    let float = number.as_f64()?;
    // 2^53: above it a float is no exact number any more.
    (float >= 0.0 && float.fract() == 0.0 && float <= 9_007_199_254_740_992.0)
        .then_some(float as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told() -> impl Strategy<Value = Parts> {
        let count = || prop::option::of(prop_oneof![0usize..2_000, Just(usize::MAX)]);
        (count(), count(), count(), count(), count(), count(), count(), count()).prop_map(|it| {
            Parts {
                prompt: it.0,
                cached: it.1,
                joined: it.2,
                written: it.3,
                written_short: it.4,
                written_long: it.5,
                answer: it.6,
                reasoning: it.7,
            }
        })
    }

    proptest! {
        /// Whatever is told, the parts of a known total add up to it, and what is unknown stays unknown.
        #[test]
        fn parts_always_add_up(told in told()) {
            let usage = Usage::of(told);
            let known = usage.parts();
            if let Some(prompt) = told.prompt.map(|prompt| prompt.min(MOST)) {
                let (cached, joined) = (known.cached.unwrap_or(0), known.joined.unwrap_or(0));
                prop_assert_eq!(usage.prompt(), Some(prompt));
                prop_assert_eq!(cached + joined + usage.computed().unwrap_or(0), prompt);
                prop_assert_eq!(cached + joined + known.written.unwrap_or(0) + usage.uncached().unwrap_or(0), prompt);
                prop_assert_eq!(usage.reused().unwrap_or(0), cached + joined);
            }
            if let Some(written) = known.written {
                prop_assert!(known.written_short.unwrap_or(0) + known.written_long.unwrap_or(0) <= written);
            }
            if let (Some(answer), Some(reasoning)) = (known.answer, known.reasoning) {
                prop_assert!(reasoning <= answer);
            }
            prop_assert_eq!(known.cached.is_some(), told.cached.is_some());
            prop_assert_eq!(known.answer, told.answer.map(|answer| answer.min(MOST)));
            prop_assert_eq!(Usage::of(known), usage, "agreeing counts stay as they are");
        }

        #[test]
        fn an_engine_s_counts_add_up(prompt in 0usize..100_000, cached in 0usize..200_000, joined in 0usize..200_000, answer in 0usize..5_000) {
            let usage = Usage::from_prompt(prompt, cached, joined, answer);
            prop_assert_eq!(usage.prompt(), Some(prompt));
            prop_assert_eq!(usage.total(), Some(prompt + answer));
            prop_assert_eq!(usage.cached(), Some(cached.min(prompt)));
            let reused = (cached + joined).min(prompt);
            prop_assert_eq!(usage.reused(), Some(reused));
            let told = [
                usage.to_chat(false).and_then(|it| it["prompt_tokens_details"]["cached_tokens"].as_u64()),
                usage.to_responses(false).and_then(|it| it["input_tokens_details"]["cached_tokens"].as_u64()),
                usage.to_anthropic(false)["cache_read_input_tokens"].as_u64(),
            ];
            prop_assert_eq!(told, [Some(reused as u64); 3], "every API says what was not computed");
            prop_assert_eq!(usage.to_anthropic(false)["input_tokens"].as_u64(), Some((prompt - reused) as u64));
        }

        #[test]
        fn kept_as_json(told in told()) {
            let usage = Usage::of(told);
            let json = serde_json::to_string(&usage).unwrap_or_default();
            prop_assert_eq!(serde_json::from_str::<Usage>(&json).ok(), Some(usage));
        }
    }

    #[test]
    fn only_whole_numbers_count() {
        let read = |json: &str| count(serde_json::from_str(json).ok().as_ref());
        assert_eq!((read("0"), read("12.0"), read("7")), (Some(0), Some(12), Some(7)));
        for nothing in ["-1", "-1.0", "1.5", "null", "\"3\"", "1e300", "[]"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
