//! Thinking that only its provider can read, carried through formats that have one string for it.
//!
//! A message's thinking block has a signature; a response's reasoning item has an id and encrypted content. The item's
//! two are written into one signature, so that a caller who sends his thinking back brings both.

use serde_json::Value;

/// No signature of Anthropic's begins like this: theirs are base64.
const MARK: &str = "openai-reasoning:";

/// The signature of a reasoning item; `None` where there is nothing in it that must come back.
pub(crate) fn seal(item: &Value) -> Option<String> {
    let encrypted = item.get("encrypted_content")?.as_str()?;
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    Some(format!("{MARK}{id}:{encrypted}"))
}
