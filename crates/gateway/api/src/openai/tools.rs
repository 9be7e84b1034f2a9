//! Tools, and the shape of an answer, as chat completions write them.

use serde_json::{Value, json};

use crate::ApiError;
use crate::call::{OutputFormat, Tool, ToolCall, ToolChoice};
use crate::openai::fields::{Fields, wrong};
use crate::openai::refused::unsupported;

/// The tools that may be called.
pub(crate) fn tools(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    let Some(value) = fields.take("tools") else { return Ok(Vec::new()) };
    let Value::Array(list) = value else { return Err(wrong("tools", "a list of tools", &value)) };
    let tools: Vec<Tool> = list
        .into_iter()
        .enumerate()
        .map(|(i, value)| tool(Fields::at(format!("tools[{i}]"), value)?))
        .collect::<Result<_, _>>()?;
    for (i, tool) in tools.iter().enumerate() {
        if tools.iter().take(i).any(|other| other.name == tool.name) {
            let path = format!("tools[{i}].function.name");
            let message = format!("`{path}` is the name of an earlier tool as well");
            return Err(ApiError::invalid(path, message)
                .code("invalid_value")
                .hint("Give each its own"));
        }
    }
    Ok(tools)
}

fn tool(mut fields: Fields) -> Result<Tool, ApiError> {
    kind(&mut fields, "function", "Only functions can be called here")?;
    let path = fields.path("function");
    let function =
        fields.require("function", "the function's `name`, `description` and `parameters`")?;
    let mut function = Fields::at(path, function)?;
    let name = name(&mut function)?;
    let parameters = match function.take("parameters") {
        None => json!({ "type": "object", "properties": {} }),
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => return Err(wrong(&function.path("parameters"), "a JSON schema", &other)),
    };
    Ok(Tool {
        name,
        description: function.string("description")?,
        parameters,
        strict: function.boolean("strict")?.unwrap_or(false),
    })
}

/// A name that is there and not empty.
fn name(fields: &mut Fields) -> Result<String, ApiError> {
    let path = fields.path("name");
    match fields.require("name", "the function's name")? {
        Value::String(name) if !name.is_empty() => Ok(name),
        Value::String(_) => Err(ApiError::invalid(&*path, format!("`{path}` is empty"))
            .code("invalid_value")
            .hint("Give the function's name")),
        other => Err(wrong(&path, "a string", &other)),
    }
}

/// The field `type`, which must be one word; without it that word is meant.
fn kind(fields: &mut Fields, word: &str, hint: &str) -> Result<(), ApiError> {
    match fields.string("type")? {
        Some(kind) if kind != word => Err(unsupported(&fields.path("type"), hint)),
        _ => Ok(()),
    }
}

/// Which of the tools may or must be called.
pub(crate) fn choice(fields: &mut Fields, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    let choice = match fields.take("tool_choice") {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => {
                return Err(ApiError::invalid(
                    "tool_choice",
                    "`tool_choice` must be `auto`, `none`, `required`, or name a function",
                )
                .code("invalid_value"));
            }
        },
        Some(value @ Value::Object(_)) => {
            let mut fields = Fields::at("tool_choice".into(), value)?;
            kind(
                &mut fields,
                "function",
                "Name one function, or give `auto`, `none` or `required`",
            )?;
            let function =
                fields.require("function", "the function's name as `{\"name\": \"...\"}`")?;
            ToolChoice::Named(name(&mut Fields::at("tool_choice.function".into(), function)?)?)
        }
        Some(other) => return Err(wrong("tool_choice", "a word or an object", &other)),
    };
    check_choice(&choice, tools, "tool_choice")?;
    Ok(choice)
}

/// That a choice can be kept.
pub(crate) fn check_choice(
    choice: &ToolChoice,
    tools: &[Tool],
    path: &str,
) -> Result<(), ApiError> {
    let message = match choice {
        ToolChoice::Required if tools.is_empty() => {
            format!("`{path}` asks for a call, and there are no `tools`")
        }
        ToolChoice::Named(name) if !tools.iter().any(|tool| tool.name == *name) => {
            format!("`{path}` names a function that is not among the `tools`")
        }
        _ => return Ok(()),
    };
    Err(ApiError::invalid(path, message).code("invalid_value").hint("Give the tool in `tools`"))
}

/// The calls in a message of the model.
pub(crate) fn calls(fields: &mut Fields) -> Result<Vec<ToolCall>, ApiError> {
    let path = fields.path("tool_calls");
    let list = match fields.take("tool_calls") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(&path, "a list of calls", &other)),
    };
    list.into_iter()
        .enumerate()
        .map(|(i, value)| {
            let mut call = Fields::at(format!("{path}[{i}]"), value)?;
            kind(&mut call, "function", "Only functions can be called here")?;
            let id = call.string("id")?.unwrap_or_default();
            let at = call.path("function");
            let mut function =
                Fields::at(at, call.require("function", "the function that was called")?)?;
            let name = name(&mut function)?;
            let arguments = function.string("arguments")?.unwrap_or_default();
            Ok(ToolCall { id, name, arguments })
        })
        .collect()
}

/// `response_format`.
pub(crate) fn output(fields: &mut Fields) -> Result<OutputFormat, ApiError> {
    let Some(value) = fields.take("response_format") else { return Ok(OutputFormat::Text) };
    let mut format = Fields::at("response_format".into(), value)?;
    let wanted = "`text`, `json_object` or `json_schema`";
    match format.require("type", wanted)? {
        Value::String(kind) => match kind.as_str() {
            "text" => Ok(OutputFormat::Text),
            "json_object" => Ok(OutputFormat::JsonObject),
            "json_schema" => {
                let outer =
                    format.require("json_schema", "the schema as `{\"name\", \"schema\"}`")?;
                let mut outer = Fields::at(format.path("json_schema"), outer)?;
                match outer.require("schema", "a JSON schema")? {
                    schema @ Value::Object(_) => Ok(OutputFormat::JsonSchema(schema)),
                    other => Err(wrong(&outer.path("schema"), "a JSON schema", &other)),
                }
            }
            _ => Err(unsupported("response_format.type", &format!("Use {wanted}"))),
        },
        other => Err(wrong("response_format.type", "a string", &other)),
    }
}
