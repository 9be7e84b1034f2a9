//! What of a request is read. The rest is skipped, so that a prompt of half a megabyte costs little.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// The APIs that are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
    /// `/v1/responses`.
    Responses,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/messages`.
    Messages,
    /// `/v1/messages/count_tokens`.
    CountTokens,
}

impl Api {
    /// By its path, whatever stands before `/v1`.
    pub fn of_path(path: &str) -> Option<Self> {
        let (_, rest) = path.split_once("/v1/")?;
        Some(match rest {
            "chat/completions" => Api::Chat,
            "completions" => Api::Completion,
            "responses" => Api::Responses,
            "embeddings" => Api::Embeddings,
            "messages" => Api::Messages,
            "messages/count_tokens" => Api::CountTokens,
            _ => return None,
        })
    }

    /// Whether errors have Anthropic's shape.
    pub fn is_anthropic(self) -> bool {
        matches!(self, Api::Messages | Api::CountTokens)
    }
}

/// The fields that matter here.
#[derive(Debug, Default, Deserialize)]
pub struct Asked<'a> {
    /// The model's name.
    #[serde(borrow, default)]
    pub model: Option<Cow<'a, str>>,
    /// Whether in chunks.
    #[serde(default)]
    pub stream: Option<bool>,
    /// How many answers.
    #[serde(default)]
    pub n: Option<usize>,
    /// Whether usage is asked for.
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// vLLM's.
    #[serde(default)]
    pub cache_salt: Option<Value>,
}

/// What may be asked of a stream.
#[derive(Debug, Default, Deserialize)]
pub struct StreamOptions {
    /// Whether a last chunk tells the usage.
    #[serde(default)]
    pub include_usage: Option<bool>,
}

impl Asked<'_> {
    /// Whether a stream of OpenAI's chat is to tell the usage.
    pub fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }
}
