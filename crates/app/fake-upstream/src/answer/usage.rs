//! What is said of tokens.

use serde_json::{Value, json};

use super::Answer;
use crate::script::UsageScript;

/// The names of the counts in one of the APIs.
struct Names {
    prompt: &'static str,
    answer: &'static str,
    details: &'static str,
}

const CHAT: Names = Names {
    prompt: "prompt_tokens",
    answer: "completion_tokens",
    details: "prompt_tokens_details",
};
const RESPONSES: Names =
    Names { prompt: "input_tokens", answer: "output_tokens", details: "input_tokens_details" };

/// Of chat completions and completions; `None` where the field isn't there.
pub(super) fn chat(answer: &Answer<'_>) -> Option<Value> {
    openai(answer, &CHAT)
}

/// Of responses.
pub(super) fn responses(answer: &Answer<'_>) -> Option<Value> {
    openai(answer, &RESPONSES)
}

fn openai(answer: &Answer<'_>, names: &Names) -> Option<Value> {
    let (prompt, answered) = (answer.found.prompt as i64, answer.answered() as i64);
    let cached = answer.found.cached as i64;
    let write = |prompt: i64, answered: i64, total: i64, cached: Option<i64>| {
        let mut usage = json!({});
        usage[names.prompt] = prompt.into();
        usage[names.answer] = answered.into();
        usage["total_tokens"] = total.into();
        if let Some(cached) = cached {
            usage[names.details] = json!({"cached_tokens": cached});
        }
        usage
    };
    let total = prompt + answered;
    Some(match &answer.script.usage {
        UsageScript::Honest => write(prompt, answered, total, Some(cached)),
        UsageScript::NoDetails => write(prompt, answered, total, None),
        UsageScript::Absent => return None,
        UsageScript::Null => Value::Null,
        UsageScript::Negative => write(-5, -1, -6, Some(-3)),
        UsageScript::Inconsistent => write(prompt, answered, total + 7, Some(prompt + 100)),
        UsageScript::Verbatim(usage) => usage.clone(),
    })
}

/// Of messages: the prompt's tokens are what is left beside those read from and written to the cache.
pub(super) fn messages(answer: &Answer<'_>, answered: u64) -> Option<Value> {
    let found = &answer.found;
    let (cached, written) = (found.cached as i64, found.written as i64);
    let rest = found.prompt as i64 - cached - written;
    let write = |rest: i64, cached: i64, written: i64, answered: i64| {
        json!({
            "input_tokens": rest, "cache_creation_input_tokens": written, "cache_read_input_tokens": cached,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": answered,
        })
    };
    let answered = answered as i64;
    Some(match &answer.script.usage {
        UsageScript::Honest => write(rest, cached, written, answered),
        UsageScript::NoDetails => json!({"input_tokens": found.prompt, "output_tokens": answered}),
        UsageScript::Absent => return None,
        UsageScript::Null => Value::Null,
        UsageScript::Negative => write(-5, -3, -2, -1),
        UsageScript::Inconsistent => {
            write(rest - found.prompt as i64, found.prompt as i64 + 100, 0, answered)
        }
        UsageScript::Verbatim(usage) => usage.clone(),
    })
}
