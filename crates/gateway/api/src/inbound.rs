//! A request as it came, before anyone knows who will answer it.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::ApiError;
use crate::CacheSalt;
use crate::openai::fields::{self, Fields};
use crate::openai::options;

/// Which API's shape a request and its answer have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// OpenAI's `/v1/chat/completions`.
    Chat,
    /// OpenAI's `/v1/completions`.
    Completion,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// OpenAI's `/v1/embeddings`.
    Embeddings,
    /// Anthropic's `/v1/messages`.
    Messages,
}

/// The headers that may change an answer: they are kept with a request and sent on to an upstream of its format.
pub const AFFECTING_HEADERS: [&str; 3] = ["anthropic-beta", "anthropic-version", "openai-beta"];

impl Format {
    /// The path that requests of this format come to.
    pub fn path(self) -> &'static str {
        match self {
            Format::Chat => "/v1/chat/completions",
            Format::Completion => "/v1/completions",
            Format::Responses => "/v1/responses",
            Format::Embeddings => "/v1/embeddings",
            Format::Messages => "/v1/messages",
        }
    }
}

/// A request's body, parsed once, with what else of the request changes its answer.
///
/// Nothing is judged here but that the body is a JSON object and that `model` and `stream` have their types: what a
/// field means is for whoever answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    /// Its format.
    pub format: Format,
    /// The body's fields, in the order they came.
    pub body: Map<String, Value>,
    /// The body as it came.
    pub bytes: Bytes,
    /// Headers that may change the answer (`anthropic-version`, `anthropic-beta`, `openai-beta`), names in lower case, sorted.
    pub headers: Vec<(String, String)>,
    /// The model asked for.
    pub model: Option<String>,
    /// Whether the answer is to be sent in chunks.
    pub stream: bool,
}

impl Inbound {
    /// Reads a body.
    pub fn read(
        format: Format,
        bytes: Bytes,
        mut headers: Vec<(String, String)>,
    ) -> Result<Self, ApiError> {
        let mut fields = fields::parse(&bytes)?;
        let model = fields.get("model").cloned();
        let stream = fields.get("stream").cloned();
        let model = match model {
            None => None,
            Some(Value::String(model)) => Some(model),
            Some(other) => return Err(fields::wrong("model", "a string", &other)),
        };
        let stream = match stream {
            None => false,
            Some(Value::Bool(stream)) => stream,
            Some(other) => return Err(fields::wrong("stream", "true or false", &other)),
        };
        headers.sort();
        Ok(Inbound { format, body: fields.take_all(), bytes, headers, model, stream })
    }

    /// The client's own partition of its tenant's caches, in any format: `cache_salt`.
    pub fn salt(&self) -> Result<Option<CacheSalt>, ApiError> {
        let salt = self.body.get("cache_salt").cloned().map(|salt| ("cache_salt".into(), salt));
        options::salt(&mut Fields::of(salt.into_iter().collect()))
    }

    /// The conversation that it belongs to, where a field names it: `conversation`, `metadata.conversation_id`,
    /// `metadata.session_id` or `prompt_cache_key`.
    pub fn conversation(&self) -> Option<String> {
        options::conversation(&self.body)
    }

    /// The most tokens that it lets an answer have, where it says so and as far as it can be told without reading it all.
    pub fn max_tokens(&self) -> Option<u64> {
        ["max_completion_tokens", "max_output_tokens", "max_tokens"]
            .iter()
            .find_map(|name| self.body.get(*name)?.as_u64())
    }

    /// How many answers it asks for.
    pub fn choices(&self) -> usize {
        let n = self.body.get("n").and_then(Value::as_u64).unwrap_or(1);
        usize::try_from(n).unwrap_or(usize::MAX).max(1)
    }

    /// Whether a stream of chat completions or completions is to end with the usage.
    pub fn include_usage(&self) -> bool {
        let options = self.body.get("stream_options");
        options.and_then(|it| it.get("include_usage")).and_then(Value::as_bool).unwrap_or(false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(body: &'static str) -> Result<Inbound, ApiError> {
        Inbound::read(Format::Chat, Bytes::from_static(body.as_bytes()), Vec::new())
    }

    #[test]
    fn keeps_every_field_and_judges_three() {
        let inbound = read(r#"{"model": "m", "new_field": {"a": 1}, "stream": true}"#).unwrap();
        assert_eq!((inbound.model.as_deref(), inbound.stream), (Some("m"), true));
        assert_eq!(inbound.body["new_field"]["a"], 1);
        assert_eq!(read("[]").unwrap_err().status(), 400);
        assert_eq!(read(r#"{"model": 1}"#).unwrap_err().field.as_deref(), Some("model"));
        assert_eq!(read(r#"{"stream": "yes"}"#).unwrap_err().field.as_deref(), Some("stream"));
    }
}
