//! Prompts to token ids and back.

use super::lower;
use tapri_api::{ApiError, ErrorKind, Message, Prompt};
use tapri_engine::{Engine, TokenId};
use tapri_text::{ControlTokens, RenderInput, Special, ZonedDateTime};

/// The request's field that a prompt came from.
pub(super) fn field(prompt: &Prompt) -> &'static str {
    match prompt {
        // Formats that have no field of this name name their own when they are read.
        Prompt::Chat(_) | Prompt::Request(_) => "messages",
        Prompt::Text(_) | Prompt::Tokens(_) => "prompt",
    }
}

/// The token ids that the model reads.
pub(super) fn tokens(engine: &Engine, prompt: Prompt) -> Result<Vec<TokenId>, ApiError> {
    match prompt {
        Prompt::Chat(messages) => conversation(engine, &messages),
        Prompt::Text(text) => Ok(engine.tokenizer().encode_prompt(&text, Special::AsText)),
        Prompt::Tokens(ids) => Ok(ids.into_iter().map(TokenId).collect()),
        Prompt::Request(inbound) => tokens(engine, lower::call(&inbound)?.prompt),
    }
}

fn conversation(engine: &Engine, messages: &[Message]) -> Result<Vec<TokenId>, ApiError> {
    let messages: Vec<serde_json::Value> = messages.iter().map(value).collect();
    let input = RenderInput {
        messages: &messages,
        tools: &[],
        add_generation_prompt: true,
        now: &ZonedDateTime::now(),
        variables: &serde_json::Map::new(),
    };
    let rendered = engine.template().render(&input).map_err(|error| {
        // A template refuses in its own words: an order of roles that the model was not trained on, say.
        ApiError::new(ErrorKind::Invalid, format!("The conversation can't be laid out: {error}"))
            .at("messages")
            .code("template_refused")
            .hint("Change the order or the roles of the messages, or send the laid-out prompt to /v1/completions")
    })?;
    Ok(engine.tokenizer().encode_rendered(&rendered))
}

/// A message as templates read it.
fn value(message: &Message) -> serde_json::Value {
    let mut value = serde_json::json!({ "role": message.role.as_str(), "content": message.text() });
    if let (Some(name), Some(object)) = (&message.name, value.as_object_mut()) {
        object.insert("name".to_owned(), name.as_str().into());
    }
    value
}

/// The token ids of text on its own.
pub(super) fn piece(engine: &Engine, text: &str) -> Vec<TokenId> {
    engine.tokenizer().encode(text, Special::AsText)
}

/// The text of token ids, control tokens written as they are called.
pub(super) fn text(engine: &Engine, ids: &[u32]) -> Result<String, ApiError> {
    let tokens: Vec<TokenId> = ids.iter().copied().map(TokenId).collect();
    let vocabulary = engine.model().vocabulary;
    if let Some(at) = ids.iter().position(|&id| id as usize >= vocabulary) {
        return Err(bad_token(
            &format!("tokens[{at}]"),
            ids.get(at).copied().unwrap_or(0),
            vocabulary,
        ));
    }
    engine
        .tokenizer()
        .decode(&tokens, ControlTokens::Show)
        .map_err(|error| ApiError::invalid("tokens", error.to_string()).code("invalid_value"))
}

/// The error for a token id that the model doesn't have.
pub(super) fn bad_token(path: &str, id: u32, vocabulary: usize) -> ApiError {
    ApiError::invalid(
        path,
        format!("`{path}` is {id}, and the model has tokens 0 to {}", vocabulary.saturating_sub(1)),
    )
    .code("invalid_value")
    .hint("Tokenize with this model's own tokenizer: see /tokenize")
}
