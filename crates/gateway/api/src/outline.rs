//! What a prompt is made of, in its caller's own terms: for the ledger and for explanations.
//!
//! An outline rides along with a [`Call`](crate::Call) and costs nothing there: it shares the request's bytes, or texts
//! that somebody else holds, and is divided into its parts only when somebody asks, off the call's way.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of part of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// A tool.
    Tools,
    /// The instructions.
    System,
    /// A message, or a part of one.
    Message,
    /// A page of a file.
    Page,
    /// Token ids or plain text that nobody divided.
    Whole,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlinePart {
    /// What it is.
    pub kind: PartKind,
    /// Its path in the request: `messages[0].content`, `tools[2]`; of a document, `file.pages[12]`, from 0.
    pub path: Arc<str>,
    /// Its text: what is said, or JSON where it is none.
    pub text: Arc<str>,
}

impl OutlinePart {
    /// A part.
    pub fn new(kind: PartKind, path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        OutlinePart { kind, path: path.into(), text: text.into() }
    }
}

/// What a prompt is made of. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub enum Outline {
    /// The body of a request in OpenAI's or Anthropic's format, as it came.
    Body(Bytes),
    /// The parts as whoever laid out the prompt knows them, in the order the model reads them.
    Parts(Arc<[OutlinePart]>),
}

impl Outline {
    /// Parts beyond this many are joined into the last one: a request of a million empty messages is no reason for
    /// a record of their size.
    pub const MAX_PARTS: usize = 4096;

    /// Its parts, in the order the model reads them: tools, instructions, messages. Nothing for a body that is no
    /// JSON object. Parses a body: a millisecond for some 500 kB.
    pub fn parts(&self) -> Vec<OutlinePart> {
        let parts = match self {
            Outline::Body(body) => match serde_json::from_slice(body) {
                Ok(Value::Object(request)) => Body::default().read(&request),
                _ => Vec::new(),
            },
            Outline::Parts(parts) => parts.to_vec(),
        };
        bounded(parts)
    }

    /// The request's JSON: the body as it came, or the parts as `{"parts": [{"kind", "path", "text"}]}`.
    pub fn json(&self) -> String {
        match self {
            Outline::Body(body) => String::from_utf8_lossy(body).into_owned(),
            Outline::Parts(parts) => {
                let parts: Vec<Value> = parts
                    .iter()
                    .map(|part| serde_json::json!({ "kind": part.kind, "path": &*part.path, "text": &*part.text }))
                    .collect();
                serde_json::json!({ "parts": parts }).to_string()
            }
        }
    }

    /// Bytes that are held for it; shared ones count in full.
    pub fn bytes(&self) -> usize {
        match self {
            Outline::Body(body) => body.len(),
            Outline::Parts(parts) => {
                parts.iter().map(|part| part.text.len() + part.path.len()).sum()
            }
        }
    }
}

fn bounded(mut parts: Vec<OutlinePart>) -> Vec<OutlinePart> {
    if parts.len() > Outline::MAX_PARTS {
        let rest = parts.split_off(Outline::MAX_PARTS - 1);
        let path = rest.first().map(|part| Arc::clone(&part.path)).unwrap_or_default();
        // A zero byte between texts, so that no two lists of parts read the same.
        let text = rest.iter().map(|part| &*part.text).collect::<Vec<_>>().join("\0");
        parts.push(OutlinePart::new(PartKind::Whole, path, text));
    }
    parts
}

/// The parts of a request's body.
#[derive(Default)]
struct Body {
    parts: Vec<OutlinePart>,
}

impl Body {
    fn read(mut self, request: &serde_json::Map<String, Value>) -> Vec<OutlinePart> {
        for name in ["tools", "functions"] {
            for (i, tool) in list(request.get(name)).iter().enumerate() {
                self.push(PartKind::Tools, format!("{name}[{i}]"), tool.to_string());
            }
        }
        if let Some(system) = request.get("system") {
            self.content(PartKind::System, "system", system);
        }
        for (i, message) in list(request.get("messages")).iter().enumerate() {
            let kind = match message.get("role").and_then(Value::as_str) {
                Some("system" | "developer") => PartKind::System,
                _ => PartKind::Message,
            };
            let path = format!("messages[{i}]");
            for (name, value) in message.as_object().into_iter().flatten() {
                match name.as_str() {
                    "role" => {}
                    "content" => self.content(kind, &format!("{path}.content"), value),
                    _ if value.is_null() => {}
                    _ => self.content(kind, &format!("{path}.{name}"), value),
                }
            }
        }
        if let Some(prompt) = request.get("prompt") {
            self.push(PartKind::Whole, "prompt".to_owned(), text(prompt));
        }
        self.parts
    }

    /// A text, or a list of blocks that have a text each.
    fn content(&mut self, kind: PartKind, path: &str, content: &Value) {
        match content {
            Value::Null => {}
            Value::Array(blocks) => {
                for (i, block) in blocks.iter().enumerate() {
                    match block.get("text") {
                        Some(Value::String(words)) => {
                            self.push(kind, format!("{path}[{i}].text"), words.clone());
                        }
                        _ => self.push(kind, format!("{path}[{i}]"), text(block)),
                    }
                }
            }
            other => self.push(kind, path.to_owned(), text(other)),
        }
    }

    fn push(&mut self, kind: PartKind, path: String, text: String) {
        self.parts.push(OutlinePart::new(kind, path, text));
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A string's own text, anything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str) -> Vec<(PartKind, String, String)> {
        Outline::Body(Bytes::from(body.to_owned()))
            .parts()
            .into_iter()
            .map(|part| (part.kind, part.path.to_string(), part.text.to_string()))
            .collect()
    }

    fn part(kind: PartKind, path: &str, text: &str) -> (PartKind, String, String) {
        (kind, path.to_owned(), text.to_owned())
    }

    #[test]
    fn openai() {
        let body = r#"{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content":
            [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1"}]}],
            "tools": [{"type": "function", "function": {"name": "b", "description": "a"}}]}"#;
        assert_eq!(
            parts(body),
            [
                part(
                    PartKind::Tools,
                    "tools[0]",
                    r#"{"type":"function","function":{"name":"b","description":"a"}}"#
                ),
                part(PartKind::System, "messages[0].content", "Be brief."),
                part(PartKind::Message, "messages[1].content[0].text", "Hi"),
                part(
                    PartKind::Message,
                    "messages[1].content[1]",
                    r#"{"type":"image_url","image_url":{"url":"x"}}"#
                ),
                part(PartKind::Message, "messages[2].tool_calls[0]", r#"{"id":"c1"}"#),
            ]
        );
    }

    #[test]
    fn anthropic() {
        let body = r#"{"messages": [{"role": "user", "content": "Hi"}],
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]}"#;
        assert_eq!(
            parts(body),
            [
                part(PartKind::System, "system[0].text", "Be brief."),
                part(PartKind::Message, "messages[0].content", "Hi"),
            ]
        );
    }

    #[test]
    fn whole_prompts_and_nonsense() {
        assert_eq!(parts(r#"{"prompt": "a"}"#), [part(PartKind::Whole, "prompt", "a")]);
        assert_eq!(parts(r#"{"prompt": [1, 2]}"#), [part(PartKind::Whole, "prompt", "[1,2]")]);
        for nothing in ["", "[", "[]", "{}", r#"{"messages": 3, "tools": {"a": 1}}"#] {
            assert_eq!(parts(nothing), [], "{nothing}");
        }
    }

    #[test]
    fn as_json() {
        let outline =
            Outline::Parts([OutlinePart::new(PartKind::Page, "file.pages[0]", "a\"")].into());
        assert_eq!(
            outline.json(),
            r#"{"parts":[{"kind":"page","path":"file.pages[0]","text":"a\""}]}"#
        );
        assert_eq!(outline.bytes(), 15);
    }

    #[test]
    fn a_million_parts_are_no_million_prints() {
        let body = format!(
            r#"{{"messages": [{}{{"content": "z"}}]}}"#,
            r#"{"content": ""},"#.repeat(9_999)
        );
        let parts = parts(&body);
        assert_eq!(parts.len(), Outline::MAX_PARTS);
        let (kind, path, text) = &parts[Outline::MAX_PARTS - 1];
        assert_eq!((*kind, path.as_str()), (PartKind::Whole, "messages[4095].content"));
        assert!(text.ends_with('z'));
    }
}
