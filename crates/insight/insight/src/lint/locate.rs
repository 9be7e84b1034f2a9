//! A path's place in the text of a file.
//!
//! The text is walked once, without building a tree; what lies beside the path is skipped.

use crate::prompt::{MAX_WRAPPERS, WRAPPERS};

/// What else a path may stand under: an input that is an object, and parameters beside the messages.
const BESIDE: [&str; 2] = ["input", "optional_params"];

/// A line and a column of a text, both from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The byte of a JSON text at which the value at a path begins, or the character of it where it is a string.
#[must_use]
pub fn byte_of(json: &str, path: &str, character: Option<u64>) -> Option<usize> {
    let steps = steps(path)?;
    let start = skip_space(json.as_bytes(), 0);
    let value = walk(json.as_bytes(), start, &steps, MAX_WRAPPERS)?;
    Some(match character {
        Some(character) if json.as_bytes().get(value) == Some(&b'"') => {
            character_of(json, value, character)
        }
        _ => value,
    })
}

/// The line and column of a byte.
#[must_use]
pub fn position(text: &str, byte: usize) -> Position {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    Position { line, column }
}

#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// `messages[0].content` as steps.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for field in path.split('.').filter(|field| !field.is_empty()) {
        let (key, mut rest) = field.split_at(field.find('[').unwrap_or(field.len()));
        if !key.is_empty() {
            steps.push(Step::Key(key));
        }
        while let Some(open) = rest.strip_prefix('[') {
            let (index, after) = open.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = after;
        }
    }
    Some(steps)
}

/// The value at the steps from the value at `at`; looks under a log's wrappers where the first isn't there.
fn walk(json: &[u8], at: usize, steps: &[Step<'_>], depth: usize) -> Option<usize> {
    let Some((first, rest)) = steps.split_first() else { return Some(at) };
    let found = match first {
        Step::Key(key) => member(json, at, key),
        Step::Index(index) => element(json, at, *index),
    };
    if let Some(value) = found.and_then(|value| walk(json, value, rest, 0)) {
        return Some(value);
    }
    if depth == 0 || json.get(at) != Some(&b'{') {
        return None;
    }
    let under = WRAPPERS.iter().chain(&BESIDE);
    under.into_iter().find_map(|wrapper| walk(json, member(json, at, wrapper)?, steps, depth - 1))
}

fn member(json: &[u8], at: usize, key: &str) -> Option<usize> {
    let mut at = skip_space(json, enter(json, at, b'{')?);
    while json.get(at) == Some(&b'"') {
        let end = skip_string(json, at)?;
        let name = &json[at..end];
        at = skip_space(json, end);
        if json.get(at) != Some(&b':') {
            return None;
        }
        at = skip_space(json, at + 1);
        if serde_json::from_slice::<String>(name).is_ok_and(|name| name == key) {
            return Some(at);
        }
        at = skip_space(json, skip_value(json, at)?);
        if json.get(at) != Some(&b',') {
            return None;
        }
        at = skip_space(json, at + 1);
    }
    None
}

fn element(json: &[u8], at: usize, index: usize) -> Option<usize> {
    let mut at = skip_space(json, enter(json, at, b'[')?);
    for _ in 0..index {
        at = skip_space(json, skip_value(json, at)?);
        if json.get(at) != Some(&b',') {
            return None;
        }
        at = skip_space(json, at + 1);
    }
    json.get(at).filter(|byte| **byte != b']').map(|_| at)
}

fn enter(json: &[u8], at: usize, open: u8) -> Option<usize> {
    (json.get(at) == Some(&open)).then_some(at + 1)
}

fn skip_space(json: &[u8], mut at: usize) -> usize {
    while json.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Behind the closing quote of the string at `at`.
fn skip_string(json: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Behind the value at `at`, without recursion: brackets are counted.
fn skip_value(json: &[u8], mut at: usize) -> Option<usize> {
    let mut open = 0usize;
    loop {
        match json.get(at)? {
            b'"' => at = skip_string(json, at)?,
            b'{' | b'[' => {
                open += 1;
                at += 1;
            }
            b'}' | b']' => {
                open = open.checked_sub(1)?;
                at += 1;
            }
            byte if byte.is_ascii_whitespace() || matches!(byte, b',' | b':') => {
                at += 1;
                continue;
            }
            _ => {
                while json.get(at).is_some_and(|byte| {
                    !byte.is_ascii_whitespace() && !matches!(byte, b',' | b']' | b'}')
                }) {
                    at += 1;
                }
            }
        }
        if open == 0 {
            return Some(at);
        }
    }
}

/// The byte of a character of the string that begins at `at`.
fn character_of(json: &str, at: usize, character: u64) -> usize {
    let mut byte = at + 1;
    let mut left = character;
    while left > 0 {
        let rest = &json[byte..];
        let step = match rest.chars().next() {
            None | Some('"') => break,
            Some('\\') if rest.starts_with("\\u") => {
                // Two escapes of a pair are one character.
                let high = rest.get(2..6).and_then(|hex| u16::from_str_radix(hex, 16).ok());
                if high.is_some_and(|unit| (0xd800..0xdc00).contains(&unit)) { 12 } else { 6 }
            }
            Some('\\') => 2,
            Some(c) => c.len_utf8(),
        };
        byte = (byte + step).min(json.len());
        left -= 1;
    }
    byte
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const JSON: &str = r#"{"model": "m", "x": [1, {"y": "\"}"}, -2.5e3],
 "messages": [{"role": "system", "content": "a\nb \u00e9\ud83d\ude00 time"},
  {"content": [{"type": "text", "text": "é then"}]}]}"#;

    fn found(path: &str, character: Option<u64>) -> &str {
        &JSON[byte_of(JSON, path, character).unwrap()..]
    }

    #[test]
    fn places_are_found() {
        assert!(found("model", None).starts_with("\"m\""));
        assert!(found("x[2]", None).starts_with("-2.5e3"));
        assert!(found("messages[0].content", Some(7)).starts_with("time"));
        assert!(found("messages[1].content[0].text", Some(2)).starts_with("then"));
        assert!(found("messages[0]", None).starts_with("{\"role\""));
        assert_eq!(byte_of(JSON, "messages[2]", None), None);
        assert_eq!(byte_of(JSON, "nothing", None), None);
        let place = byte_of(JSON, "messages[1].content[0].text", Some(2)).unwrap();
        assert_eq!(position(JSON, place), Position { line: 3, column: 44 });
    }

    #[test]
    fn under_a_logs_wrapper() {
        let line = r#"{"ts": 1, "request": {"body": {"system": "now"}}}"#;
        let at = byte_of(line, "system", Some(1)).unwrap();
        assert_eq!(&line[at..at + 2], "ow");
    }

    #[test]
    fn broken_text_has_no_places() {
        for text in ["", "{", "{\"a\"", "{\"a\": [", "{\"a\": \"x", "[1,", "\"a"] {
            assert_eq!(byte_of(text, "a[1].b", Some(3)), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn characters_are_where_they_are(text in "\\PC{0,20}", at in 0usize..20) {
            let json = serde_json::json!({"a": [text.clone()]}).to_string();
            let byte = byte_of(&json, "a[0]", Some(at as u64)).unwrap();
            let rest: String = text.chars().skip(at).collect();
            let quoted = serde_json::to_string(&rest).unwrap();
            prop_assert!(json[byte..].starts_with(&quoted[1..]), "{} {}", json, byte);
        }

        #[test]
        fn nothing_panics(json in "[\\[\\]{}\":,a1\\\\ ]{0,30}", path in "[a.\\[\\]0-9]{0,8}") {
            let _ = byte_of(&json, &path, Some(2));
        }
    }
}
