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

    /// The same shape without properties that it doesn't name, wherever it names some and says nothing of others. What
    /// fits this fits the other as well, and a small model that may invent properties does nothing else.
    ///
    /// Where schemas are joined (`allOf`, or a reference beside other keywords) one part's properties are another's
    /// others, so such a shape stays as it is.
    #[must_use]
    pub fn closed(mut self) -> Self {
        if !joins(&self.0) {
            close(&mut self.0);
        }
        self
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

fn joins(schema: &Value) -> bool {
    match schema {
        Value::Object(schema) => {
            let combines = ["anyOf", "oneOf", "$ref"].iter().any(|key| schema.contains_key(*key));
            schema.contains_key("allOf")
                || (combines && schema.contains_key("properties"))
                || schema.values().any(joins)
        }
        Value::Array(items) => items.iter().any(joins),
        _ => false,
    }
}

fn close(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    let names_all = schema.get("properties").and_then(Value::as_object).is_some_and(|named| {
        let required = schema.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        !named.is_empty() && required.into_iter().all(|name| named.contains_key(name))
    });
    if names_all && !schema.contains_key("patternProperties") {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    for (keyword, value) in schema {
        match value {
            Value::Object(named) if MAPS.contains(&keyword.as_str()) => {
                named.values_mut().for_each(close);
            }
            Value::Object(_) if SCHEMAS.contains(&keyword.as_str()) => close(value),
            Value::Array(schemas) if SCHEMAS.contains(&keyword.as_str()) => {
                schemas.iter_mut().for_each(close);
            }
            _ => {}
        }
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
    fn a_closed_shape_names_all_its_properties() {
        let closed = |schema: Value| JsonShape::new(&schema).unwrap().closed().into_schema();
        let schema = closed(json!({
            "properties": { "properties": { "items": { "properties": { "a": {} } } }, "b": { "type": "object" } },
            "required": ["b"]
        }));
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["properties"]["items"]["additionalProperties"], false);
        assert_eq!(schema["properties"]["b"], json!({ "type": "object" }));
        assert_eq!(schema["properties"].get("additionalProperties"), None);
        for open in [
            json!({ "properties": { "a": {} }, "required": ["b"] }),
            json!({ "properties": { "a": {} }, "additionalProperties": { "type": "null" } }),
            json!({ "allOf": [{ "properties": { "a": {} } }, { "properties": { "b": {} } }] }),
        ] {
            assert_eq!(closed(open.clone()), open);
        }
    }

    #[test]
    fn a_caller_sets_no_options() {
        let shape = JsonShape::new(&json!({ "x-guidance": { "lenient": true } })).unwrap();
        assert_eq!(shape.grammar()["x-guidance"].get("lenient"), None);
        assert_eq!(JsonShape::new(&json!(false)).unwrap().grammar()["allOf"], json!([false]));
    }
}
