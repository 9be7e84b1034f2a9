//! Anthropic's messages: tools, then the instructions, then the messages.

use serde_json::{Map, Value};

use super::block::add_content;
use super::build::{Builder, speaker};
use super::openai::{add_parameters, add_tools};
use super::{Dialect, Kind, PromptDoc, Speaker};

/// Whether a body with `messages` is Anthropic's rather than OpenAI's: fields or blocks that only it has.
pub(super) fn is_it(body: &Map<String, Value>, messages: &[Value]) -> bool {
    let blocks = |kind: &str| {
        matches!(
            kind,
            "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "document" | "image"
        )
    };
    body.contains_key("system")
        || body.contains_key("anthropic_version")
        || body.get("thinking").is_some_and(Value::is_object)
        || body.get("model").and_then(Value::as_str).is_some_and(|model| {
            model.starts_with("claude") && !body.contains_key("response_format")
        })
        || body
            .get("tools")
            .and_then(Value::as_array)
            .is_some_and(|tools| tools.iter().any(|tool| tool.get("input_schema").is_some()))
        || messages
            .iter()
            .filter_map(|message| message.get("content")?.as_array())
            .flatten()
            .any(|block| block.get("type").and_then(Value::as_str).is_some_and(blocks))
}

pub(super) fn messages(body: &Map<String, Value>, messages: &[Value], path: &str) -> PromptDoc {
    let mut builder = Builder::new(Dialect::Messages);
    add_tools(&mut builder, body);
    // What keeps the tools' cache and loses the rest stands here; what keeps the instructions', behind them.
    add_parameters(&mut builder, body, &["speed", "output_format"]);
    if let Some(system) = body.get("system") {
        add_content(&mut builder, Kind::System, "system", system);
    }
    add_parameters(&mut builder, body, &["tool_choice", "thinking", "output_config"]);
    for (index, message) in messages.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let role = speaker(message.get("role").and_then(Value::as_str));
        builder.begin_turn(&path, role);
        let kind = if role == Speaker::System { Kind::System } else { Kind::Text };
        let before = builder.doc.parts.len();
        let content = message.get("content").unwrap_or(&Value::Null);
        add_content(&mut builder, kind, &format!("{path}.content"), content);
        if builder.doc.parts.len() == before {
            builder.text(kind, format!("{path}.content"), "");
        }
    }
    builder.doc.automatic_marker = body
        .get("cache_control")
        .filter(|marker| marker.is_object())
        .map(|marker| marker.get("ttl").and_then(Value::as_str).map(str::to_owned));
    builder.finish()
}
