//! JSON schemas as far as an answer can be held to them.

use serde_json::{Map, Value, json};

use super::ConstraintError;

/// Keywords that say something about a value and that the grammar can't keep to. A schema that has one is refused: to
/// leave it out would be to promise more than is checked.
const UNSUPPORTED: [&str; 22] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "uniqueItems",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "extends",
    "disallow",
    "divisibleBy",
];

/// Keywords whose value is a map of names to schemas.
const MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Keywords whose value is a schema or a list of them.
const SCHEMAS: [&str; 7] =
    ["items", "prefixItems", "additionalItems", "additionalProperties", "anyOf", "oneOf", "allOf"];

/// llguidance's own options in a schema; a caller's are not its to set.
const OPTIONS: &str = "x-guidance";

/// White space between the parts of JSON: a space, or a new line with some indentation. A small model that may write any
/// amount of it may write nothing else.
const WHITE_SPACE: &str = r"[\x20]|\n[\x20\t]{0,16}";

/// A schema whose keywords can all be kept to.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonShape(Value);

impl JsonShape {
    /// Reads a schema.
    ///
    /// # Errors
    /// When it has a keyword that can't be kept to; the error names it and where it is.
    pub fn new(schema: &Value) -> Result<Self, ConstraintError> {
        check(schema, &mut String::new())?;
        Ok(JsonShape(schema.clone()))
    }

    /// Any object.
    #[must_use]
    pub fn object() -> Self {
        JsonShape(json!({ "type": "object" }))
    }

    /// The schema as it was read.
    #[must_use]
    pub fn into_schema(self) -> Value {
        self.0
    }

    /// The schema as a grammar takes it: the argument of `%json` in a Lark grammar. References must lead into it.
    #[must_use]
    pub fn grammar(&self) -> Value {
        let mut schema = match &self.0 {
            Value::Object(schema) => schema.clone(),
            // A schema that is `true` or `false`.
            other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
        };
        let options = json!({ "whitespace_flexible": true, "whitespace_pattern": WHITE_SPACE });
        schema.insert(OPTIONS.to_owned(), options);
        Value::Object(schema)
    }
}

/// Recursion is bounded by the depth to which JSON is parsed.
fn check(schema: &Value, path: &mut String) -> Result<(), ConstraintError> {
    let Value::Object(schema) = schema else { return Ok(()) };
    for (keyword, value) in schema {
        let harmless = keyword == "uniqueItems" && value == &Value::Bool(false);
        if UNSUPPORTED.contains(&keyword.as_str()) && !harmless {
            let path = if path.is_empty() { "the schema's root".to_owned() } else { path.clone() };
            return Err(ConstraintError::Keyword { keyword: keyword.clone(), path });
        }
        match value {
            Value::Object(named) if MAPS.contains(&keyword.as_str()) => {
                for (name, schema) in named {
                    below(path, &[keyword, name], schema)?;
                }
            }
            Value::Object(_) if SCHEMAS.contains(&keyword.as_str()) => {
                below(path, &[keyword], value)?;
            }
            Value::Array(schemas) if SCHEMAS.contains(&keyword.as_str()) => {
                for (at, schema) in schemas.iter().enumerate() {
                    below(path, &[keyword, &at.to_string()], schema)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn below(path: &mut String, steps: &[&str], schema: &Value) -> Result<(), ConstraintError> {
    let length = path.len();
    for step in steps {
        path.push('/');
        path.push_str(&step.replace('~', "~0").replace('/', "~1"));
    }
    check(schema, path)?;
    path.truncate(length);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_is_named_with_its_place() {
        let schema = json!({
            "type": "object",
            "properties": { "not": { "type": "string" }, "a/b": { "anyOf": [{ "type": "null" }, { "not": {} }] } }
        });
        assert_eq!(
            JsonShape::new(&schema),
            Err(ConstraintError::Keyword {
                keyword: "not".to_owned(),
                path: "/properties/a~1b/anyOf/1".to_owned()
            })
        );
        assert!(JsonShape::new(&json!({ "uniqueItems": false })).is_ok());
        let error = JsonShape::new(&json!({ "uniqueItems": true })).unwrap_err();
        assert_eq!(error.to_string(), "`uniqueItems` at the schema's root is not supported");
    }

    #[test]
    fn a_caller_sets_no_options() {
        let shape = JsonShape::new(&json!({ "x-guidance": { "lenient": true } })).unwrap();
        assert_eq!(shape.grammar()["x-guidance"].get("lenient"), None);
        assert_eq!(JsonShape::new(&json!(false)).unwrap().grammar()["allOf"], json!([false]));
    }
}
