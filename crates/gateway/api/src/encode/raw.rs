//! An upstream's chunks and bodies on their way to a caller of the same format.
//!
//! They are passed on byte for byte, unless something in them must not be: the id and the time of another call, counts
//! of cached tokens that are hidden, and a note that is to be added.

use serde_json::{Map, Value};

use super::{Head, frame};
use crate::event::Raw;
use crate::{Format, Usage};

/// Adds a chunk to a stream.
pub(super) fn chunk(head: &Head, raw: &Raw, note: Option<&Value>, out: &mut String) {
    let name = raw.event.as_deref();
    match edited(head, &raw.data, false, note) {
        Some(data) => frame(name, &data, out),
        None => frame(name, &raw.data, out),
    }
}

/// The body to send.
pub(super) fn body(head: &Head, body: &str, note: Option<Value>) -> String {
    edited(head, body, true, note.as_ref()).unwrap_or_else(|| body.to_owned())
}

/// The JSON with what must change changed; `None` where nothing must.
fn edited(head: &Head, data: &str, whole: bool, note: Option<&Value>) -> Option<String> {
    if !head.replayed && !head.hide_cached && note.is_none() {
        return None;
    }
    let mut value: Value = serde_json::from_str(data).ok()?;
    let fields = value.as_object_mut()?;
    if head.replayed {
        restamp(head, fields, whole);
    }
    if head.hide_cached {
        hide(head.format, fields);
    }
    if let Some(note) = note {
        let place = match (head.format, whole) {
            (Format::Responses, false) => fields.get_mut("response").and_then(Value::as_object_mut),
            _ => Some(fields),
        };
        if let Some(place) = place {
            place.insert("tapri".into(), note.clone());
        }
    }
    Some(value.to_string())
}

/// A replayed answer is a new one: its id and its time are those of the call that it answers.
fn restamp(head: &Head, fields: &mut Map<String, Value>, whole: bool) {
    let stamp = |fields: &mut Map<String, Value>, created: Option<&str>| {
        if fields.contains_key("id") {
            fields.insert("id".into(), head.id.clone().into());
        }
        if let Some(created) = created.filter(|created| fields.contains_key(*created)) {
            fields.insert(created.into(), head.created.into());
        }
    };
    let inner = |fields: &mut Map<String, Value>, name: &str, created: Option<&str>| {
        if let Some(inner) = fields.get_mut(name).and_then(Value::as_object_mut) {
            stamp(inner, created);
        }
    };
    match (head.format, whole) {
        (Format::Messages, true) => stamp(fields, None),
        (Format::Messages, false) => inner(fields, "message", None),
        (Format::Responses, true) => stamp(fields, Some("created_at")),
        (Format::Responses, false) => inner(fields, "response", Some("created_at")),
        (_, true) => stamp(fields, Some("created")),
        (_, false) => {
            stamp(fields, Some("created"));
            // The stored stream may be that of a caller who asked for the usage, or who didn't.
            let has_choices =
                fields.get("choices").and_then(Value::as_array).is_some_and(|it| !it.is_empty());
            if !head.include_usage {
                fields.shift_remove("usage");
            } else if has_choices && !fields.contains_key("usage") {
                fields.insert("usage".into(), Value::Null);
            }
        }
    }
}

fn hide(format: Format, fields: &mut Map<String, Value>) {
    // llama-server's, which count what was computed and what was not.
    fields.shift_remove("timings");
    fields.shift_remove("prompt_cache_diagnostics");
    fields.shift_remove("diagnostics");
    if let Some(usage) = fields.get_mut("usage") {
        hide_cached(format, usage);
    }
    for name in ["message", "response"] {
        if let Some(Value::Object(inner)) = fields.get_mut(name) {
            hide(format, inner);
        }
    }
}

/// Takes out of a usage what tells how much of the prompt was cached.
pub(super) fn hide_cached(format: Format, usage: &mut Value) {
    let whole = (format == Format::Messages).then(|| Usage::from_anthropic(usage).prompt());
    let Some(fields) = usage.as_object_mut() else { return };
    for name in [
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cache_creation",
        "prompt_cache_hit_tokens",
        "prompt_cache_miss_tokens",
        "cached_tokens",
        "prompt_tokens_details",
        "input_tokens_details",
        "cost",
        "cost_details",
        "cache_discount",
    ] {
        fields.shift_remove(name);
    }
    if let Some(Some(prompt)) = whole {
        fields.insert("input_tokens".into(), prompt.into());
    }
}
