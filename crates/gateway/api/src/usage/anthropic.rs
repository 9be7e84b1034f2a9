//! Anthropic's words for token counts.

use serde_json::{Map, Value, json};

use super::{Parts, Usage, count};

impl Usage {
    /// Reads the `usage` of a message. Its `input_tokens` are what was neither read from the cache nor written to it,
    /// so the prompt is all three together.
    pub fn from_anthropic(usage: &Value) -> Self {
        let read = count(usage.get("cache_read_input_tokens"));
        let creation = usage.get("cache_creation");
        let life = |name: &str| count(creation.and_then(|creation| creation.get(name)));
        let short = life("ephemeral_5m_input_tokens");
        let long = life("ephemeral_1h_input_tokens");
        let lives = match (short, long) {
            (None, None) => None,
            _ => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
        };
        let written = count(usage.get("cache_creation_input_tokens")).or(lives);
        let prompt = count(usage.get("input_tokens")).map(|input| {
            input.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0))
        });
        let details = usage.get("output_tokens_details");
        Usage::of(Parts {
            prompt,
            cached: read,
            joined: None,
            written,
            written_short: short,
            written_long: long,
            answer: count(usage.get("output_tokens")),
            reasoning: count(details.and_then(|details| details.get("thinking_tokens"))),
        })
    }

    /// As messages have it; counts that are unknown are absent.
    ///
    /// `hide_cached` says nothing of the caches: `input_tokens` is then the whole prompt.
    pub fn to_anthropic(self, hide_cached: bool) -> Value {
        let parts = self.parts();
        let mut usage = Map::new();
        let mut put = |name: &str, count: Option<usize>| {
            if let Some(count) = count {
                usage.insert(name.into(), count.into());
            }
        };
        if hide_cached {
            put("input_tokens", parts.prompt);
        } else {
            put("input_tokens", self.uncached());
            put("cache_creation_input_tokens", parts.written);
            put("cache_read_input_tokens", self.reused());
        }
        put("output_tokens", parts.answer);
        if !hide_cached && (parts.written_short.is_some() || parts.written_long.is_some()) {
            usage.insert(
                "cache_creation".into(),
                json!({
                    "ephemeral_5m_input_tokens": parts.written_short.unwrap_or(0),
                    "ephemeral_1h_input_tokens": parts.written_long.unwrap_or(0),
                }),
            );
        }
        if let Some(reasoning) = parts.reasoning {
            usage.insert("output_tokens_details".into(), json!({ "thinking_tokens": reasoning }));
        }
        Value::Object(usage)
    }
}

/// Joins the counts of a stream: each event's are cumulative and may leave some out or `null`, so the last that is
/// said of each holds.
pub(crate) fn merge(seen: &mut Map<String, Value>, usage: &Value) {
    for (name, value) in usage.as_object().into_iter().flatten() {
        if !value.is_null() {
            seen.insert(name.clone(), value.clone());
        }
    }
}
