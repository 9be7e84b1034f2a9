//! A conversation with tools as a chat template reads it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tapri_api::{Message, Part, Role, Tool, ToolCall, ToolResult};
use tapri_engine::Engine;
use tapri_text::{RenderInput, Rendered, TemplateError, ZonedDateTime};

use super::dialect::Dialect;
use super::hermes;

/// The prompt of a conversation.
pub(crate) fn render(
    engine: &Engine,
    dialect: &Dialect,
    messages: &[Message],
    tools: &[Tool],
) -> Result<Rendered, TemplateError> {
    if dialect.native {
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        return lay_out(engine, &native(messages), &tools);
    }
    let plain = plain(messages);
    if tools.is_empty() {
        return lay_out(engine, &plain, &[]);
    }
    let instructions = instructions(tools);
    lay_out(engine, &instructed(&plain, Role::System, &instructions), &[]).or_else(|refusal| {
        // A template that takes no instructions of its own may take them with the first question.
        let with_question = instructed(&plain, Role::User, &instructions);
        lay_out(engine, &with_question, &[]).map_err(|_| refusal)
    })
}

fn lay_out(
    engine: &Engine,
    messages: &[Value],
    tools: &[Value],
) -> Result<Rendered, TemplateError> {
    engine.template().render(&RenderInput {
        messages,
        tools,
        add_generation_prompt: true,
        now: &ZonedDateTime::now(),
        variables: &Map::new(),
    })
}

/// A tool as OpenAI writes it, which templates were written for.
fn tool(tool: &Tool) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), tool.name.as_str().into());
    if let Some(description) = &tool.description {
        function.insert("description".to_owned(), description.as_str().into());
    }
    function.insert("parameters".to_owned(), tool.parameters.clone());
    json!({ "type": "function", "function": function })
}

/// A message's text, its calls, and what tools said in it.
fn split(message: &Message) -> (Option<String>, Vec<&ToolCall>, Vec<&ToolResult>) {
    let (mut text, mut calls, mut results) = (None::<String>, Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text(more) => match &mut text {
                Some(text) => {
                    text.push('\n');
                    text.push_str(more);
                }
                None => text = Some(more.clone()),
            },
            Part::ToolCall(call) => calls.push(call),
            Part::ToolResult(result) => results.push(result),
            _ => {}
        }
    }
    (text, calls, results)
}

/// The arguments of an earlier call as templates want them, an object; text that is none stays text.
fn arguments(call: &ToolCall) -> Value {
    match serde_json::from_str(&call.arguments) {
        Ok(arguments @ Value::Object(_)) => arguments,
        _ if call.arguments.trim().is_empty() => json!({}),
        _ => call.arguments.as_str().into(),
    }
}

/// A failure is said in words: templates have no place for it.
fn said(result: &ToolResult) -> String {
    if result.is_error { format!("Error: {}", result.text) } else { result.text.clone() }
}

fn message(role: Role, text: &str, name: Option<&str>) -> Value {
    let mut message = json!({ "role": role.as_str(), "content": text });
    if let (Some(name), Some(message)) = (name, message.as_object_mut()) {
        message.insert("name".to_owned(), name.into());
    }
    message
}

/// For a template that shows calls and results.
fn native(messages: &[Message]) -> Vec<Value> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut values = Vec::with_capacity(messages.len());
    for it in messages {
        let (text, calls, results) = split(it);
        for result in &results {
            let name = names.get(result.id.as_str()).copied();
            let mut value = message(Role::Tool, &said(result), name);
            value["tool_call_id"] = result.id.as_str().into();
            values.push(value);
        }
        if !results.is_empty() && text.is_none() {
            continue;
        }
        let role = if results.is_empty() { it.role } else { Role::User };
        let mut value = message(role, text.as_deref().unwrap_or_default(), it.name.as_deref());
        if !calls.is_empty() {
            names.extend(calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
            let calls = calls.iter().map(|call| {
                json!({
                    "id": call.id, "type": "function",
                    "function": { "name": call.name, "arguments": arguments(call) }
                })
            });
            value["tool_calls"] = calls.collect();
        }
        values.push(value);
    }
    values
}

/// For a template that knows neither: calls are text of the model, and what tools say is the person's next message, as
/// Qwen's template writes them.
fn plain(messages: &[Message]) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::with_capacity(messages.len());
    // Results, to be written at the head of the person's next message.
    let mut held = String::new();
    for it in messages {
        let (text, calls, results) = split(it);
        for result in &results {
            held.push_str(&format!("<tool_response>\n{}\n</tool_response>\n", said(result)));
        }
        if !results.is_empty() && text.is_none() {
            continue;
        }
        let role = if it.role == Role::Tool { Role::User } else { it.role };
        let mut text = text.unwrap_or_default();
        if !held.is_empty() {
            let results = std::mem::take(&mut held);
            if role == Role::User {
                text = results + &text;
            } else {
                values.push(message(Role::User, results.trim_end(), None));
            }
        }
        for call in calls {
            if !text.is_empty() {
                text.push('\n');
            }
            // As the model wrote it, so that this turn's prompt begins as the last one's answer ended.
            let arguments = match call.arguments.trim() {
                "" => "{}",
                written => written,
            };
            let name = Value::from(call.name.as_str());
            text.push_str(&format!(
                "{}\n{{\"name\": {name}, \"arguments\": {arguments}}}\n{}",
                hermes::OPEN,
                hermes::CLOSE
            ));
        }
        values.push(message(role, &text, it.name.as_deref()));
    }
    if !held.is_empty() {
        values.push(message(Role::User, held.trim_end(), None));
    }
    values
}

/// The form is that of Nous Research's Hermes function-calling models; the words are our own. The same tools give the
/// same text, so that a conversation's prompt begins the same each time.
fn instructions(tools: &[Tool]) -> String {
    let mut text = "You can call tools. Each line between <tools> and </tools> describes one of them as JSON.\n<tools>\n".to_owned();
    for it in tools {
        text.push_str(&tool(it).to_string());
        text.push('\n');
    }
    text.push_str(
        "</tools>\nTo call a tool, write its name and its arguments as a JSON object, like this:\n",
    );
    text.push_str(&format!(
        "{}\n{{\"name\": \"the name of the tool\", \"arguments\": {{\"the name of an argument\": \"its value\"}}}}\n{}\n",
        hermes::OPEN,
        hermes::CLOSE
    ));
    text.push_str("What the tool answers comes back between <tool_response> and </tool_response>.");
    text
}

/// The conversation with instructions in its first message, which is made one of `role` where it isn't.
fn instructed(messages: &[Value], role: Role, instructions: &str) -> Vec<Value> {
    let mut messages = messages.to_vec();
    match messages.first_mut() {
        Some(first) if first["role"] == role.as_str() => {
            let text = first["content"].as_str().unwrap_or_default();
            // Behind the caller's own instructions, and before a question.
            first["content"] = match role {
                Role::System => format!("{text}\n\n{instructions}"),
                _ => format!("{instructions}\n\n{text}"),
            }
            .into();
        }
        _ => messages.insert(0, message(role, instructions, None)),
    }
    messages
}
