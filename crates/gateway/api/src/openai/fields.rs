//! Reads a JSON object field by field, with errors that name the field and say what would do.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::ApiError;
use crate::error::ErrorKind;

/// The fields of one JSON object of a request, at a path in it. A field that is `null` counts as absent.
#[derive(Debug)]
pub struct Fields {
    path: String,
    map: Map<String, Value>,
}

/// Parses a request body. Errors say where the JSON breaks, and in which field if that is known.
pub fn parse(body: &[u8]) -> Result<Fields, ApiError> {
    let text = std::str::from_utf8(body).map_err(|error| {
        ApiError::new(
            ErrorKind::Invalid,
            format!("The body is not UTF-8: byte {} begins no character", error.valid_up_to()),
        )
        .code("invalid_utf8")
        .hint("Send JSON in UTF-8")
    })?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value: Value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = malformed(error.inner());
        // A path of more than this is nesting for its own sake, and helps nobody.
        if path.is_empty() || path == "." || path.len() > 100 { error } else { error.at(path) }
    })?;
    json.end().map_err(|error| malformed(&error))?;
    match value {
        Value::Object(map) => Ok(Fields { path: String::new(), map }),
        other => Err(ApiError::new(
            ErrorKind::Invalid,
            format!("The body must be a JSON object, not {}", kind(&other)),
        )
        .hint("Send the request's fields as `{...}`")),
    }
}

fn malformed(error: &serde_json::Error) -> ApiError {
    // serde_json's message may quote the text it choked on, but no more than a few bytes of it.
    ApiError::new(ErrorKind::Invalid, format!("The body is not valid JSON: {error}"))
        .code("invalid_json")
        .hint("Check the request at that place; numbers must be finite and strings escaped")
}

impl Fields {
    /// The fields of a body.
    pub fn of(map: Map<String, Value>) -> Self {
        Fields { path: String::new(), map }
    }

    /// An object at a path.
    pub fn at(path: String, value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Fields { path, map }),
            other => Err(wrong(&path, "an object", &other)),
        }
    }

    /// The path of a field of this object.
    pub fn path(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Whether the field is there and not null.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The field as it is.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// What is left.
    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// Takes all that is left.
    pub fn take_all(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.map)
    }

    /// Takes the field out, as it is.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.map.get_mut(name).map(Value::take).filter(|value| !value.is_null())
    }

    /// Takes a field that must be there.
    pub fn require(&mut self, name: &str, what: &str) -> Result<Value, ApiError> {
        self.take(name).ok_or_else(|| {
            ApiError::invalid(self.path(name), format!("`{}` is missing", self.path(name)))
                .code("missing_field")
                .hint(format!("Give {what}"))
        })
    }

    /// A string.
    pub fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(&self.path(name), "a string", &other)),
        }
    }

    /// A boolean.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(&self.path(name), "true or false", &other)),
        }
    }

    /// A whole number in a range.
    pub fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        integer(&self.path(name), &value, range).map(Some)
    }

    /// A number in a range. `f32` is what sampling computes in, so that is what is given.
    pub fn number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f32>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let path = self.path(name);
        let wanted = || format!("a number from {} to {}", range.start(), range.end());
        match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number as f32)),
            Some(_) => Err(out_of_range(&path, wanted(), &value)),
            None => Err(wrong(&path, &wanted(), &value)),
        }
    }
}

/// A whole number in a range, at a path.
pub fn integer(path: &str, value: &Value, range: RangeInclusive<i64>) -> Result<i64, ApiError> {
    let wanted = || format!("a whole number from {} to {}", range.start(), range.end());
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(number) if range.contains(&number) => Ok(number),
            _ => Err(out_of_range(path, wanted(), value)),
        },
        other => Err(wrong(path, &wanted(), other)),
    }
}

/// The error for a value of the wrong type. The value itself is not repeated: it may be anything.
pub fn wrong(path: &str, wanted: &str, got: &Value) -> ApiError {
    ApiError::invalid(path, format!("`{path}` must be {wanted}, not {}", kind(got)))
        .code("invalid_type")
}

/// The error for a number outside its range.
fn out_of_range(path: &str, wanted: impl Display, got: &Value) -> ApiError {
    ApiError::invalid(path, format!("`{path}` must be {wanted}, not {got}")).code("invalid_value")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
