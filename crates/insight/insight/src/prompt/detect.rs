//! Finds the request in whatever a log wrapped around it.

use serde_json::{Map, Value};

use super::{Dialect, PromptDoc, anthropic, facts, openai, transcript};
use crate::prompt::build::Builder;

/// Why there is no document.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// It is no JSON.
    #[error("not JSON")]
    NotJson(#[source] serde_json::Error),
    /// There is no request in it.
    #[error(
        "no request in it: no messages, input or prompt{}",
        if .fields.is_empty() { String::new() } else { format!(" among {}", .fields) }
    )]
    NoPrompt {
        /// The fields that are there, the first few.
        fields: String,
    },
}

/// Fields that logs put a request under.
pub(crate) const WRAPPERS: [&str; 13] = [
    "request",
    "body",
    "request_body",
    "requestBody",
    "req",
    "payload",
    "params",
    "kwargs",
    "proxy_server_request",
    "raw_request",
    "json",
    "data",
    "call",
];

/// Fields that logs put a request's parameters under, beside its messages.
const PARAMETERS: [&str; 3] = ["optional_params", "model_parameters", "parameters"];

/// How many wrappers are taken off.
pub(crate) const MAX_WRAPPERS: usize = 4;

pub(super) fn parse(json: &[u8]) -> Result<PromptDoc, PromptError> {
    // A byte order mark is no part of the JSON.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let value: Value = serde_json::from_slice(json).map_err(PromptError::NotJson)?;
    from_value(&value)
}

pub(super) fn from_value(value: &Value) -> Result<PromptDoc, PromptError> {
    find(value, &mut Vec::new()).ok_or_else(|| {
        let names = value.as_object().into_iter().flat_map(Map::keys).take(8);
        PromptError::NoPrompt { fields: names.cloned().collect::<Vec<_>>().join(", ") }
    })
}

fn find<'a>(value: &'a Value, outer: &mut Vec<&'a Map<String, Value>>) -> Option<PromptDoc> {
    match value {
        Value::Array(messages) => {
            let first = messages.first()?.as_object()?;
            if !first.contains_key("role") {
                return None;
            }
            let body = Map::new();
            Some(conversation(&body, messages, ""))
        }
        Value::Object(object) => {
            if let Some(mut doc) = request(object, outer) {
                facts::add(&mut doc, object, outer);
                return Some(doc);
            }
            if outer.len() >= MAX_WRAPPERS {
                return None;
            }
            outer.push(object);
            for field in WRAPPERS {
                let found = match object.get(field) {
                    Some(inner @ Value::Object(_)) => find(inner, outer),
                    Some(Value::String(text)) if text.trim_start().starts_with('{') => {
                        inner_text(text, outer)
                    }
                    _ => None,
                };
                if found.is_some() {
                    return found;
                }
            }
            outer.pop();
            None
        }
        _ => None,
    }
}

/// A request that a log keeps as a string of JSON.
fn inner_text(text: &str, outer: &[&Map<String, Value>]) -> Option<PromptDoc> {
    let inner: Value = serde_json::from_str(text).ok()?;
    find(&inner, &mut outer.to_vec())
}

fn request(object: &Map<String, Value>, outer: &[&Map<String, Value>]) -> Option<PromptDoc> {
    for field in ["messages", "traj"] {
        if let Some(Value::Array(messages)) = object.get(field) {
            return Some(match with_parameters(object) {
                Some(merged) => conversation(&merged, messages, field),
                None => conversation(object, messages, field),
            });
        }
    }
    match object.get("input") {
        Some(Value::String(text)) if logged(object) => {
            let mut builder = Builder::new(Dialect::Text);
            transcript::add(&mut builder, "input", text);
            return Some(builder.finish());
        }
        Some(input @ (Value::String(_) | Value::Array(_))) => {
            return Some(openai::responses(object, input));
        }
        // A wrapper: `{"input": {"messages": [...]}}`.
        Some(inner @ Value::Object(_)) if outer.len() < MAX_WRAPPERS => {
            let mut outer = outer.to_vec();
            outer.push(object);
            if let Some(doc) = find(inner, &mut outer) {
                return Some(doc);
            }
        }
        _ => {}
    }
    match object.get("prompt") {
        Some(prompt @ (Value::String(_) | Value::Array(_))) => Some(openai::completions(prompt)),
        _ => None,
    }
}

/// Whether an object with a textual `input` is a line of a log, with the answer beside it, and no request.
fn logged(object: &Map<String, Value>) -> bool {
    object.get("output").is_some_and(Value::is_string)
        && !object.contains_key("model")
        && !object.contains_key("instructions")
}

fn conversation(body: &Map<String, Value>, messages: &[Value], path: &str) -> PromptDoc {
    if anthropic::is_it(body, messages) {
        anthropic::messages(body, messages, path)
    } else {
        openai::chat(body, messages, path)
    }
}

/// The request with the parameters that a log keeps beside its messages; `None` where there are none.
fn with_parameters(object: &Map<String, Value>) -> Option<Map<String, Value>> {
    if object.contains_key("tools") {
        return None;
    }
    let parameters = PARAMETERS.iter().find_map(|field| object.get(*field)?.as_object())?;
    let mut merged = object.clone();
    for (key, value) in parameters {
        merged.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Some(merged)
}
