//! Prompts to token ids and back.

use tapri_api::{ApiError, Call, ErrorKind, Message, Prompt, Tool};
use tapri_engine::{Engine, TokenId};
use tapri_text::{ControlTokens, Special, TextUse};

use super::lower;
use super::tools::{self, Dialect};

/// The request's field that a prompt came from.
pub(super) fn field(prompt: &Prompt) -> &'static str {
    match prompt {
        // Formats that have no field of this name name their own when they are read.
        Prompt::Chat(_) | Prompt::Request(_) => "messages",
        Prompt::Text(_) | Prompt::Tokens(_) => "prompt",
    }
}

/// The token ids that the model reads, of a call that was read. A long text that begins like an earlier one of the
/// call's scope is tokenised only from there on; the call's word to the caches holds for texts as well.
pub(super) fn tokens(
    engine: &Engine,
    dialect: &Dialect,
    call: &Call,
) -> Result<Vec<TokenId>, ApiError> {
    let whose = TextUse {
        scope: &call.scope.0,
        salt: call.salt.as_ref().map_or(b"", |salt| salt.as_str().as_bytes()),
        read: call.cache.may_read(),
        store: call.cache.may_store(),
    };
    tokens_of(engine, dialect, call, Some(&whose))
}

/// The same for a prompt that is nobody's call: no earlier text is looked up, and it isn't kept.
pub(super) fn tokens_alone(
    engine: &Engine,
    dialect: &Dialect,
    prompt: Prompt,
) -> Result<Vec<TokenId>, ApiError> {
    tokens_of(engine, dialect, &Call::new(prompt), None)
}

fn tokens_of(
    engine: &Engine,
    dialect: &Dialect,
    call: &Call,
    whose: Option<&TextUse<'_>>,
) -> Result<Vec<TokenId>, ApiError> {
    match &call.prompt {
        Prompt::Chat(messages) => conversation(engine, dialect, messages, &call.tools, whose),
        Prompt::Text(text) => Ok(match whose {
            Some(whose) => engine.encode_prompt(text, Special::AsText, whose),
            None => engine.tokenizer().encode_prompt(text, Special::AsText),
        }),
        Prompt::Tokens(ids) => Ok(ids.iter().copied().map(TokenId).collect()),
        Prompt::Request(inbound) => tokens_of(engine, dialect, &lower::call(inbound)?, whose),
    }
}

fn conversation(
    engine: &Engine,
    dialect: &Dialect,
    messages: &[Message],
    tools: &[Tool],
    whose: Option<&TextUse<'_>>,
) -> Result<Vec<TokenId>, ApiError> {
    let rendered = tools::render(engine, dialect, messages, tools).map_err(|error| {
        // A template refuses in its own words: an order of roles that the model was not trained on, say.
        ApiError::new(ErrorKind::Invalid, format!("The conversation can't be laid out: {error}"))
            .at("messages")
            .code("template_refused")
            .hint("Change the order or the roles of the messages, or send the laid-out prompt to /v1/completions")
    })?;
    Ok(match whose {
        Some(whose) => engine.encode_rendered(&rendered, whose),
        None => engine.tokenizer().encode_rendered(&rendered),
    })
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
