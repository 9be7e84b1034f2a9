//! The serialised shapes of answers.

use serde::Serialize;
use serde_json::Value;

use super::logprobs::{ChatLogprobs, TextLogprobs};

/// What is serialised here are structs of strings and finite numbers, which always can be.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| String::from("{}"))
}

/// A chunk or a body: the two formats differ in their choices alone.
#[derive(Serialize)]
pub(crate) struct Envelope<'a, C> {
    pub(crate) id: &'a str,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: &'a str,
    pub(crate) system_fingerprint: &'a str,
    pub(crate) choices: &'a [C],
    /// Absent in chunks, unless the usage was asked for: then null but in the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Option<Value>>,
    /// What Tapri has to say about the call; in the body, and in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tapri: Option<&'a serde_json::Value>,
}

#[derive(Serialize)]
pub(crate) struct ChatChoice<'a> {
    pub(crate) index: u32,
    #[serde(flatten)]
    pub(crate) said: Said<'a>,
    pub(crate) logprobs: Option<ChatLogprobs>,
    pub(crate) finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said<'a> {
    Delta(Delta<'a>),
    Message(WireMessage<'a>),
}

#[derive(Default, Serialize)]
pub(crate) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct WireMessage<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: &'a str,
    pub(crate) refusal: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct TextChoice<'a> {
    pub(crate) index: u32,
    pub(crate) text: &'a str,
    pub(crate) logprobs: Option<TextLogprobs>,
    pub(crate) finish_reason: Option<&'static str>,
}
