//! Reads an upstream's answer, streamed or whole, into the events that every renderer eats.
//!
//! A chunk becomes one [`Piece`]: as it came, and what it says. So a caller of the same format gets every
//! field of it, and everyone else (another format, the response cache, the record) what it means. The last event is
//! [`Finished`](CallEvent::Finished) only where the upstream said that its answer is whole.
//!
//! ```
//! use tapri_api::decode::{Decoder, Options};
//! use tapri_api::{CallEvent, Format};
//!
//! let mut decoder = Decoder::new(Format::Chat, Options::default());
//! let chunk = r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#;
//! assert!(matches!(&decoder.event(None, chunk)?[..], [CallEvent::Piece(_)]));
//! assert!(matches!(&decoder.event(None, "[DONE]")?[..], [CallEvent::Finished(_)]));
//! # Ok::<(), tapri_api::ApiError>(())
//! ```

mod error;
mod messages;
mod openai;
mod responses;

use std::sync::Arc;

use serde_json::Value;

use crate::event::{Delta, Piece, Raw, Says};
use crate::{ApiError, CallEvent, ErrorKind, Finish, FinishReason, Format, Timings, Usage};

pub use error::error;

/// What a decoder has to know of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many answers were asked for. A stream that closes without its `[DONE]` is whole only when all have ended.
    pub choices: usize,
    /// Whether the client asked for the usage of a stream (`stream_options.include_usage`). Where it didn't, and the
    /// gateway did, chunks lose their `usage`.
    pub client_usage: bool,
}

impl Default for Options {
    /// One answer, and the client sees the usage.
    fn default() -> Self {
        Options { choices: 1, client_usage: true }
    }
}

/// Reads one answer. Its [`Finish`] has no timings: it has no clock.
#[derive(Debug)]
pub struct Decoder {
    reader: Reader,
    ended: bool,
}

#[derive(Debug)]
enum Reader {
    OpenAi(openai::Reader),
    Responses(responses::Reader),
    Messages(messages::Reader),
    /// Embeddings are no answer of events.
    None(Format),
}

impl Decoder {
    /// For an answer in a format.
    pub fn new(format: Format, options: Options) -> Self {
        let reader = match format {
            Format::Chat | Format::Completion => {
                Reader::OpenAi(openai::Reader::new(format, options))
            }
            Format::Responses => Reader::Responses(responses::Reader::default()),
            Format::Messages => Reader::Messages(messages::Reader::default()),
            Format::Embeddings => Reader::None(format),
        };
        Decoder { reader, ended: false }
    }

    /// Takes an event of a stream (SSE), by its name, if it has one, and its data. After the last event of the answer
    /// whatever comes is skipped.
    pub fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<CallEvent>, ApiError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let events = match &mut self.reader {
            Reader::OpenAi(reader) => reader.event(name, data),
            Reader::Responses(reader) => reader.event(name, data),
            Reader::Messages(reader) => reader.event(name, data),
            Reader::None(format) => Err(no_events(*format)),
        }?;
        Ok(self.seen(events))
    }

    /// Takes a whole body.
    pub fn body(&mut self, body: &str) -> Result<Vec<CallEvent>, ApiError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let events = match &mut self.reader {
            Reader::OpenAi(reader) => reader.body(body),
            Reader::Responses(reader) => reader.body(body),
            Reader::Messages(reader) => reader.body(body),
            Reader::None(format) => Err(no_events(*format)),
        }?;
        Ok(self.seen(events))
    }

    /// The stream closed. Where its last event never came, the answer has failed: what came is not a whole one.
    pub fn end(&mut self) -> Vec<CallEvent> {
        if self.ended {
            return Vec::new();
        }
        self.ended = true;
        let finish = match &mut self.reader {
            Reader::OpenAi(reader) => reader.whole(),
            _ => None,
        };
        vec![finish.map_or_else(|| CallEvent::Failed(broken_off()), CallEvent::Finished)]
    }

    /// Whether the last event was given.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    fn seen(&mut self, events: Vec<CallEvent>) -> Vec<CallEvent> {
        self.ended = events
            .iter()
            .any(|event| matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_)));
        events
    }
}

fn no_events(format: Format) -> ApiError {
    ApiError::new(
        ErrorKind::Internal,
        format!("An answer of {} is no row of events", format.path()),
    )
}

/// The error for a stream that closed too early.
fn broken_off() -> ApiError {
    ApiError::new(ErrorKind::Upstream, "The upstream's stream ended before its answer did")
        .code("upstream_incomplete")
        .hint("Send the request again")
}

/// The error for an answer that isn't one. What it says is not repeated.
fn invalid(what: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorKind::Upstream, format!("The upstream's answer can't be understood: {what}"))
        .code("upstream_invalid")
        .hint("Check that the upstream's address and API are the ones configured")
}

/// A JSON object.
fn object(data: &str) -> Result<Value, ApiError> {
    match serde_json::from_str::<Value>(data) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(invalid("it is no JSON object")),
        // serde_json names the place and no more than a few bytes of what stands there.
        Err(error) => Err(invalid(format_args!(
            "it is no JSON ({:?} at column {})",
            error.classify(),
            error.column()
        ))),
    }
}

fn raw(format: Format, event: Option<&str>, data: impl Into<Arc<str>>, whole: bool) -> Raw {
    Raw { format, event: event.map(str::to_owned), data: data.into(), whole }
}

fn piece(raw: Raw, deltas: Vec<Delta>) -> CallEvent {
    CallEvent::Piece(Piece { raw: Some(raw), deltas })
}

fn finish(reason: FinishReason, matched_stop: Option<String>, usage: Usage) -> Finish {
    Finish {
        reason,
        matched_stop,
        tail: String::new(),
        usage,
        raw: None,
        timings: Timings::default(),
    }
}

/// Something that the first answer says.
fn says(says: Says) -> Delta {
    Delta { choice: 0, says }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn index(value: &Value, name: &str) -> Option<usize> {
    value.get(name).and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok())
}

/// Whether a field is set to anything: null and empty lists tell nothing.
fn is_told(value: &Value) -> bool {
    !(value.is_null() || value.as_array().is_some_and(Vec::is_empty))
}
