//! A line without its texts: objects and short scalars are kept, lists and long strings are passed over.
//!
//! Lines of logs carry whole prompts; the counts beside them are small. Reading a line this way needs memory for
//! the line and little else.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Longer strings are no name, time or id.
const LONGEST: usize = 512;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sketch {
    Null,
    Bool,
    Whole(u64),
    /// A negative or a broken number.
    Number(f64),
    Text(Box<str>),
    Object(Vec<(Box<str>, Sketch)>),
    /// A list, or a string that is too long.
    Passed,
}

impl Sketch {
    pub(super) fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// A field; one that is `null` counts as not there.
    pub(super) fn get(&self, key: &str) -> Option<&Sketch> {
        let Self::Object(fields) = self else { return None };
        let found = fields.iter().find(|(name, _)| **name == *key)?;
        (found.1 != Self::Null).then_some(&found.1)
    }

    /// Whether a field is there, be it `null`.
    pub(super) fn has(&self, key: &str) -> bool {
        matches!(self, Self::Object(fields) if fields.iter().any(|(name, _)| **name == *key))
    }

    /// A field of a field.
    pub(super) fn at(&self, path: &[&str]) -> Option<&Sketch> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// A field that is a text with something in it.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.trim().is_empty() => Some(text.trim()),
            _ => None,
        }
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("true or false"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) if number.abs() >= 1e15 => write!(f, "{number:e}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{}\"", text.chars().take(40).collect::<String>()),
            Self::Object(_) => f.write_str("an object"),
            Self::Passed => f.write_str("a list or a long text"),
        }
    }
}

impl<'de> Deserialize<'de> for Sketch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Sketch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Sketch, E> {
        Ok(Sketch::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Sketch, E> {
        Ok(Sketch::Bool)
    }

    fn visit_u64<E>(self, number: u64) -> Result<Sketch, E> {
        Ok(Sketch::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Sketch, E> {
        Ok(u64::try_from(number).map_or(Sketch::Number(number as f64), Sketch::Whole))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Sketch, E> {
        Ok(Sketch::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Sketch, E> {
        Ok(if text.len() <= LONGEST { Sketch::Text(text.into()) } else { Sketch::Passed })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sketch, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Sketch::Passed)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sketch, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Box<str>>()? {
            fields.push((key, map.next_value()?));
        }
        Ok(Sketch::Object(fields))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_lists_are_passed_over() {
        let long = "x".repeat(LONGEST + 1);
        let line = format!(
            r#"{{"a": {{"b": 7, "c": -1}}, "long": "{long}", "list": [[{{}}]], "n": null}}"#
        );
        let line: Sketch = serde_json::from_str(&line).unwrap();
        assert_eq!(line.at(&["a", "b"]), Some(&Sketch::Whole(7)));
        assert_eq!(line.at(&["a", "c"]), Some(&Sketch::Number(-1.0)));
        assert_eq!(line.get("long"), Some(&Sketch::Passed));
        assert_eq!(line.get("list"), Some(&Sketch::Passed));
        assert!(line.get("n").is_none() && line.has("n"));
    }
}
