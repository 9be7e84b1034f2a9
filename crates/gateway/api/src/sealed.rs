//! Thinking that only its provider can read, carried through formats of others.
//!
//! A message's thinking block has a signature; a response's reasoning item has an id and encrypted content. Each is
//! written into the other with a mark, so that a caller who sends his thinking back brings what its provider gave.

use serde_json::Value;

/// A reasoning item in a signature. No signature of Anthropic's begins like this: theirs are base64.
const REASONING: &str = "openai-reasoning:";
/// A signature in a reasoning item's encrypted content, which of OpenAI's is base64, too.
const SIGNATURE: &str = "anthropic-signature:";
/// Redacted thinking there.
const REDACTED: &str = "anthropic-redacted:";

/// The signature for a reasoning item; `None` where there is nothing in it that must come back.
pub(crate) fn signature(item: &Value) -> Option<String> {
    let encrypted = item.get("encrypted_content")?.as_str()?;
    if let Some(signature) = encrypted.strip_prefix(SIGNATURE) {
        return Some(signature.to_owned());
    }
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    Some(format!("{REASONING}{id}:{encrypted}"))
}

/// The id and the encrypted content of a reasoning item for a signature; the id is empty where it never had one.
pub(crate) fn reasoning(signature: &str) -> (&str, String) {
    match signature.strip_prefix(REASONING).and_then(|it| it.split_once(':')) {
        Some((id, encrypted)) => (id, encrypted.to_owned()),
        None => ("", format!("{SIGNATURE}{signature}")),
    }
}

/// Redacted thinking as the encrypted content of a reasoning item.
pub(crate) fn redacted(data: &str) -> String {
    format!("{REDACTED}{data}")
}

/// The redacted thinking in a reasoning item, where it is that.
pub(crate) fn unredacted(item: &Value) -> Option<&str> {
    item.get("encrypted_content")?.as_str()?.strip_prefix(REDACTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_went_in_comes_out() {
        let item = json!({ "id": "rs_1", "encrypted_content": "ZW5j:x" });
        let sealed = signature(&item).unwrap_or_default();
        assert_eq!(reasoning(&sealed), ("rs_1", "ZW5j:x".to_owned()));
        let (id, encrypted) = reasoning("c2ln");
        assert_eq!(id, "");
        assert_eq!(signature(&json!({ "encrypted_content": encrypted })).as_deref(), Some("c2ln"));
        let item = json!({ "encrypted_content": redacted("x") });
        assert_eq!(unredacted(&item), Some("x"));
        assert_eq!(unredacted(&json!({ "encrypted_content": null })), None);
    }
}
