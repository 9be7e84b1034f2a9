//! Reads a request to `/v1/chat/completions`.

use serde_json::Value;

use crate::ApiError;
use crate::call::{Call, MAX_TOP_LOGPROBS, Message, Part, Role, ToolResult};
use crate::openai::fields::{self, Fields, wrong};
use crate::openai::options::{self, Request};
use crate::openai::refused::{self, unsupported};
use crate::openai::tools;

/// Reads a request's body.
pub fn parse(body: &[u8]) -> Result<Request, ApiError> {
    read(fields::parse(body)?)
}

/// Reads a request's fields.
///
/// Read are: `model`, `messages`, `max_tokens`, `max_completion_tokens`, `temperature`, `top_p`, `top_k`,
/// `min_p`, `seed`, `presence_penalty`, `frequency_penalty`, `repetition_penalty`, `logit_bias`, `stop`,
/// `stop_token_ids`, `ignore_eos`, `logprobs`, `top_logprobs`, `prompt_logprobs`, `n`, `tools`, `tool_choice`, `parallel_tool_calls`, `response_format`, `stream`,
/// `stream_options.include_usage` and `cache_salt`.
pub fn read(mut fields: Fields) -> Result<Request, ApiError> {
    refused::check(&fields, &[refused::CHAT, refused::GENERATE])?;
    let messages = messages(fields.require("messages", "the conversation as a list of messages")?)?;
    let mut call = Call::chat(messages);
    call.max_tokens = options::max_tokens(&mut fields, &["max_completion_tokens", "max_tokens"])?;
    call.logprobs = logprobs(&mut fields)?;
    call.choices = options::choices(&mut fields)?;
    call.output = tools::output(&mut fields)?;
    call.tools = tools::tools(&mut fields)?;
    call.tool_choice = tools::choice(&mut fields, &call.tools)?;
    call.parallel_tool_calls = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    options::read(&mut fields, call)
}

fn logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.integer("top_logprobs", 0..=i64::from(MAX_TOP_LOGPROBS))?.unwrap_or(0);
    if top > 0 && !wanted {
        return Err(ApiError::invalid(
            "top_logprobs",
            "`top_logprobs` is only allowed with `logprobs: true`",
        )
        .code("invalid_value")
        .hint("Set `logprobs` to true as well"));
    }
    Ok(wanted.then(|| u32::try_from(top).unwrap_or(0)))
}

/// Reads a conversation.
pub(crate) fn messages(value: Value) -> Result<Vec<Message>, ApiError> {
    let Value::Array(list) = value else {
        return Err(wrong("messages", "a list of messages", &value));
    };
    if list.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty")
            .code("invalid_value")
            .hint(
                "Give at least one message, such as {\"role\": \"user\", \"content\": \"...\"}",
            ));
    }
    list.into_iter()
        .enumerate()
        .map(|(i, value)| message(Fields::at(format!("messages[{i}]"), value)?))
        .collect()
}

fn message(mut fields: Fields) -> Result<Message, ApiError> {
    let role_path = fields.path("role");
    let role = match fields.require("role", "`system`, `user`, `assistant` or `tool`")? {
        Value::String(role) => match role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            "function" => {
                return Err(unsupported(&role_path, "Use the role `tool` with a `tool_call_id`"));
            }
            _ => {
                let message = format!(
                    "`{role_path}` must be `system`, `developer`, `user`, `assistant` or `tool`"
                );
                return Err(ApiError::invalid(role_path, message).code("invalid_value"));
            }
        },
        other => return Err(wrong(&role_path, "a string", &other)),
    };
    refused::check(&fields, &[refused::MESSAGE])?;
    let calls = tools::calls(&mut fields)?;
    if !calls.is_empty() && role != Role::Assistant {
        let path = fields.path("tool_calls");
        let message = format!("`{path}` is only allowed in messages of the role `assistant`");
        return Err(ApiError::invalid(path, message).code("invalid_value"));
    }
    let path = fields.path("content");
    // A model that only calls says nothing.
    let content = match fields.take("content") {
        None if !calls.is_empty() => None,
        None => Some(fields.require("content", "the text of the message")?),
        content => content,
    };
    let mut parts = match content {
        None => Vec::new(),
        Some(Value::String(text)) => vec![Part::Text(text)],
        Some(Value::Array(list)) if !list.is_empty() => list
            .into_iter()
            .enumerate()
            .map(|(i, value)| part(Fields::at(format!("{path}[{i}]"), value)?))
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong(&path, "a string or a list of text parts", &other)),
    };
    let name = fields.string("name")?;
    if role == Role::Tool {
        let id = match fields.require("tool_call_id", "the id of the call that it answers")? {
            Value::String(id) => id,
            other => return Err(wrong(&fields.path("tool_call_id"), "a string", &other)),
        };
        let text = Message { role, parts, name: None }.text();
        parts = vec![Part::ToolResult(ToolResult { id, text, is_error: false })];
    }
    // An empty text before calls is what SDKs write for none.
    if !calls.is_empty() && parts == [Part::Text(String::new())] {
        parts.clear();
    }
    parts.extend(calls.into_iter().map(Part::ToolCall));
    Ok(Message { role, parts, name })
}

fn part(mut fields: Fields) -> Result<Part, ApiError> {
    let path = fields.path("type");
    match fields.require("type", "`text`")? {
        Value::String(kind) if kind == "text" => {
            match fields.require("text", "the text of the part")? {
                Value::String(text) => Ok(Part::Text(text)),
                other => Err(wrong(&fields.path("text"), "a string", &other)),
            }
        }
        Value::String(kind) if kind == "refusal" => {
            match fields.require("refusal", "the words of the refusal")? {
                Value::String(text) => Ok(Part::Text(text)),
                other => Err(wrong(&fields.path("refusal"), "a string", &other)),
            }
        }
        Value::String(_) => Err(unsupported(&path, "Send parts of the type `text`")),
        other => Err(wrong(&path, "a string", &other)),
    }
}
