//! A request said in another API's words and back says the same, and no marker is lost in silence.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::neutral::{Block, Neutral, Output, Piece, Speaker, Thinking, Turn};
use super::{Converted, request};
use crate::{Format, Inbound, ToolChoice};
use bodies::Dice;

fn inbound(format: Format, body: &Value) -> Inbound {
    Inbound::read(format, body.to_string().into(), Vec::new()).unwrap()
}

fn convert(from: Format, to: Format, body: &Value) -> Converted {
    request(&inbound(from, body), to)
        .unwrap_or_else(|error| panic!("{from:?} to {to:?}: {error}: {body}"))
}

fn refusal(from: Format, to: Format, body: &Value) -> String {
    let error = request(&inbound(from, body), to).unwrap_err();
    format!("{} [{}]", error.status(), error.field.as_deref().unwrap_or("-"))
}

/// The neutral form without what doesn't change the answer: where things stood, how JSON was spaced, which markers there
/// are, and what every API takes for granted.
fn meaning(format: Format, body: &Value) -> Neutral {
    fn clean(piece: &mut Piece) {
        piece.path.clear();
        piece.mark = None;
        match &mut piece.block {
            Block::Call { arguments, .. } => {
                let parsed: Value = serde_json::from_str(arguments).unwrap_or(json!({}));
                *arguments = parsed.to_string();
            }
            Block::Result { content, .. } => content.iter_mut().for_each(clean),
            Block::Image { detail, .. } => *detail = None,
            // A refusal is words where an API has no other place for it.
            Block::Refusal(words) => piece.block = Block::Text(std::mem::take(words)),
            _ => {}
        }
    }
    let mut neutral = super::neutral(&inbound(format, body)).unwrap();
    neutral.system.iter_mut().for_each(clean);
    let mut turns: Vec<Turn> = Vec::new();
    for mut turn in std::mem::take(&mut neutral.turns) {
        turn.path.clear();
        turn.pieces.iter_mut().for_each(clean);
        // Anthropic's API joins turns of the user that follow each other.
        match turns.last_mut() {
            Some(last)
                if last.speaker == Speaker::User
                    && turn.speaker == Speaker::User
                    && last.pieces.iter().all(|it| matches!(it.block, Block::Result { .. })) =>
            {
                last.pieces.append(&mut turn.pieces);
            }
            _ => turns.push(turn),
        }
    }
    neutral.turns = turns;
    for tool in &mut neutral.tools {
        tool.path.clear();
        tool.mark = None;
        tool.strict = tool.strict.filter(|strict| *strict);
    }
    // Anthropic's API asks for a limit, so one is set.
    neutral.max_tokens = neutral.max_tokens.filter(|tokens| *tokens != 8192);
    if let Some(Output::Schema { name, strict, .. }) = &mut neutral.output {
        (*name, *strict) = (None, None);
    }
    neutral.thinking = match neutral.thinking {
        Some(Thinking::Budget(_, Some(word))) => Some(Thinking::Effort(word)),
        Some(Thinking::Budget(tokens, None)) => {
            let word = if tokens <= 2048 {
                "low"
            } else if tokens <= 8192 {
                "medium"
            } else {
                "high"
            };
            Some(Thinking::Effort(word.into()))
        }
        // OpenAI's models think as much as they like without being told.
        Some(Thinking::Adaptive) => None,
        other => other,
    };
    neutral.tool_choice = neutral.tool_choice.filter(|choice| *choice != ToolChoice::Auto);
    // Without tools, and where none may be called, none are called at once.
    if neutral.tools.is_empty() || neutral.tool_choice == Some(ToolChoice::None) {
        neutral.parallel = None;
    }
    (neutral.mark, neutral.cache_key) = (None, None);
    neutral
}

/// Markers in a body, under any name.
fn markers(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match name.as_str() {
                "cache_control" | "prompt_cache_breakpoint" => usize::from(!value.is_null()),
                "prompt_cache_options" => usize::from(value["mode"] == "implicit"),
                // A schema, and what a tool is given, may have a field of any name.
                "input_schema" | "parameters" | "schema" | "arguments" => 0,
                "input" if value.is_object() => 0,
                _ => markers(value),
            })
            .sum(),
        Value::Array(list) => list.iter().map(markers).sum(),
        _ => 0,
    }
}

fn named_markers(converted: &Converted) -> usize {
    let names = ["cache_control", "prompt_cache_breakpoint", "prompt_cache_options"];
    converted.dropped.iter().filter(|it| names.iter().any(|name| it.field.contains(name))).count()
}

fn there_and_back(from: Format, to: Format, body: &Value) {
    let there = convert(from, to, body);
    assert_eq!(
        markers(body),
        markers(&Value::Object(there.body.clone())) + named_markers(&there),
        "markers in, markers out or named: {body} became {:?}",
        there
    );
    let said = Value::Object(there.body.clone());
    let back = convert(to, from, &said);
    assert_eq!(
        meaning(from, &Value::Object(back.body)),
        meaning(from, body),
        "{from:?} to {to:?} and back: {body} was said as {said}"
    );
}

fn dice() -> impl Strategy<Value = Dice> {
    prop::collection::vec(any::<u8>(), 40..160).prop_map(Dice::new)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn chat_to_messages_and_back(dice in dice()) {
        there_and_back(Format::Chat, Format::Messages, &bodies::chat(dice, Format::Messages));
    }

    #[test]
    fn chat_to_responses_and_back(dice in dice()) {
        there_and_back(Format::Chat, Format::Responses, &bodies::chat(dice, Format::Responses));
    }

    #[test]
    fn messages_to_chat_and_back(dice in dice()) {
        there_and_back(Format::Messages, Format::Chat, &bodies::messages(dice, Format::Chat));
    }

    #[test]
    fn messages_to_responses_and_back(dice in dice()) {
        there_and_back(Format::Messages, Format::Responses, &bodies::messages(dice, Format::Responses));
    }

    #[test]
    fn responses_to_chat_and_back(dice in dice()) {
        there_and_back(Format::Responses, Format::Chat, &bodies::responses(dice, Format::Chat));
    }

    #[test]
    fn responses_to_messages_and_back(dice in dice()) {
        there_and_back(Format::Responses, Format::Messages, &bodies::responses(dice, Format::Messages));
    }
}

/// What gateways are blamed for most: a `cache_control` that vanishes in translation shows only on the bill
/// (envoyproxy/ai-gateway#2477, BerriAI/litellm#33687).
#[test]
fn cache_markers_survive_translation_or_are_named() {
    let body = json!({
        "model": "m", "max_tokens": 10,
        "system": [{"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": [{"name": "get", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "5m"}}]},
        ],
    });
    for to in [Format::Chat, Format::Responses] {
        let converted = convert(Format::Messages, to, &body);
        let named: Vec<&str> = converted.dropped.iter().map(|it| it.field.as_str()).collect();
        assert_eq!(named, ["tools[0].cache_control"], "OpenAI's tools have no place for one");
        let text = Value::Object(converted.body).to_string();
        assert!(
            text.contains(r#""prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}"#),
            "{text}"
        );
        assert!(
            text.contains(r#""prompt_cache_breakpoint":{"mode":"explicit","ttl":"30m"}"#),
            "{text}"
        );
    }
}

#[test]
fn markers_beyond_four_are_named_the_first_first() {
    let part = |text: &str| json!({"type": "text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit"}});
    let parts: Vec<Value> = ["a", "b", "c", "d", "e"].map(part).into();
    let body = json!({"messages": [{"role": "user", "content": parts}]});
    let converted = convert(Format::Chat, Format::Messages, &body);
    let field = "messages[0].content[0].prompt_cache_breakpoint";
    assert!(converted.dropped.iter().any(|it| it.field == field), "{:?}", converted.dropped);
    assert_eq!(markers(&Value::Object(converted.body)), 4);
}

#[test]
fn what_cannot_be_said_is_refused_by_name() {
    let chat = |field: &str, value: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "Hi"}]});
        body[field] = value;
        body
    };
    let mut lines = Vec::new();
    for (field, value) in [
        ("n", json!(2)),
        ("seed", json!(1)),
        ("logprobs", json!(true)),
        ("logit_bias", json!({"5": 1})),
        ("presence_penalty", json!(0.5)),
        ("temperature", json!(1.5)),
        ("verbosity", json!("low")),
        ("response_format", json!({"type": "json_object"})),
        ("reasoning_effort", json!("minimal")),
        ("stop", json!(["x"])),
        ("top_k", json!(5)),
        ("no_such_field", json!({"a": 1})),
        ("tools", json!([{"type": "web_search"}])),
        (
            "messages",
            json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]),
        ),
        ("messages", json!([{"role": "user", "content": "Hi", "name": "ann"}])),
    ] {
        for to in [Format::Messages, Format::Responses] {
            let result = request(&inbound(Format::Chat, &chat(field, value.clone())), to);
            let said = result.map_or_else(
                |error| format!("{} [{}]", error.status(), error.field.unwrap_or_default()),
                |_| "said".into(),
            );
            lines.push(format!("chat {field} {value} to {to:?}: {said}"));
        }
    }
    for (field, value) in [
        (
            "messages",
            json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I say"}]),
        ),
        ("container", json!("c")),
        ("mcp_servers", json!([{}])),
        ("top_k", json!(5)),
        ("stop_sequences", json!(["x"])),
        ("tools", json!([{"type": "bash_20250124", "name": "bash"}])),
        ("messages", json!([{"role": "user", "content": [{"type": "search_result"}]}])),
        (
            "messages",
            json!([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}, {"type": "text", "text": "x"}]}, {"role": "user", "content": "y"}]),
        ),
    ] {
        let mut body = json!({"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]});
        body[field] = value.clone();
        for to in [Format::Chat, Format::Responses] {
            let result = request(&inbound(Format::Messages, &body), to);
            let said = result.map_or_else(
                |error| format!("{} [{}]", error.status(), error.field.unwrap_or_default()),
                |_| "said".into(),
            );
            lines.push(format!("messages {field} {value} to {to:?}: {said}"));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
    let stored = json!({"input": "Hi", "previous_response_id": "resp_1"});
    assert_eq!(refusal(Format::Responses, Format::Chat, &stored), "400 [previous_response_id]");
    let none = json!({"messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(refusal(Format::Messages, Format::Chat, &none), "400 [max_tokens]");
}

#[test]
fn what_affects_no_answer_is_left_out() {
    let body = json!({
        "messages": [{"role": "user", "content": "Hi"}], "metadata": {"a": "b"}, "store": true, "service_tier": "auto",
        "stream": true, "stream_options": {"include_usage": true}, "n": 1, "presence_penalty": 0, "logit_bias": {},
        "user": "u", "prompt_cache_key": "k", "max_tokens": 5,
    });
    let converted = convert(Format::Chat, Format::Messages, &body);
    let expected = json!({
        "max_tokens": 5, "stream": true, "metadata": {"user_id": "u"},
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    });
    assert_eq!(Value::Object(converted.body), expected);
    assert_eq!(converted.dropped[0].field, "prompt_cache_key");
}

#[test]
fn a_rich_message_in_the_words_of_openai() {
    let body = json!({
        "model": "m", "max_tokens": 100, "temperature": 0.5, "stream": true,
        "system": "Be brief.",
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "tools": [{"name": "get", "description": "d", "input_schema": {"type": "object"}}],
        "metadata": {"user_id": "u"},
        "messages": [
            {"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}, "title": "t"},
                {"type": "text", "text": "Weather?"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"city": "Pune"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain", "is_error": true},
                {"type": "text", "text": "And?"}]},
        ],
    });
    let said = [Format::Chat, Format::Responses].map(|to| {
        serde_json::to_string_pretty(&convert(Format::Messages, to, &body).body).unwrap()
    });
    insta::assert_snapshot!(said.join("\n\n"));
    there_and_back(Format::Messages, Format::Chat, &body);
    there_and_back(Format::Messages, Format::Responses, &body);
}
