//! What the three APIs of conversations can say, in no API's words.

use serde_json::{Map, Value};

use crate::Format;
use crate::openai::refused::unsupported;
use crate::{ApiError, ToolChoice};

/// A request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Neutral {
    /// Whose words it was said in.
    pub(crate) from: Option<Format>,
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// The instructions before the conversation.
    pub(crate) system: Vec<Piece>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) tool_choice: Option<ToolChoice>,
    /// `false` where one answer may call one tool at most.
    pub(crate) parallel: Option<bool>,
    pub(crate) output: Option<Output>,
    pub(crate) max_tokens: Option<u64>,
    /// Numbers as they were written.
    pub(crate) temperature: Option<Value>,
    pub(crate) top_p: Option<Value>,
    pub(crate) top_k: Option<Value>,
    pub(crate) stop: Vec<String>,
    pub(crate) thinking: Option<Thinking>,
    pub(crate) verbosity: Option<Value>,
    /// With `Some(n)`: logprobs, with n rivals.
    pub(crate) logprobs: Option<u64>,
    /// Who asks, in the caller's own terms.
    pub(crate) user: Option<String>,
    /// The marker of the request as a whole: the provider chooses the place.
    pub(crate) mark: Option<Mark>,
    pub(crate) cache_key: Option<Value>,
    /// Markers beside another at the same place, which nothing has room for.
    pub(crate) lost: Vec<String>,
    /// Fields that would change the answer and that only their own format has.
    pub(crate) own: Map<String, Value>,
}

impl Neutral {
    /// A field's name in the words of the caller: chat completions', responses' or messages'.
    pub(crate) fn field(&self, [chat, responses, messages]: [&'static str; 3]) -> &'static str {
        match self.from {
            Some(Format::Messages) => messages,
            Some(Format::Responses) => responses,
            _ => chat,
        }
    }
}

/// A turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) speaker: Speaker,
    pub(crate) pieces: Vec<Piece>,
    /// Its path in the request.
    pub(crate) path: String,
}

/// Who speaks. What tools gave back is the user's turn, as in Anthropic's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    System,
    User,
    Assistant,
}

/// A block of a turn, its marker, and where both stood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) block: Block,
    pub(crate) mark: Option<Mark>,
    pub(crate) path: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Text(String),
    Image {
        source: Source,
        detail: Option<String>,
    },
    File {
        name: Option<String>,
        source: Source,
    },
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    Result {
        id: String,
        content: Vec<Piece>,
        is_error: bool,
    },
    /// Thinking; what has no signature was not made to be sent back.
    Thinking {
        text: String,
        signature: Option<String>,
    },
    Redacted(String),
    Refusal(String),
}

/// Where an image or a file is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    Url(String),
    Base64 { media: String, data: String },
}

impl Source {
    /// A URL that may hold the data itself.
    pub(crate) fn of_url(url: &str) -> Self {
        let held = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match held {
            Some((media, data)) => {
                Source::Base64 { media: media.to_owned(), data: data.to_owned() }
            }
            None => Source::Url(url.to_owned()),
        }
    }

    /// As one URL.
    pub(crate) fn to_url(&self) -> String {
        match self {
            Source::Url(url) => url.clone(),
            Source::Base64 { media, data } => format!("data:{media};base64,{data}"),
        }
    }
}

/// A marker: the prompt up to here is worth caching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) life: Option<Life>,
}

/// How long what is marked shall live; each provider has a short and a long life, of its own lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Short,
    Long,
}

/// A function that may be called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: Option<Value>,
    pub(crate) strict: Option<bool>,
    pub(crate) mark: Option<Mark>,
    pub(crate) path: String,
}

/// The shape of the answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    Object,
    Schema { schema: Value, name: Option<String>, strict: Option<bool> },
}

/// How much the model thinks before it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thinking {
    Off,
    /// As much as it likes.
    Adaptive,
    /// By a word: `low`, `medium`, `high`.
    Effort(String),
    /// At most so many tokens, and perhaps by a word as well.
    Budget(u64, Option<String>),
}

/// What another API can't say, and so was left out, or said otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The field, as a path in the caller's request.
    pub field: String,
    /// What became of it, in few words.
    pub why: &'static str,
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.field, self.why)
    }
}

/// The error for something that another API has no words for, and that would change the answer.
pub(crate) fn unsaid(path: &str, to: Format) -> ApiError {
    let api = match to {
        Format::Messages => "Anthropic's messages API",
        Format::Responses => "OpenAI's responses API",
        _ => "OpenAI's chat completions API",
    };
    ApiError::invalid(
        path,
        format!("`{path}` would change the answer, and can't be said in {api}, which this model's upstream speaks"),
    )
    .code("unsupported_field")
    .hint("Leave it out, or ask for a model whose upstream speaks the API of this request")
}

/// The error for a value that no conversation here can have.
pub(crate) fn unknown(path: &str, known: &str) -> ApiError {
    unsupported(path, &format!("Use {known}"))
}

/// Whether a value sets nothing.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) => false,
    }
}
