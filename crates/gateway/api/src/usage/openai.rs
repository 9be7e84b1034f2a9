//! OpenAI's words for token counts, and those of the many that speak its API.

use serde_json::{Map, Value, json};

use super::{Parts, Usage, count};

impl Usage {
    /// Reads the `usage` of chat completions and completions (`prompt_tokens`) or of responses (`input_tokens`).
    ///
    /// The dialects are told apart by their fields: DeepSeek's [`prompt_cache_hit_tokens`](Usage::from_deepseek),
    /// Moonshot's [`cached_tokens`](Usage::from_moonshot), and LiteLLM's and other gateways' Anthropic fields beside
    /// OpenAI's totals. `prompt_tokens_details: null`, as vLLM writes it, tells nothing.
    pub fn from_openai(usage: &Value) -> Self {
        let prompt = count(usage.get("prompt_tokens")).or_else(|| count(usage.get("input_tokens")));
        let answer =
            count(usage.get("completion_tokens")).or_else(|| count(usage.get("output_tokens")));
        let details = first(usage, &["prompt_tokens_details", "input_tokens_details"]);
        let answered = first(usage, &["completion_tokens_details", "output_tokens_details"]);
        let lives = details.and_then(|details| details.get("cache_write_tokens_details"));
        let detail = |name: &str| count(details.and_then(|details| details.get(name)));
        let creation = usage.get("cache_creation");
        let parts = Parts {
            prompt,
            cached: detail("cached_tokens")
                .or_else(|| count(usage.get("prompt_cache_hit_tokens")))
                .or_else(|| count(usage.get("cached_tokens")))
                .or_else(|| count(usage.get("cache_read_input_tokens"))),
            joined: None,
            written: detail("cache_write_tokens")
                .or_else(|| detail("cache_creation_tokens"))
                .or_else(|| detail("cache_creation_input_tokens"))
                .or_else(|| count(usage.get("cache_creation_input_tokens"))),
            written_short: count(lives.and_then(|lives| lives.get("ttl_30m_tokens")))
                .or_else(|| count(creation.and_then(|it| it.get("ephemeral_5m_input_tokens")))),
            written_long: count(lives.and_then(|lives| lives.get("ttl_12h_tokens")))
                .or_else(|| count(creation.and_then(|it| it.get("ephemeral_1h_input_tokens")))),
            answer,
            reasoning: count(answered.and_then(|details| details.get("reasoning_tokens"))),
        };
        Usage::of(with_thinking(parts, count(usage.get("total_tokens"))))
    }

    /// Reads DeepSeek's: hit and miss are counts of their own, and the prompt is both.
    pub fn from_deepseek(usage: &Value) -> Self {
        let hit = count(usage.get("prompt_cache_hit_tokens"));
        let miss = count(usage.get("prompt_cache_miss_tokens"));
        let prompt = match (hit, miss) {
            (Some(hit), Some(miss)) => Some(hit.saturating_add(miss)),
            _ => None,
        };
        let read = Usage::from_openai(usage).parts();
        Usage::of(Parts { prompt: prompt.or(read.prompt), cached: hit.or(read.cached), ..read })
    }

    /// Reads Moonshot's: `cached_tokens` stands beside the totals.
    pub fn from_moonshot(usage: &Value) -> Self {
        let cached = count(usage.get("cached_tokens"));
        let read = Usage::from_openai(usage).parts();
        Usage::of(Parts { cached: cached.or(read.cached), ..read })
    }

    /// As chat completions and completions have it; `None` where neither total is known.
    ///
    /// `hide_cached` leaves out what the caches did.
    pub fn to_chat(self, hide_cached: bool) -> Option<Value> {
        self.to_openai(
            ["prompt_tokens", "completion_tokens"],
            ["prompt_tokens_details", "completion_tokens_details"],
            hide_cached,
        )
    }

    /// As responses have it; `None` where neither total is known.
    pub fn to_responses(self, hide_cached: bool) -> Option<Value> {
        self.to_openai(
            ["input_tokens", "output_tokens"],
            ["input_tokens_details", "output_tokens_details"],
            hide_cached,
        )
    }

    fn to_openai(
        self,
        [prompt, answer]: [&str; 2],
        [prompt_details, answer_details]: [&str; 2],
        hide_cached: bool,
    ) -> Option<Value> {
        let parts = self.parts();
        if parts.prompt.is_none() && parts.answer.is_none() {
            return None;
        }
        let mut usage = Map::new();
        put(&mut usage, prompt, parts.prompt);
        put(&mut usage, answer, parts.answer);
        put(&mut usage, "total_tokens", self.total());
        if !hide_cached {
            let mut details = Map::new();
            put(&mut details, "cached_tokens", self.reused());
            put(&mut details, "cache_write_tokens", parts.written);
            if !details.is_empty() {
                usage.insert(prompt_details.into(), Value::Object(details));
            }
        }
        if let Some(reasoning) = parts.reasoning {
            usage.insert(answer_details.into(), json!({ "reasoning_tokens": reasoning }));
        }
        Some(Value::Object(usage))
    }
}

/// xAI and some others leave the thinking out of `completion_tokens`, but not out of the total.
fn with_thinking(parts: Parts, total: Option<usize>) -> Parts {
    if let (Some(prompt), Some(answer), Some(reasoning), Some(total)) =
        (parts.prompt, parts.answer, parts.reasoning, total)
        && reasoning > 0
        && [prompt, answer, reasoning].iter().try_fold(0usize, |sum, &n| sum.checked_add(n))
            == Some(total)
    {
        return Parts { answer: Some(answer + reasoning), ..parts };
    }
    parts
}

fn first<'a>(usage: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| usage.get(name).filter(|value| value.is_object()))
}

fn put(map: &mut Map<String, Value>, name: &str, count: Option<usize>) {
    if let Some(count) = count {
        map.insert(name.into(), count.into());
    }
}
