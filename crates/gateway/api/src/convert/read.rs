//! What the readers of all formats need.

use serde_json::{Map, Value};

use super::neutral::{Life, Mark, Neutral, is_nothing};
use crate::ApiError;
use crate::openai::fields::{Fields, wrong};

/// A list of objects at a path, each with its own.
pub(super) fn objects(path: &str, value: Value) -> Result<Vec<Fields>, ApiError> {
    let Value::Array(list) = value else { return Err(wrong(path, "a list", &value)) };
    list.into_iter()
        .enumerate()
        .map(|(i, value)| Fields::at(format!("{path}[{i}]"), value))
        .collect()
}

/// A string that must be there.
pub(super) fn text(fields: &mut Fields, name: &str, what: &str) -> Result<String, ApiError> {
    let path = fields.path(name);
    match fields.require(name, what)? {
        Value::String(text) => Ok(text),
        other => Err(wrong(&path, "a string", &other)),
    }
}

/// An object that must be there.
pub(super) fn object(fields: &mut Fields, name: &str, what: &str) -> Result<Fields, ApiError> {
    let path = fields.path(name);
    Fields::at(path, fields.require(name, what)?)
}

/// A number, as it was written.
pub(super) fn number(fields: &mut Fields, name: &str) -> Result<Option<Value>, ApiError> {
    match fields.take(name) {
        None => Ok(None),
        Some(number @ Value::Number(_)) => Ok(Some(number)),
        Some(other) => Err(wrong(&fields.path(name), "a number", &other)),
    }
}

/// A count.
pub(super) fn count(fields: &mut Fields, name: &str) -> Result<Option<u64>, ApiError> {
    let count = fields.integer(name, 0..=i64::from(i32::MAX))?;
    Ok(count.and_then(|count| u64::try_from(count).ok()))
}

/// A string or a list of strings.
pub(super) fn strings(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let path = fields.path(name);
    match fields.take(name) {
        None => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one]),
        Some(Value::Array(list)) => list
            .into_iter()
            .enumerate()
            .map(|(i, value)| match value {
                Value::String(text) => Ok(text),
                other => Err(wrong(&format!("{path}[{i}]"), "a string", &other)),
            })
            .collect(),
        Some(other) => Err(wrong(&path, "a string or a list of strings", &other)),
    }
}

/// A marker under any of its names: Anthropic's `cache_control`, which gateways take in OpenAI's format as well, and
/// OpenAI's `prompt_cache_breakpoint`.
pub(super) fn mark(fields: &mut Fields) -> Result<Option<Mark>, ApiError> {
    let mut found = None;
    for name in ["cache_control", "prompt_cache_breakpoint"] {
        let path = fields.path(name);
        let Some(value) = fields.take(name) else { continue };
        found = Some(Mark { life: life(&mut Fields::at(path, value)?)? });
    }
    Ok(found)
}

/// The `ttl` of a marker.
pub(super) fn life(fields: &mut Fields) -> Result<Option<Life>, ApiError> {
    let ttl = fields.string("ttl")?;
    match ttl.as_deref() {
        None => Ok(None),
        Some("5m" | "30m") => Ok(Some(Life::Short)),
        Some("1h" | "12h") => Ok(Some(Life::Long)),
        Some(_) => {
            let path = fields.path("ttl");
            let message = format!(
                "`{path}` must be `5m` or `1h` in Anthropic's API, `30m` or `12h` in OpenAI's"
            );
            Err(ApiError::invalid(path, message).code("invalid_value"))
        }
    }
}

/// The fields that were not read: those that affect no answer are forgotten, the rest are this format's own.
pub(super) fn rest(neutral: &mut Neutral, fields: &mut Fields, harmless: &[&str]) {
    let left: Map<String, Value> = fields
        .take_all()
        .into_iter()
        .filter(|(name, value)| !is_nothing(value) && !harmless.contains(&name.as_str()))
        .collect();
    neutral.own = left;
}
