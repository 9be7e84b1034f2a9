//! The usage algebra: one way to count tokens, rendered as each API does.

/// Token counts of a call.
///
/// `prompt = cached + joined + computed`: every prompt token is exactly one of the three. Each is a count of
/// its own here, so that no combination can be negative; the totals are sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens whose K and V were in the cache.
    pub cached: usize,
    /// Prompt tokens that another call was computing, and this one waited for. Not a hit, not this call's work.
    pub joined: usize,
    /// Prompt tokens that were computed for this call.
    pub computed: usize,
    /// Tokens of the answer.
    pub answer: usize,
    /// Of the computed prompt tokens, those left behind in the cache for the first time; `None` where the backend
    /// doesn't say.
    pub written: Option<usize>,
}

impl Usage {
    /// From a prompt's total and its parts; parts beyond the total are cut down, so that the sum is the total.
    pub fn from_prompt(prompt: usize, cached: usize, joined: usize, answer: usize) -> Self {
        let cached = cached.min(prompt);
        let joined = joined.min(prompt - cached);
        Usage { cached, joined, computed: prompt - cached - joined, answer, written: None }
    }

    /// With how much was left behind in the cache.
    pub fn with_written(self, written: usize) -> Self {
        Usage { written: Some(written), ..self }
    }

    /// All tokens of the prompt: OpenAI's `prompt_tokens`.
    pub fn prompt(&self) -> usize {
        self.cached + self.joined + self.computed
    }

    /// Prompt and answer.
    pub fn total(&self) -> usize {
        self.prompt() + self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_always_add_up(prompt in 0usize..100_000, cached in 0usize..200_000, joined in 0usize..200_000, answer in 0usize..5_000) {
            let usage = Usage::from_prompt(prompt, cached, joined, answer);
            prop_assert_eq!(usage.prompt(), prompt);
            prop_assert_eq!(usage.total(), prompt + answer);
            prop_assert_eq!(usage.cached, cached.min(prompt));
        }
    }
}
