//! What a response counted, and what its provider said of a miss.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tapri_ledger::TokenCounts;

/// What a provider itself says of a miss.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostedDiagnosis {
    /// The field it stood in: `prompt_cache_diagnostics` (OpenAI), `diagnostics.cache_miss_reason` (Anthropic).
    pub field: String,
    /// The provider's word: `tools_changed`, `system_changed`, `cache_hit`.
    pub verdict: String,
    /// Tokens that it says were missed.
    pub missed_tokens: Option<u64>,
}

/// Token counts of OpenAI, Anthropic, vLLM, llama-server and flat logs.
pub(super) fn counts(source: &Map<String, Value>) -> Option<TokenCounts> {
    if let Some(Value::Object(usage)) = source.get("usage") {
        return read(usage);
    }
    // llama-server: `timings.cache_n` from the cache, `timings.prompt_n` computed.
    if let Some(Value::Object(timings)) = source.get("timings") {
        let cached = number(timings, "cache_n")?;
        return Some(TokenCounts {
            prompt: number(timings, "prompt_n").map(|computed| computed.saturating_add(cached)),
            cached: Some(cached),
            answer: number(timings, "predicted_n"),
            ..TokenCounts::default()
        });
    }
    read(source)
}

fn read(usage: &Map<String, Value>) -> Option<TokenCounts> {
    let detail = |field: &str| {
        ["prompt_tokens_details", "input_tokens_details"]
            .iter()
            .find_map(|object| number(usage.get(*object)?.as_object()?, field))
    };
    let anthropic = ["cache_read_input_tokens", "cache_creation_input_tokens"]
        .iter()
        .any(|field| usage.contains_key(*field))
        && !usage.contains_key("prompt_tokens");
    if anthropic {
        let read = number(usage, "cache_read_input_tokens").unwrap_or(0);
        let written = number(usage, "cache_creation_input_tokens").unwrap_or(0);
        let rest = number(usage, "input_tokens")?;
        return Some(TokenCounts {
            prompt: Some(rest.saturating_add(read).saturating_add(written)),
            cached: Some(read),
            restored: None,
            joined: None,
            written: Some(written),
            answer: number(usage, "output_tokens"),
        });
    }
    let prompt = number(usage, "prompt_tokens").or_else(|| number(usage, "input_tokens"))?;
    Some(TokenCounts {
        prompt: Some(prompt),
        cached: detail("cached_tokens")
            .or_else(|| number(usage, "cached_tokens"))
            .or_else(|| number(usage, "cache_read_input_tokens"))
            .or_else(|| number(usage, "prompt_cache_hit_tokens")),
        restored: None,
        joined: None,
        written: detail("cache_write_tokens")
            .or_else(|| number(usage, "cache_write_tokens"))
            .or_else(|| number(usage, "cache_creation_input_tokens")),
        answer: number(usage, "completion_tokens").or_else(|| number(usage, "output_tokens")),
    })
}

/// OpenAI's and Anthropic's own fields.
pub(super) fn diagnosis(source: &Map<String, Value>) -> Option<HostedDiagnosis> {
    if let Some(Value::Object(found)) = source.get("prompt_cache_diagnostics") {
        let kind = found.get("type").and_then(Value::as_str)?;
        let verdict = found.get("reason").and_then(Value::as_str).unwrap_or(kind);
        return Some(HostedDiagnosis {
            field: "prompt_cache_diagnostics".to_owned(),
            verdict: verdict.to_owned(),
            missed_tokens: number(found, "cache_missed_tokens"),
        });
    }
    let reason = source.get("diagnostics")?.get("cache_miss_reason")?;
    let verdict = match reason {
        Value::String(text) => text.as_str(),
        Value::Object(object) => object.get("type").and_then(Value::as_str)?,
        _ => return None,
    };
    Some(HostedDiagnosis {
        field: "diagnostics.cache_miss_reason".to_owned(),
        verdict: verdict.to_owned(),
        missed_tokens: reason.as_object().and_then(|o| number(o, "cache_missed_input_tokens")),
    })
}

fn number(object: &Map<String, Value>, field: &str) -> Option<u64> {
    object.get(field).and_then(Value::as_u64)
}
