//! Reads a request to `/v1/completions`.

use serde_json::Value;

use crate::ApiError;
use crate::call::{Call, MAX_TOP_LOGPROBS, Prompt};
use crate::openai::fields::{self, Fields, wrong};
use crate::openai::options::{self, Request, token_ids};
use crate::openai::refused;

/// The token limit where none is given, as in OpenAI's API.
pub const DEFAULT_MAX_TOKENS: usize = 16;

/// Reads a request's body.
pub fn parse(body: &[u8]) -> Result<Request, ApiError> {
    read(fields::parse(body)?)
}

/// Reads a request's fields.
///
/// `prompt` is a string, a list of token ids, or a list with one of either. Read besides are: `model`,
/// `max_tokens`, `temperature`, `top_p`, `top_k`, `min_p`, `seed`, `stop`, `stop_token_ids`, `ignore_eos`,
/// `presence_penalty`, `frequency_penalty`, `repetition_penalty`, `logit_bias`, `logprobs` (a number here),
/// `prompt_logprobs`, `echo`, `n`, `stream`, `stream_options.include_usage` and `cache_salt`.
pub fn read(mut fields: Fields) -> Result<Request, ApiError> {
    refused::check(&fields, &[refused::COMPLETION, refused::GENERATE])?;
    let mut call = Call::new(prompt(fields.require("prompt", "a string or a list of token ids")?)?);
    call.max_tokens =
        Some(options::max_tokens(&mut fields, &["max_tokens"])?.unwrap_or(DEFAULT_MAX_TOKENS));
    let logprobs = fields.integer("logprobs", 0..=i64::from(MAX_TOP_LOGPROBS))?;
    call.logprobs = logprobs.and_then(|n| u32::try_from(n).ok());
    call.echo = fields.boolean("echo")?.unwrap_or(false);
    call.choices = options::choices(&mut fields)?;
    options::read(&mut fields, call)
}

fn prompt(value: Value) -> Result<Prompt, ApiError> {
    match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(mut list) => match list.first() {
            Some(Value::Number(_)) => token_ids("prompt", Value::Array(list)).map(Prompt::Tokens),
            Some(Value::String(_) | Value::Array(_)) if list.len() > 1 => Err(ApiError::invalid(
                "prompt",
                format!("`prompt` holds {} prompts, and one is taken", list.len()),
            )
            .code("unsupported_field")
            .hint("Send a request for each")),
            Some(Value::String(_) | Value::Array(_)) => match list.swap_remove(0) {
                Value::String(text) => Ok(Prompt::Text(text)),
                ids => token_ids("prompt[0]", ids).map(Prompt::Tokens),
            },
            Some(other) => Err(wrong("prompt[0]", "a string or a token id", other)),
            None => Err(ApiError::invalid("prompt", "`prompt` is an empty list")
                .code("invalid_value")
                .hint("Give a string or a list of token ids")),
        },
        other => Err(wrong("prompt", "a string or a list of token ids", &other)),
    }
}
