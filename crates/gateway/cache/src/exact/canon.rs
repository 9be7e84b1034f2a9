//! The canonical form of a request's JSON: what is the same request has the same bytes.
//!
//! As RFC 8785 does it: members sorted by name, no white space, numbers in one form. Arrays keep their order, since
//! it matters there.

use std::io::Write;

use serde_json::{Map, Number, Value};

/// The largest whole number up to which every whole number is a double of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A request's fields in canonical form.
pub(crate) struct Canonical {
    /// The form.
    pub(crate) bytes: Vec<u8>,
    /// Whether it says as much as the request did. It doesn't where a number is too large for a double, so that two
    /// numbers may have become one.
    pub(crate) exact: bool,
    /// Members that were seen, those of skipped fields included.
    members: usize,
}

/// The canonical form of fields, without those that are skipped at the top.
pub(crate) fn canonical(fields: &Map<String, Value>, skip: impl Fn(&str) -> bool) -> Canonical {
    let mut form = Canonical { bytes: Vec::with_capacity(1024), exact: true, members: 0 };
    form.object(fields, &skip);
    // Skipped fields count as well: the text that they are compared with has them.
    for (_, value) in fields.iter().filter(|(name, _)| skip(name)) {
        form.members += 1 + members(value);
    }
    form
}

impl Canonical {
    /// Whether a member was named twice in an object of the text these fields were read from. Readers differ in
    /// which of the two they take, so that such a request may mean two things.
    pub(crate) fn is_ambiguous(&self, text: &[u8]) -> bool {
        colons(text) != self.members
    }

    fn object(&mut self, fields: &Map<String, Value>, skip: &impl Fn(&str) -> bool) {
        let mut sorted: Vec<(&String, &Value)> =
            fields.iter().filter(|(name, _)| !skip(name)).collect();
        // By bytes of UTF-8. RFC 8785 sorts by UTF-16; any fixed order will do here.
        sorted.sort_unstable_by_key(|(name, _)| *name);
        self.members += sorted.len();
        self.bytes.push(b'{');
        for (i, (name, value)) in sorted.into_iter().enumerate() {
            if i > 0 {
                self.bytes.push(b',');
            }
            self.string(name);
            self.bytes.push(b':');
            self.value(value);
        }
        self.bytes.push(b'}');
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes.extend_from_slice(b"null"),
            Value::Bool(true) => self.bytes.extend_from_slice(b"true"),
            Value::Bool(false) => self.bytes.extend_from_slice(b"false"),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.bytes.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.bytes.push(b',');
                    }
                    self.value(item);
                }
                self.bytes.push(b']');
            }
            Value::Object(fields) => self.object(fields, &|_| false),
        }
    }

    fn number(&mut self, number: &Number) {
        // Writing into a vector can't fail.
        let _ = match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), _, _) => write!(self.bytes, "{whole}"),
            (_, Some(whole), _) => write!(self.bytes, "{whole}"),
            (_, _, Some(real)) if real.fract() == 0.0 && real.abs() < EXACT => {
                write!(self.bytes, "{}", real as i64)
            }
            (_, _, Some(real)) => {
                self.exact &= real.abs() < EXACT;
                // The shortest digits that read back as the same double.
                write!(self.bytes, "{real:?}")
            }
            _ => {
                self.exact = false;
                write!(self.bytes, "{number}")
            }
        };
    }

    fn string(&mut self, text: &str) {
        // Only what must be escaped is; that a text can't end early is all that matters here.
        self.bytes.push(b'"');
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
            let (plain, special) = rest.split_at(at);
            self.bytes.extend_from_slice(plain);
            self.bytes.push(b'\\');
            self.bytes.extend(special.first());
            rest = special.get(1..).unwrap_or_default();
        }
        self.bytes.extend_from_slice(rest);
        self.bytes.push(b'"');
    }
}

/// Members of all objects in a value.
fn members(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(members).sum(),
        Value::Object(fields) => fields.values().map(|value| 1 + members(value)).sum(),
        _ => 0,
    }
}

/// Colons outside of strings: one for each member of an object.
fn colons(text: &[u8]) -> usize {
    let (mut count, mut rest) = (0, text);
    loop {
        let Some(quote) = rest.iter().position(|byte| *byte == b'"') else {
            return count + rest.iter().filter(|byte| **byte == b':').count();
        };
        let (outside, inside) = rest.split_at(quote);
        count += outside.iter().filter(|byte| **byte == b':').count();
        rest = after_string(inside.get(1..).unwrap_or_default());
    }
}

/// What follows the string that begins here.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        if rest.get(at) == Some(&b'"') {
            return rest.get(at + 1..).unwrap_or_default();
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn form(text: &str) -> Canonical {
        canonical(&serde_json::from_str(text).unwrap(), |name| name == "stream")
    }

    fn text(json: &str) -> String {
        String::from_utf8(form(json).bytes).unwrap()
    }

    #[test]
    fn members_are_sorted_and_numbers_have_one_form() {
        let json =
            r#" { "b" : [3, 1.0, 1e1, -0.0, 0.10], "a": {"z": null, "y": true}, "stream": true } "#;
        assert_eq!(text(json), r#"{"a":{"y":true,"z":null},"b":[3,1,10,0,0.1]}"#);
        assert_eq!(text(r#"{"a":"q\"\\\u00e9\n"}"#), "{\"a\":\"q\\\"\\\\é\n\"}");
        assert_ne!(text(r#"{"seed":9007199254740993}"#), text(r#"{"seed":9007199254740992}"#));
    }

    #[test]
    fn a_number_that_no_double_holds_is_not_exact() {
        assert!(form(r#"{"seed":18446744073709551615}"#).exact);
        assert!(!form(r#"{"seed":18446744073709551616}"#).exact);
        assert!(!form(r#"{"seed":1e300}"#).exact);
    }

    #[test]
    fn a_member_named_twice_is_seen() {
        for (json, ambiguous) in [
            (r#"{"a":1,"stream":true}"#, false),
            (r#"{"a":":\":\\","b":{"c":[{"d":1}]}}"#, false),
            (r#"{"a":1,"a":2}"#, true),
            (r#"{"a":{"b":[{"c":1,"c":1}]}}"#, true),
            (r#"{"stream":{"a":1,"a":2}}"#, true),
            (r#"{"stream":true,"stream":false}"#, true),
        ] {
            assert_eq!(form(json).is_ambiguous(json.as_bytes()), ambiguous, "{json}");
        }
    }
}
