//! Grammars that keep an answer to its tools.
//!
//! They write a call exactly as its form does, with the one white space that models of the form were trained on; the
//! arguments keep to the tool's schema.

use std::fmt::Write;

use serde_json::{Value, json};
use tapri_api::{ApiError, Call, OutputFormat, Tool, ToolChoice};
use tapri_engine::{Grammar, JsonShape};

use super::dialect::{Dialect, Form};
use super::{hermes, shaped};
use crate::embedded::constrain::{self, Names};

/// How every call that a grammar writes begins.
pub(super) const NAME: &str = "{\"name\": \"";

/// Calls of one answer beyond the first: a small model that may go on calling does.
const MORE_CALLS: usize = 7;

/// Whether a grammar promises that calls are calls.
pub(super) fn holds(call: &Call) -> bool {
    match call.tool_choice {
        ToolChoice::Required | ToolChoice::Named(_) => true,
        ToolChoice::None => false,
        ToolChoice::Auto => {
            shaped(call) || !call.parallel_tool_calls || call.tools.iter().any(|tool| tool.strict)
        }
    }
}

/// The grammar of a call's answer; `None` where the model is free.
///
/// # Errors
/// When a choice names no tool, or the arguments of a strict one can't be kept to.
pub(crate) fn answer(
    dialect: &Dialect,
    call: &Call,
    names: Names,
) -> Result<Option<Grammar>, ApiError> {
    write(dialect, call, names, false)
}

/// The same with any object as the arguments of tools that aren't strict: for schemas that turn out to ask too much.
pub(crate) fn fallback(
    dialect: &Dialect,
    call: &Call,
    names: Names,
) -> Result<Option<Grammar>, ApiError> {
    write(dialect, call, names, true)
}

fn write(
    dialect: &Dialect,
    call: &Call,
    names: Names,
    loose: bool,
) -> Result<Option<Grammar>, ApiError> {
    if call.tools.is_empty() {
        return Ok(constrain::output(&call.output));
    }
    if !holds(call) && call.tool_choice != ToolChoice::None {
        return Ok(None);
    }
    if call.tool_choice == ToolChoice::None && shaped(call) {
        return Ok(constrain::output(&call.output));
    }
    let offered: Vec<(usize, &Tool)> = match &call.tool_choice {
        ToolChoice::Named(name) => {
            let named = call.tools.iter().enumerate().filter(|(_, tool)| &tool.name == name);
            named.take(1).collect()
        }
        _ => call.tools.iter().enumerate().collect(),
    };
    if offered.is_empty() {
        return Err(ApiError::invalid(
            "tool_choice",
            "`tool_choice` names a tool that is not in `tools`",
        )
        .code("invalid_value"));
    }
    let mut lark = String::new();
    let may_say_text = matches!(call.tool_choice, ToolChoice::Auto | ToolChoice::None);
    let may_call = call.tool_choice != ToolChoice::None;
    let many = call.parallel_tool_calls && !matches!(call.tool_choice, ToolChoice::Named(_));
    match dialect.form {
        Form::Hermes => {
            hermes_rules(&mut lark, dialect, may_say_text.then(|| shaped(call)), may_call, many)
        }
        Form::Llama => llama_rules(&mut lark, may_say_text.then(|| shaped(call)), may_call),
    }
    if may_say_text && shaped(call) {
        let schema = match &call.output {
            OutputFormat::JsonSchema(schema) => schema.clone(),
            _ => json!({ "type": "object" }),
        };
        let refused = |error| constrain::refusal(&error, names.output);
        let shape = JsonShape::new(&schema).map_err(refused)?;
        line(&mut lark, &format!("shaped: %json {}", shape.closed().grammar()));
    }
    if may_call {
        let key = match dialect.form {
            Form::Hermes => "arguments",
            Form::Llama => "parameters",
        };
        let bodies: Vec<String> = offered.iter().map(|(at, _)| format!("body_{at}")).collect();
        line(&mut lark, &format!("body: {}", bodies.join(" | ")));
        for (at, tool) in offered {
            // The name as JSON writes it, and that as Lark writes it.
            let head = format!("{NAME}{}, \"{key}\": ", &quoted(&tool.name)[1..]);
            let arguments = arguments(at, tool, names, loose)?.grammar();
            line(&mut lark, &format!("body_{at}: {} arguments_{at} \"}}\"", quoted(&head)));
            line(&mut lark, &format!("arguments_{at}: %json {arguments}"));
        }
    }
    Ok(Some(Grammar::Lark(lark)))
}

/// `text`: whether the answer may be text, and whether that has a shape.
fn hermes_rules(
    lark: &mut String,
    dialect: &Dialect,
    text: Option<bool>,
    may_call: bool,
    many: bool,
) {
    let marker = |marker: &str| {
        if dialect.is_control(marker) { marker.to_owned() } else { quoted(marker) }
    };
    let more = if many { format!(" (\"\\n\" one){{0,{MORE_CALLS}}}") } else { String::new() };
    match (text, may_call) {
        (None, _) => line(lark, &format!("start: one{more}")),
        (Some(true), _) => line(lark, &format!("start: shaped | one{more}")),
        (Some(false), true) => line(lark, &format!("start: PLAIN? | first{more}")),
        (Some(false), false) => line(lark, "start: PLAIN?"),
    }
    if text == Some(false) {
        if dialect.is_control(hermes::OPEN) {
            // No text reaches a control token.
            line(lark, "PLAIN: /(?s:.+)/");
            line(lark, &format!("first: PLAIN? {} rest", hermes::OPEN));
        } else {
            let open = hermes::OPEN;
            line(lark, &format!("PLAIN: /(?s:.+)/ & ~/(?s:.*){open}(?s:.*)/"));
            line(lark, "first: lead rest");
            line(lark, &format!("lead[lazy]: /(?s:.*){open}/"));
        }
    }
    if may_call {
        line(lark, &format!("one: {} rest", marker(hermes::OPEN)));
        line(lark, &format!("rest: \"\\n\" body \"\\n\" {}", marker(hermes::CLOSE)));
    }
}

/// Llama 3's template knows one call at a time.
fn llama_rules(lark: &mut String, text: Option<bool>, may_call: bool) {
    match (text, may_call) {
        (None, _) => line(lark, "start: body"),
        (Some(true), _) => line(lark, "start: shaped | body"),
        (Some(false), true) => line(lark, "start: PLAIN? | body"),
        (Some(false), false) => line(lark, "start: PLAIN?"),
    }
    if text == Some(false) {
        line(lark, r"PLAIN: /\s*[^\s{](?s:.*)/");
    }
}

/// The shape of a tool's arguments.
fn arguments(at: usize, tool: &Tool, names: Names, loose: bool) -> Result<JsonShape, ApiError> {
    let is_empty = matches!(&tool.parameters, Value::Null)
        || tool.parameters.as_object().is_some_and(serde_json::Map::is_empty);
    if is_empty || (loose && !tool.strict) {
        return Ok(JsonShape::object());
    }
    match JsonShape::new(&tool.parameters) {
        Ok(shape) => Ok(shape.closed()),
        Err(error) if tool.strict => {
            Err(constrain::refusal(&error, &format!("tools[{at}].{}", names.arguments)))
        }
        // What nobody promised is checked by nobody.
        Err(_) => Ok(JsonShape::object()),
    }
}

/// Text as JSON writes it, which is how Lark does.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn line(lark: &mut String, text: &str) {
    // A string takes whatever is written.
    let _ = writeln!(lark, "{text}");
}
