//! Reads a request to `/v1/chat/completions`.

use serde_json::Value;

use crate::ApiError;
use crate::call::{Call, MAX_TOP_LOGPROBS, Message, Part, Role};
use crate::openai::fields::{self, Fields, wrong};
use crate::openai::options::{self, Request};
use crate::openai::refused::{self, unsupported};

/// Reads a request's body.
///
/// Read are: `model`, `messages`, `max_tokens`, `max_completion_tokens`, `temperature`, `top_p`, `top_k`,
/// `min_p`, `seed`, `stop`, `stop_token_ids`, `ignore_eos`, `logprobs`, `top_logprobs`, `stream`,
/// `stream_options.include_usage` and `cache_salt`.
pub fn parse(body: &[u8]) -> Result<Request, ApiError> {
    let mut fields = fields::parse(body)?;
    refused::check(&fields, &[refused::CHAT, refused::GENERATE])?;
    let messages = messages(fields.require("messages", "the conversation as a list of messages")?)?;
    let mut call = Call::chat(messages);
    call.max_tokens = options::max_tokens(&mut fields, &["max_completion_tokens", "max_tokens"])?;
    call.logprobs = logprobs(&mut fields)?;
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
    let role = match fields.require("role", "`system`, `user` or `assistant`")? {
        Value::String(role) => match role.as_str() {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" | "function" => {
                return Err(unsupported(
                    &role_path,
                    "Put what the tool said into the text of a message",
                ));
            }
            _ => {
                let message =
                    format!("`{role_path}` must be `system`, `developer`, `user` or `assistant`");
                return Err(ApiError::invalid(role_path, message).code("invalid_value"));
            }
        },
        other => return Err(wrong(&role_path, "a string", &other)),
    };
    refused::check(&fields, &[refused::MESSAGE])?;
    let path = fields.path("content");
    let parts = match fields.require("content", "the text of the message")? {
        Value::String(text) => vec![Part::Text(text)],
        Value::Array(list) if !list.is_empty() => list
            .into_iter()
            .enumerate()
            .map(|(i, value)| part(Fields::at(format!("{path}[{i}]"), value)?))
            .collect::<Result<_, _>>()?,
        other => return Err(wrong(&path, "a string or a list of text parts", &other)),
    };
    Ok(Message { role, parts, name: fields.string("name")? })
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
        Value::String(_) => Err(unsupported(&path, "Send parts of the type `text`")),
        other => Err(wrong(&path, "a string", &other)),
    }
}
