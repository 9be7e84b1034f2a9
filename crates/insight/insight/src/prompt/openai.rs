//! OpenAI's formats: chat completions, responses, completions.

use serde_json::{Map, Value};

use super::block::add_content;
use super::build::{Builder, speaker, without_markers};
use super::{Dialect, Kind, Part, PromptDoc, Speaker, transcript};

/// Chat completions: tools, the schema of the answer, messages.
pub(super) fn chat(body: &Map<String, Value>, messages: &[Value], path: &str) -> PromptDoc {
    let mut builder = Builder::new(Dialect::ChatCompletions);
    add_tools(&mut builder, body);
    for field in ["functions", "documents"] {
        for (index, item) in list(body, field).iter().enumerate() {
            let kind = if field == "functions" { Kind::Tool } else { Kind::Document };
            add_definition(&mut builder, kind, format!("{field}[{index}]"), item);
        }
    }
    // The schema of an answer is put before the instructions; the effort stands in them.
    add_parameters(
        &mut builder,
        body,
        &["response_format", "reasoning_effort", "verbosity", "chat_template_kwargs"],
    );
    for (index, message) in messages.iter().enumerate() {
        add_message(&mut builder, &format!("{path}[{index}]"), message);
    }
    builder.finish()
}

/// Responses: tools, parameters, instructions, the items of the input.
pub(super) fn responses(body: &Map<String, Value>, input: &Value) -> PromptDoc {
    let mut builder = Builder::new(Dialect::Responses);
    add_tools(&mut builder, body);
    for (outer, inner) in [("text", "format"), ("text", "verbosity"), ("reasoning", "effort")] {
        if let Some(value) = body.get(outer).and_then(|outer| outer.get(inner)) {
            add_parameter(&mut builder, format!("{outer}.{inner}"), value);
        }
    }
    if let Some(instructions) = body.get("instructions") {
        add_content(&mut builder, Kind::System, "instructions", instructions);
    }
    match input {
        Value::String(text) => transcript::add(&mut builder, "input", text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_item(&mut builder, &format!("input[{index}]"), item);
            }
        }
        other => builder.json(Kind::Other, "input".to_owned(), other.clone()),
    }
    builder.finish()
}

/// Completions: a text, several texts, or token ids.
pub(super) fn completions(prompt: &Value) -> PromptDoc {
    let mut builder = Builder::new(Dialect::Completions);
    match prompt {
        Value::String(text) => transcript::add(&mut builder, "prompt", text),
        Value::Array(ids) if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            let text = ids.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
            builder.text(Kind::Tokens, "prompt".to_owned(), &text);
        }
        Value::Array(texts) => {
            for (index, text) in texts.iter().enumerate() {
                add_content(&mut builder, Kind::Text, &format!("prompt[{index}]"), text);
            }
        }
        other => builder.json(Kind::Other, "prompt".to_owned(), other.clone()),
    }
    builder.finish()
}

/// Adds the tools of a request of any format.
pub(super) fn add_tools(builder: &mut Builder, body: &Map<String, Value>) {
    for (index, tool) in list(body, "tools").iter().enumerate() {
        let path = format!("tools[{index}]");
        add_definition(builder, Kind::Tool, path.clone(), tool);
        if let Value::Object(object) = tool {
            builder.marker(object, &path);
        }
    }
}

fn add_definition(builder: &mut Builder, kind: Kind, path: String, value: &Value) {
    let name = value
        .get("function")
        .and_then(|function| function.get("name"))
        .or_else(|| value.get("name"))
        .or_else(|| value.get("type"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let value = value.as_object().map_or_else(|| value.clone(), without_markers);
    builder.json(kind, path, value);
    if let Some(part) = builder.last() {
        part.name = name;
    }
}

pub(super) fn add_parameters(builder: &mut Builder, body: &Map<String, Value>, fields: &[&str]) {
    for field in fields {
        if let Some(value) = body.get(*field) {
            add_parameter(builder, (*field).to_owned(), value);
        }
    }
}

fn add_parameter(builder: &mut Builder, path: String, value: &Value) {
    match value {
        Value::Null => {}
        Value::String(text) => builder.text(Kind::Parameter, path, text),
        other => builder.json(Kind::Parameter, path, other.clone()),
    }
}

fn add_message(builder: &mut Builder, path: &str, message: &Value) {
    let Value::Object(message) = message else {
        builder.begin_turn(path, Speaker::Other);
        match message {
            Value::String(text) => builder.text(Kind::Text, path.to_owned(), text),
            other => builder.json(Kind::Other, path.to_owned(), other.clone()),
        }
        return;
    };
    let role = speaker(message.get("role").and_then(Value::as_str));
    builder.begin_turn(path, role);
    let before = builder.doc.parts.len();
    if let Some(name) = message.get("name").and_then(Value::as_str) {
        builder.text(Kind::Text, format!("{path}.name"), name);
    }
    if let Some(id) = message.get("tool_call_id").and_then(Value::as_str) {
        builder.text(Kind::Id, format!("{path}.tool_call_id"), id);
    }
    for field in ["reasoning_content", "reasoning"] {
        match message.get(field) {
            Some(Value::String(text)) if !text.is_empty() => {
                builder.text(Kind::Reasoning, format!("{path}.{field}"), text);
                break;
            }
            _ => {}
        }
    }
    let kind = match role {
        Speaker::System => Kind::System,
        Speaker::Tool => Kind::ToolResult,
        _ => Kind::Text,
    };
    if let Some(content) = message.get("content") {
        add_content(builder, kind, &format!("{path}.content"), content);
    }
    for (index, call) in list(message, "tool_calls").iter().enumerate() {
        add_call(builder, &format!("{path}.tool_calls[{index}]"), call);
    }
    if let Some(call) = message.get("function_call").filter(|call| call.is_object()) {
        add_function(builder, &format!("{path}.function_call"), call);
    }
    if builder.doc.parts.len() == before {
        builder.text(kind, format!("{path}.content"), "");
    }
    builder.marker(message, path);
}

fn add_call(builder: &mut Builder, path: &str, call: &Value) {
    if let Some(id) = call.get("id").and_then(Value::as_str) {
        builder.text(Kind::Id, format!("{path}.id"), id);
    }
    match call.get("function") {
        Some(function) => add_function(builder, &format!("{path}.function"), function),
        None => builder.json(Kind::ToolCall, path.to_owned(), call.clone()),
    }
}

fn add_function(builder: &mut Builder, path: &str, function: &Value) {
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    builder.push(Part::new(Kind::ToolCall, format!("{path}.name"), name).named(name));
    let path = format!("{path}.arguments");
    match function.get("arguments") {
        Some(Value::String(text)) => {
            builder.push(Part::new(Kind::ToolCall, path, text.as_str()).named(name));
        }
        Some(other) => builder.push(Part::json(Kind::ToolCall, path, other.clone()).named(name)),
        None => {}
    }
}

fn add_item(builder: &mut Builder, path: &str, item: &Value) {
    let text = |field: &str| item.get(field).and_then(Value::as_str);
    match text("type").unwrap_or("message") {
        "function_call" | "custom_tool_call" => {
            builder.begin_turn(path, Speaker::Assistant);
            if let Some(id) = text("call_id") {
                builder.text(Kind::Id, format!("{path}.call_id"), id);
            }
            let name = text("name").unwrap_or_default();
            builder.push(Part::new(Kind::ToolCall, format!("{path}.name"), name).named(name));
            for field in ["arguments", "input"] {
                if let Some(words) = text(field) {
                    let part = Part::new(Kind::ToolCall, format!("{path}.{field}"), words);
                    builder.push(part.named(name));
                }
            }
        }
        "function_call_output" | "custom_tool_call_output" => {
            builder.begin_turn(path, Speaker::Tool);
            if let Some(id) = text("call_id") {
                builder.text(Kind::Id, format!("{path}.call_id"), id);
            }
            let output = item.get("output").unwrap_or(&Value::Null);
            add_content(builder, Kind::ToolResult, &format!("{path}.output"), output);
        }
        "reasoning" => {
            builder.begin_turn(path, Speaker::Assistant);
            for field in ["summary", "content", "encrypted_content"] {
                if let Some(value) = item.get(field) {
                    add_content(builder, Kind::Reasoning, &format!("{path}.{field}"), value);
                }
            }
        }
        "message" => add_message(builder, path, item),
        _ => {
            builder.begin_turn(path, Speaker::Other);
            builder.json(Kind::Other, path.to_owned(), item.clone());
        }
    }
}

pub(super) fn list<'a>(object: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
