//! `/tokenize` and `/detokenize`, in the shape of vLLM's server.

use serde::Serialize;
use serde_json::Value;

use super::wire::json;
use crate::ApiError;
use crate::call::{Message, Prompt};
use crate::openai::fields::{self, Fields, wrong};
use crate::openai::options::token_ids;
use crate::openai::refused::unsupported;

/// What is to be tokenized.
#[derive(Debug, Clone, PartialEq)]
pub enum TokenizeInput {
    /// A prompt, as a completion of it would read it (`add_special_tokens: true`, the default), or a conversation.
    Prompt(Prompt),
    /// Text on its own (`add_special_tokens: false`).
    Piece(String),
}

/// A request with the model it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct For<T> {
    /// The model's name, if given.
    pub model: Option<String>,
    /// What is asked.
    pub input: T,
}

/// Reads a request to `/tokenize`: `prompt` (text) or `messages`, and `add_special_tokens`.
pub fn parse(body: &[u8]) -> Result<For<TokenizeInput>, ApiError> {
    let mut fields = fields::parse(body)?;
    if fields.boolean("return_token_strs")? == Some(true) {
        return Err(unsupported(
            "return_token_strs",
            "Leave it out, and send the ids to /detokenize",
        ));
    }
    let add_special = fields.boolean("add_special_tokens")?;
    let input = match (fields.string("prompt")?, messages(&mut fields)?) {
        (Some(text), None) if add_special == Some(false) => TokenizeInput::Piece(text),
        (Some(text), None) => TokenizeInput::Prompt(Prompt::Text(text)),
        (None, Some(messages)) => TokenizeInput::Prompt(Prompt::Chat(messages)),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("messages", "`prompt` and `messages` are both there")
                .code("invalid_value")
                .hint("Give one of them"));
        }
        (None, None) => {
            return Err(ApiError::invalid("prompt", "`prompt` is missing")
                .code("missing_field")
                .hint("Give `prompt` (text) or `messages` (a conversation)"));
        }
    };
    Ok(For { model: fields.string("model")?, input })
}

fn messages(fields: &mut Fields) -> Result<Option<Vec<Message>>, ApiError> {
    fields.take("messages").map(super::chat::messages).transpose()
}

/// Reads a request to `/detokenize`: `tokens`, a list of ids.
pub fn parse_detokenize(body: &[u8]) -> Result<For<Vec<u32>>, ApiError> {
    let mut fields = fields::parse(body)?;
    let input = match fields.require("tokens", "a list of token ids")? {
        list @ Value::Array(_) => token_ids("tokens", list)?,
        other => return Err(wrong("tokens", "a list of token ids", &other)),
    };
    Ok(For { model: fields.string("model")?, input })
}

#[derive(Serialize)]
struct Tokenized<'a> {
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_model_len: Option<usize>,
    tokens: &'a [u32],
}

/// The answer of `/tokenize`: `{"count", "max_model_len", "tokens"}`.
pub fn render(tokens: &[u32], max_model_len: Option<usize>) -> String {
    json(&Tokenized { count: tokens.len(), max_model_len, tokens })
}

#[derive(Serialize)]
struct Detokenized<'a> {
    prompt: &'a str,
}

/// The answer of `/detokenize`: `{"prompt"}`.
pub fn render_detokenized(prompt: &str) -> String {
    json(&Detokenized { prompt })
}
