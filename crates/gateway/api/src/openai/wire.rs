//! The serialised shapes of chat completions and completions.

use serde::Serialize;
use serde_json::{Map, Value};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system_fingerprint: Option<&'a str>,
    pub(crate) choices: &'a [C],
    /// Absent in chunks, unless the usage was asked for: then null but in the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Option<Value>>,
    /// vLLM's, of a chat completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_logprobs: Option<&'a [Value]>,
    /// What Tapri has to say about the call; in the body, and in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tapri: Option<&'a Value>,
}

#[derive(Serialize)]
pub(crate) struct ChatChoice<'a> {
    pub(crate) index: usize,
    #[serde(flatten)]
    pub(crate) said: Said<'a>,
    pub(crate) logprobs: Option<&'a Logprobs>,
    pub(crate) finish_reason: Option<&'static str>,
}

/// Logprobs of our own, or as an upstream wrote them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Logprobs {
    Chat(ChatLogprobs),
    Text(TextLogprobs),
    Told(Value),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said<'a> {
    Delta(Delta<'a>),
    Message(Message<'a>),
}

#[derive(Default, Serialize)]
pub(crate) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) thinking_blocks: &'a [Value],
    #[serde(flatten)]
    pub(crate) other: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
pub(crate) struct Message<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: Option<&'a str>,
    pub(crate) refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub(crate) thinking_blocks: &'a [Value],
    #[serde(flatten)]
    pub(crate) other: &'a Map<String, Value>,
}

fn is_empty(list: &&[Value]) -> bool {
    list.is_empty()
}

/// A call of a tool, or in a chunk more of one.
#[derive(Serialize)]
pub(crate) struct ToolCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<&'static str>,
    pub(crate) function: Function<'a>,
}

#[derive(Serialize)]
pub(crate) struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<&'a str>,
    pub(crate) arguments: &'a str,
}

#[derive(Serialize)]
pub(crate) struct TextChoice<'a> {
    pub(crate) index: usize,
    pub(crate) text: &'a str,
    pub(crate) logprobs: Option<&'a Logprobs>,
    /// vLLM's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_logprobs: Option<&'a [Value]>,
    pub(crate) finish_reason: Option<&'static str>,
}
