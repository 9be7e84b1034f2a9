//! Content: a string, or a list of blocks.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::build::{Builder, without_markers};
use super::{Kind, Part, Speaker, transcript};

/// Adds the content of a message, of instructions (`kind` is [`Kind::System`]) or of a tool's result.
pub(super) fn add_content(builder: &mut Builder, kind: Kind, path: &str, content: &Value) {
    match content {
        Value::Null => {}
        Value::String(text)
            if kind == Kind::Text && builder.speaker() == Some(Speaker::Assistant) =>
        {
            transcript::add_answer(builder, path, text);
        }
        Value::String(text) => builder.text(kind, path.to_owned(), text),
        Value::Array(blocks) => {
            for (index, block) in blocks.iter().enumerate() {
                add_block(builder, kind, &format!("{path}[{index}]"), block);
            }
        }
        other => builder.json(kind, path.to_owned(), other.clone()),
    }
}

fn add_block(builder: &mut Builder, kind: Kind, path: &str, block: &Value) {
    let Value::Object(object) = block else {
        match block {
            Value::String(text) => builder.text(kind, path.to_owned(), text),
            Value::Null => {}
            other => builder.json(Kind::Other, path.to_owned(), other.clone()),
        }
        return;
    };
    add_object(builder, kind, path, object);
    builder.marker(object, path);
}

fn add_object(builder: &mut Builder, kind: Kind, path: &str, block: &Map<String, Value>) {
    let text = |field: &str| block.get(field).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "thinking" if text("thinking").is_some() => {
            let thinking = text("thinking").unwrap_or_default();
            builder.text(Kind::Reasoning, format!("{path}.thinking"), thinking);
        }
        "redacted_thinking" => {
            let data = text("data").unwrap_or_default();
            builder.text(Kind::Reasoning, format!("{path}.data"), &digest(data));
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let name = text("name").unwrap_or_default();
            if let Some(id) = text("id") {
                builder.text(Kind::Id, format!("{path}.id"), id);
            }
            builder.push(Part::new(Kind::ToolCall, format!("{path}.name"), name).named(name));
            let input = block.get("input").cloned().unwrap_or(Value::Null);
            builder.push(Part::json(Kind::ToolCall, format!("{path}.input"), input).named(name));
        }
        "tool_result" => {
            if let Some(id) = text("tool_use_id") {
                builder.text(Kind::Id, format!("{path}.tool_use_id"), id);
            }
            let content = block.get("content").unwrap_or(&Value::Null);
            add_content(builder, Kind::ToolResult, &format!("{path}.content"), content);
        }
        "document" => add_document(builder, path, block),
        "image" | "image_url" | "input_image" | "input_audio" | "audio" | "file" | "input_file"
        | "video" => add_media(builder, path, block),
        _ => {
            let fields = ["text", "input_text", "output_text", "refusal"];
            match fields.into_iter().find_map(|field| Some((field, text(field)?))) {
                Some((field, words)) => {
                    let path = format!("{path}.{field}");
                    if kind == Kind::Text && builder.speaker() == Some(Speaker::Assistant) {
                        transcript::add_answer(builder, &path, words);
                    } else {
                        builder.text(kind, path, words);
                    }
                }
                None => builder.json(Kind::Other, path.to_owned(), without_markers(block)),
            }
        }
    }
}

fn add_document(builder: &mut Builder, path: &str, block: &Map<String, Value>) {
    for field in ["title", "context"] {
        if let Some(text) = block.get(field).and_then(Value::as_str) {
            builder.text(Kind::Document, format!("{path}.{field}"), text);
        }
    }
    let Some(Value::Object(source)) = block.get("source") else {
        builder.json(Kind::Document, path.to_owned(), without_markers(block));
        return;
    };
    match (source.get("type").and_then(Value::as_str), source.get("data").and_then(Value::as_str)) {
        (Some("text"), Some(data)) => {
            builder.text(Kind::Document, format!("{path}.source.data"), data);
        }
        (Some("content"), _) => {
            let content = source.get("content").unwrap_or(&Value::Null);
            add_content(builder, Kind::Document, &format!("{path}.source.content"), content);
        }
        _ => add_media(builder, path, block),
    }
}

/// Strings longer than this in a media block are data, and only their digest is kept.
const DATA: usize = 256;

fn add_media(builder: &mut Builder, path: &str, block: &Map<String, Value>) {
    let kept = without_data(&without_markers(block));
    builder.json(Kind::Media, path.to_owned(), kept);
}

/// The same structure with a digest in place of long strings. Depth is bounded by the JSON parser's.
fn without_data(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > DATA || text.starts_with("data:") => {
            Value::String(digest(text))
        }
        Value::Array(items) => items.iter().map(without_data).collect(),
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(key, value)| (key.clone(), without_data(value))).collect(),
        ),
        other => other.clone(),
    }
}

/// What stands for data: its length and the start of its SHA-256.
fn digest(data: &str) -> String {
    let hash = Sha256::digest(data.as_bytes());
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes, sha256 {hex}", data.len())
}
