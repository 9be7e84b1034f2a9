//! JSON in a stream of text: where a value ends, and whether it is a call.

use serde_json::Value;

/// Watches for the end of a JSON object or list without keeping it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

/// How far a text goes into a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    Open,
    /// It ends after so many bytes.
    Ends(usize),
    /// It is no object or list of JSON.
    Broken,
}

impl Scan {
    /// Takes the next piece of text.
    pub(super) fn push(&mut self, text: &str) -> Step {
        for (at, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 1 => return Step::Ends(at + 1),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                b'"' => self.in_string = true,
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' | b'+' | b'-' | b'.' => {}
                _ if byte.is_ascii_alphanumeric() => {}
                _ => return Step::Broken,
            }
            if self.depth == 0 && !byte.is_ascii_whitespace() {
                return Step::Broken;
            }
        }
        Step::Open
    }

    /// Takes from a buffer what of it are arguments, and tells whether they ended there.
    pub(super) fn arguments(&mut self, buffer: &mut String) -> (String, bool) {
        match self.push(buffer) {
            Step::Ends(at) => (buffer.drain(..at).collect(), true),
            Step::Open | Step::Broken => (std::mem::take(buffer), false),
        }
    }
}

/// The name and the arguments of a call: an object with a name and an object under one of the names that models use.
/// The arguments are as the model wrote them, so that the next turn's prompt can begin with the same tokens.
pub(super) fn call(json: &str) -> Option<(String, String)> {
    let Ok(Value::Object(mut call)) = serde_json::from_str(json) else { return None };
    let Some(Value::String(name)) = call.remove("name") else { return None };
    let key = if call.contains_key("arguments") { "arguments" } else { "parameters" };
    let arguments = match call.remove(key) {
        Some(arguments @ Value::Object(_)) => {
            written(json, key).map_or_else(|| arguments.to_string(), str::to_owned)
        }
        // Some models write the arguments as a string that holds the JSON.
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(arguments @ Value::Object(_)) => arguments.to_string(),
            _ => return None,
        },
        // A tool without arguments may be called without any.
        None => "{}".to_owned(),
        Some(_) => return None,
    };
    Some((name, arguments))
}

/// The value under a key of an object, as it is written there.
fn written<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = json.trim_start().strip_prefix('{')?;
    loop {
        // A key, and the value behind it.
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        let name = value(rest)?;
        rest = rest[name.len()..].trim_start().strip_prefix(':')?.trim_start();
        let value = value(rest)?;
        if serde_json::from_str::<String>(name).is_ok_and(|name| name == key) {
            return Some(value);
        }
        rest = &rest[value.len()..];
    }
}

/// The JSON value at a text's start.
fn value(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(&text[..values.byte_offset()])
}

/// The name in a call that a grammar wrote, and where its arguments begin; `None` while they haven't begun.
pub(super) fn held_head(text: &str, key: &str) -> Option<(String, usize)> {
    let name = text.find(super::grammar::NAME)? + super::grammar::NAME.len();
    // A quotation mark inside the name would have a backslash before it.
    let between = format!(", \"{key}\": ");
    let end = name + text[name..].find(&format!("\"{between}"))? + 1;
    let written = serde_json::from_str(&text[name - 1..end]).ok()?;
    Some((written, end + between.len()))
}

/// The length of the longest end of `text` that is a beginning of `marker` and not all of it.
pub(super) fn overlap(text: &str, marker: &str) -> usize {
    let most = text.len().min(marker.len() - 1);
    (1..=most).rev().find(|&n| text.as_bytes().ends_with(&marker.as_bytes()[..n])).unwrap_or(0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_last_bracket_does_wherever_it_is_cut() {
        let text = r#" {"a": ["}", "\"}", {"b": -1.5e+3}], "c": null} tail"#;
        let end = text.len() - " tail".len();
        for cut in 0..end {
            let mut scan = Scan::default();
            assert_eq!(scan.push(&text[..cut]), Step::Open, "{cut}");
            assert_eq!(scan.push(&text[cut..]), Step::Ends(end - cut), "{cut}");
        }
        assert_eq!(Scan::default().push("hello"), Step::Broken);
        assert_eq!(Scan::default().push("{\"a\": <"), Step::Broken);
    }

    #[test]
    fn a_call_has_a_name_and_an_object() {
        let read = |text: &str| call(text).map(|(name, arguments)| format!("{name}{arguments}"));
        assert_eq!(
            read(r#"{"name": "f", "arguments": {"b": 1, "a": 2}}"#).unwrap(),
            r#"f{"b": 1, "a": 2}"#
        );
        assert_eq!(read(r#"{"name": "f", "parameters": {}}"#).unwrap(), "f{}");
        assert_eq!(read(r#"{"name": "f", "arguments": "{\"a\": 1}"}"#).unwrap(), r#"f{"a":1}"#);
        assert_eq!(read(r#"{"name": "f"}"#).unwrap(), "f{}");
        for broken in
            ["{}", r#"{"name": 1}"#, r#"{"name": "f", "arguments": [1]}"#, r#"{"name": "f","#]
        {
            assert_eq!(read(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_held_call_tells_its_name_before_its_arguments() {
        let text = r#"{"name": "a\"b", "arguments": {"x": 1}}"#;
        let (name, at) = held_head(text, "arguments").unwrap();
        assert_eq!((name.as_str(), &text[at..]), ("a\"b", r#"{"x": 1}}"#));
        assert_eq!(held_head(&text[..20], "arguments"), None);
    }
}
