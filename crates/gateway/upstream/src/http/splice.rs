//! Edits of a JSON object's own fields that leave every other byte as it came.
//!
//! A request is forwarded as its client wrote it: numbers keep their digits, unknown fields their spelling, and a
//! prompt of half a megabyte isn't written anew to change the name of a model.

/// What becomes of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Its name; must need no escapes.
    pub(crate) field: &'static str,
    /// Its new value as JSON text; `None` takes it out.
    pub(crate) value: Option<String>,
}

impl Edit {
    pub(crate) fn set(field: &'static str, value: impl ToString) -> Self {
        Edit { field, value: Some(value.to_string()) }
    }

    pub(crate) fn remove(field: &'static str) -> Self {
        Edit { field, value: None }
    }
}

/// A field in the text: where its name begins and its value begins and ends.
struct Span<'a> {
    name: &'a [u8],
    start: usize,
    value: std::ops::Range<usize>,
}

/// The object with its edits. `None` where the text is no JSON object, which its reader found it to be.
pub(crate) fn splice(text: &[u8], edits: &[Edit]) -> Option<Vec<u8>> {
    let spans = spans(text)?;
    let mut out = Vec::with_capacity(text.len() + 256);
    let mut first = true;
    let mut comma = |out: &mut Vec<u8>| {
        if !std::mem::replace(&mut first, false) {
            out.push(b',');
        }
    };
    out.push(b'{');
    let of = |name: &[u8]| edits.iter().rev().find(|edit| edit.field.as_bytes() == name);
    for edit in edits {
        let is_new = !spans.iter().any(|span| span.name == edit.field.as_bytes());
        let is_last = of(edit.field.as_bytes()).is_some_and(|last| std::ptr::eq(last, edit));
        if let (true, true, Some(value)) = (is_new, is_last, &edit.value) {
            comma(&mut out);
            out.extend_from_slice(format!("\"{}\":", edit.field).as_bytes());
            out.extend_from_slice(value.as_bytes());
        }
    }
    for span in &spans {
        match of(span.name) {
            None => {
                comma(&mut out);
                out.extend_from_slice(&text[span.start..span.value.end]);
            }
            Some(Edit { value: Some(value), .. }) => {
                comma(&mut out);
                out.extend_from_slice(&text[span.start..span.value.start]);
                out.extend_from_slice(value.as_bytes());
            }
            Some(Edit { value: None, .. }) => {}
        }
    }
    out.push(b'}');
    Some(out)
}

fn spans(text: &[u8]) -> Option<Vec<Span<'_>>> {
    let mut at = blank(text, 0);
    let mut spans = Vec::new();
    at = expect(text, at, b'{')?;
    if text.get(at)? == &b'}' {
        return Some(spans);
    }
    loop {
        let start = at;
        let end = string(text, at)?;
        let name = &text[start + 1..end - 1];
        at = expect(text, blank(text, end), b':')?;
        let value = at..skip(text, at)?;
        at = blank(text, value.end);
        spans.push(Span { name, start, value });
        match text.get(at)? {
            b',' => at = blank(text, at + 1),
            b'}' => return Some(spans),
            _ => return None,
        }
    }
}

/// Behind the byte that must stand here, and the blanks behind it.
fn expect(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    (text.get(at)? == &byte).then(|| blank(text, at + 1))
}

fn blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|byte| byte.is_ascii_whitespace()) {
        at += 1;
    }
    at
}

/// Behind a string.
fn string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at)? != &b'"' {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        match text.get(at)? {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Behind a value. Brackets are counted, not matched: the text was read as JSON before.
fn skip(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string(text, at),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0usize, at);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = string(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        _ => {
            let rest = text.get(at..)?;
            let end = rest.iter().position(|byte| {
                matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace()
            })?;
            (end > 0).then_some(at + end)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    fn run(text: &str, edits: &[Edit]) -> String {
        String::from_utf8(splice(text.as_bytes(), edits).unwrap()).unwrap()
    }

    #[test]
    fn other_bytes_stay() {
        let text =
            r#" { "model" : "a\"b", "t": 1.0, "n": 12345678901234567890123 , "x":[{"}":"]"}] } "#;
        let edits = [Edit::set("model", r#""m""#), Edit::set("salt", "1"), Edit::remove("t")];
        assert_eq!(
            run(text, &edits),
            r#"{"salt":1,"model" : "m","n": 12345678901234567890123,"x":[{"}":"]"}]}"#
        );
        assert_eq!(run("{}", &edits[1..2]), r#"{"salt":1}"#);
        assert_eq!(run(r#"{"t":1}"#, &[Edit::remove("t")]), "{}");
        assert!(splice(b"[1]", &[]).is_none() && splice(b"{\"a\":1", &[]).is_none());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(".{0,5}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The same as reading, changing and writing it.
        #[test]
        fn as_a_map_would_be_changed(
            fields in prop::collection::vec((prop::sample::select(vec!["model", "t", "a b", "é", "x\n"]), value()), 0..5),
            pretty: bool,
        ) {
            let map: Map<String, Value> = fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            let object = Value::Object(map.clone());
            let text = if pretty { serde_json::to_string_pretty(&object).unwrap() } else { object.to_string() };
            let mut wanted = map;
            wanted.insert("model".into(), "new".into());
            wanted.remove("t");
            let got = run(&text, &[Edit::set("model", "\"new\""), Edit::remove("t")]);
            prop_assert_eq!(serde_json::from_str::<Value>(&got).unwrap(), Value::Object(wanted));
        }
    }
}
