//! The response object, which repeats the settings that were asked for.

use serde_json::{Value, json};

use crate::encode::Head;

/// A response that runs, with the settings of its request. Nothing is stored, so nothing can be gone on from.
pub(super) fn response(head: &Head, output: Vec<Value>) -> Value {
    let asked = |name: &str, otherwise: Value| {
        let value = head.request.as_ref().and_then(|request| request.body.get(name));
        value.filter(|value| !value.is_null()).cloned().unwrap_or(otherwise)
    };
    json!({
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": asked("instructions", Value::Null),
        "max_output_tokens": asked("max_output_tokens", Value::Null),
        "max_tool_calls": asked("max_tool_calls", Value::Null),
        "model": head.model,
        "output": output,
        "parallel_tool_calls": asked("parallel_tool_calls", true.into()),
        "previous_response_id": null,
        "prompt_cache_key": asked("prompt_cache_key", Value::Null),
        "reasoning": asked("reasoning", json!({ "effort": null, "summary": null })),
        "safety_identifier": asked("safety_identifier", Value::Null),
        "store": false,
        "temperature": asked("temperature", 1.0.into()),
        "text": asked("text", json!({ "format": { "type": "text" } })),
        "tool_choice": asked("tool_choice", "auto".into()),
        "tools": asked("tools", json!([])),
        "top_logprobs": asked("top_logprobs", 0.into()),
        "top_p": asked("top_p", 1.0.into()),
        "truncation": asked("truncation", "disabled".into()),
        "usage": null,
        "user": asked("user", Value::Null),
        "metadata": asked("metadata", json!({})),
    })
}
