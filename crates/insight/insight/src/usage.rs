//! One usage algebra for other people's logs.
//!
//! A line of a log says how many tokens a prompt had and how many of them came from a cache, in one of many shapes.
//! [`read`] finds the counts wherever they are, and gives them in one form: `prompt` is all of the prompt, `cached`
//! and `written` are parts of it. A count that isn't there is unknown, which is not zero.
//!
//! Map: [`Shape`] the shapes and what each includes; [`log`] a whole log; `sketch` a line without its texts; `counts` the shapes, one
//! function each; `when` times in many spellings; `whose` tenant, route, model, conversation, durations.

mod counts;
pub mod log;
mod sketch;
mod when;
mod whose;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use self::sketch::Sketch;

/// Who wrote the counts, and so what they include.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    /// `prompt_tokens` and `cached_tokens` side by side (also Moonshot): the prompt includes the cached.
    Flat,
    /// OpenAI's chat completions, and everyone who speaks it (vLLM, SGLang, Mistral, xAI, Groq):
    /// `prompt_tokens_details.cached_tokens`, included.
    OpenAiChat,
    /// OpenAI's responses: `input_tokens_details.cached_tokens`, included.
    OpenAiResponses,
    /// Anthropic's messages: `input_tokens` leaves out `cache_read_input_tokens` and `cache_creation_input_tokens`.
    Anthropic,
    /// llama-server: `timings.cache_n` reused and `timings.prompt_n` computed. Its `tokens_cached` is the length of
    /// the slot after the answer, and is not read.
    LlamaServer,
    /// LiteLLM: OpenAI's names, with Anthropic's beside them, all included in `prompt_tokens`.
    LiteLlm,
    /// DeepSeek: `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens` make `prompt_tokens`.
    DeepSeek,
    /// Gemini: `cachedContentTokenCount`, included in `promptTokenCount`.
    Gemini,
    /// Bedrock's Converse: `inputTokens` leaves out `cacheReadInputTokens` and `cacheWriteInputTokens`.
    Bedrock,
    /// OpenTelemetry's GenAI attributes: `gen_ai.usage.cache_read.input_tokens`, included.
    OpenTelemetry,
    /// Tapri's own records.
    Tapri,
}

impl Shape {
    /// A name for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::OpenAiChat => "OpenAI chat",
            Self::OpenAiResponses => "OpenAI responses",
            Self::Anthropic => "Anthropic",
            Self::LlamaServer => "llama-server",
            Self::LiteLlm => "LiteLLM",
            Self::DeepSeek => "DeepSeek",
            Self::Gemini => "Gemini",
            Self::Bedrock => "Bedrock",
            Self::OpenTelemetry => "OpenTelemetry",
            Self::Tapri => "Tapri",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Token counts of one call. `None` is not reported; `Some(0)` is reported as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Whose shape they came in.
    pub shape: Shape,
    /// All tokens of the prompt, cached or not.
    pub prompt: u64,
    /// Of those, read from a cache.
    pub cached: Option<u64>,
    /// Of those, written to a cache. `cached + written` is at most `prompt`.
    pub written: Option<u64>,
    /// Of the written, those for the longer lifetime (an hour, or twelve).
    pub written_long: Option<u64>,
    /// Tokens of the answer.
    pub answer: Option<u64>,
}

/// What a line says of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedCall {
    /// The counts.
    pub usage: Usage,
    /// When it began, or was written down: logs seldom say which.
    pub at: Option<Timestamp>,
    /// Whose it is: a tenant, else a team, a key's alias, a user.
    pub tenant: Option<String>,
    /// The endpoint.
    pub route: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The conversation or session.
    pub conversation: Option<String>,
    /// To the first token. Fields without a unit in their name are read as seconds.
    pub ttft: Option<Duration>,
    /// To the end.
    pub total: Option<Duration>,
    /// What makes two lines the same answer, where one answer is written on several lines (sessions of Claude Code).
    pub repeats: Option<String>,
}

/// What a line can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A call with counts.
    Call(Box<LoggedCall>),
    /// Something else: a user's message, a summary, a part of a stream.
    Other,
}

/// Why a line can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// It isn't JSON.
    #[error("{0}")]
    Json(String),
    /// JSON, but no object.
    #[error("not a JSON object")]
    NoObject,
    /// A count that is none.
    #[error("{field} is {value}, which is no count of tokens")]
    NoCount {
        /// The field's name.
        field: String,
        /// What stands there.
        value: String,
    },
    /// Parts that are more than the whole.
    #[error("{part} tokens {what} of a prompt of {prompt}")]
    TooMany {
        /// The part.
        part: u64,
        /// What it is.
        what: &'static str,
        /// The whole.
        prompt: u64,
    },
    /// Two fields that should be equal.
    #[error("{one} says {first}, {other} says {second}")]
    Disagree {
        /// A field.
        one: &'static str,
        /// Its count.
        first: u64,
        /// The other field.
        other: &'static str,
        /// Its count.
        second: u64,
    },
}

/// Reads a line of a log.
///
/// ```
/// use tapri_insight::usage::{Line, read};
///
/// let line = r#"{"usage": {"input_tokens": 50, "cache_read_input_tokens": 950, "cache_creation_input_tokens": 0}}"#;
/// let Ok(Line::Call(call)) = read(line) else { panic!() };
/// assert_eq!((call.usage.prompt, call.usage.cached), (1000, Some(950)));
/// ```
pub fn read(line: &str) -> Result<Line, UsageError> {
    let line: Sketch =
        serde_json::from_str(line).map_err(|error| UsageError::Json(error.to_string()))?;
    if !line.is_object() {
        return Err(UsageError::NoObject);
    }
    // Later events of Anthropic's stream repeat the counts of `message_start`, cumulatively.
    if line.text("type") == Some("message_delta") {
        return Ok(Line::Other);
    }
    let Some(usage) = counts::find(&line)? else { return Ok(Line::Other) };
    usage.check()?;
    let start = when::start(&line);
    Ok(Line::Call(Box::new(LoggedCall {
        usage,
        at: start.or_else(|| when::written(&line)),
        tenant: whose::tenant(&line),
        route: whose::route(&line),
        model: whose::model(&line),
        conversation: whose::conversation(&line),
        ttft: whose::ttft(&line).or_else(|| when::since(start?, when::first_token(&line)?)),
        total: whose::total(&line).or_else(|| when::since(start?, when::end(&line)?)),
        repeats: whose::repeats(&line),
    })))
}

impl Usage {
    /// Parts must fit in the whole.
    fn check(&self) -> Result<(), UsageError> {
        let too_many = |part, what| UsageError::TooMany { part, what, prompt: self.prompt };
        let cached = self.cached.unwrap_or(0);
        let written = self.written.unwrap_or(0);
        if cached > self.prompt {
            return Err(too_many(cached, "from cache"));
        }
        if cached + written > self.prompt {
            return Err(too_many(cached + written, "read or written"));
        }
        match self.written_long {
            Some(long) if long > written => {
                Err(UsageError::TooMany { part: long, what: "of long life", prompt: written })
            }
            _ => Ok(()),
        }
    }
}
