//! The formats: one answer as each API writes it.

mod messages;
mod openai;
mod responses;
pub mod usage;

use serde_json::{Value, json};

use crate::asked::Api;
use crate::prefix::Found;
use crate::script::Script;

/// One answer, before it is written.
#[derive(Debug)]
pub struct Answer<'a> {
    /// Its format.
    pub api: Api,
    /// A number of its own.
    pub number: u64,
    /// The model asked for.
    pub model: &'a str,
    /// What to say.
    pub script: &'a Script,
    /// The prompt's tokens.
    pub found: Found,
    /// Whether a chat's stream tells its usage.
    pub wants_usage: bool,
    /// How many answers.
    pub choices: usize,
    /// The texts, of embeddings.
    pub inputs: Vec<String>,
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its name, in formats that have one.
    pub event: Option<String>,
    /// Its data.
    pub data: String,
}

impl Frame {
    fn unnamed(data: &Value) -> Self {
        Frame { event: None, data: data.to_string() }
    }

    /// Named by the data's own `type`.
    fn typed(data: &Value) -> Self {
        let event = data["type"].as_str().map(str::to_owned);
        Frame { event, data: data.to_string() }
    }

    /// Its bytes.
    pub fn write(&self, crlf: bool) -> Vec<u8> {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = String::with_capacity(self.data.len() + 32);
        if let Some(event) = &self.event {
            text.push_str("event: ");
            text.push_str(event);
            text.push_str(end);
        }
        text.push_str("data: ");
        text.push_str(&self.data);
        text.push_str(end);
        text.push_str(end);
        text.into_bytes()
    }
}

/// A date that never changes, so that answers can be compared.
const CREATED: u64 = 1_790_000_000;

impl Answer<'_> {
    /// The words of its text, each with the space before it.
    fn words(&self) -> Vec<String> {
        let default =
            if self.script.tool_calls.is_empty() { "This is a scripted answer." } else { "" };
        if let Some(words) = self.script.words {
            return (0..words)
                .map(|n| if n == 0 { "word".into() } else { format!(" word{n}") })
                .collect();
        }
        let text = self.script.text.as_deref().unwrap_or(default);
        let mut words: Vec<String> = Vec::new();
        for part in text.split_inclusive(' ') {
            // The space belongs to the word behind it, as in most vocabularies.
            match words.last_mut() {
                Some(last) if last.ends_with(' ') => {
                    last.pop();
                    words.push(format!(" {part}"));
                }
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    /// Tokens of the answer: words, and four bytes of arguments each.
    fn answered(&self) -> u64 {
        let arguments: usize =
            self.script.tool_calls.iter().map(|call| call.arguments.len().div_ceil(4) + 1).sum();
        let thinking = self.script.thinking.as_deref().map_or(0, |text| text.len().div_ceil(4));
        (self.words().len() * self.choices + arguments + thinking) as u64
    }

    fn finish(&self) -> &str {
        match &self.script.finish {
            Some(finish) => finish,
            None if self.script.tool_calls.is_empty() => "stop",
            None => "tool_calls",
        }
    }

    fn id(&self, kind: &str) -> String {
        format!("{kind}{:012}", self.number)
    }

    /// The whole body.
    pub fn body(&self) -> String {
        match self.api {
            Api::Chat => openai::chat_body(self),
            Api::Completion => openai::completion_body(self),
            Api::Responses => responses::body(self),
            Api::Messages => messages::body(self),
            Api::Embeddings => openai::embeddings(self),
            Api::CountTokens => json!({"input_tokens": self.found.prompt}),
        }
        .to_string()
    }

    /// The events of a stream.
    pub fn frames(&self) -> Vec<Frame> {
        match self.api {
            Api::Chat => openai::chat_frames(self),
            Api::Completion => openai::completion_frames(self),
            Api::Responses => responses::frames(self),
            Api::Messages => messages::frames(self),
            // These have no streams.
            Api::Embeddings | Api::CountTokens => Vec::new(),
        }
    }
}

/// An error in an API's shape.
pub fn error(api: Option<Api>, status: u16, script: &Script, request_id: &str) -> String {
    let message = script.error.as_deref().unwrap_or("A scripted error");
    if api.is_some_and(Api::is_anthropic) {
        let kind = script.error_type.as_deref().unwrap_or(match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        });
        return json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
            .to_string();
    }
    let (kind, code) = match status {
        429 => ("requests", Some("rate_limit_exceeded")),
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        status if status < 500 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    let code = script.error_type.as_deref().or(code);
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}}).to_string()
}

/// An error in the middle of a stream.
pub fn error_frame(api: Api) -> Frame {
    match api {
        Api::Messages => Frame::typed(
            &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ),
        Api::Responses => Frame::typed(&json!({
            "type": "error", "code": "server_error", "message": "The server had an error", "param": null,
            "sequence_number": 99,
        })),
        _ => Frame::unnamed(&json!({"error": {
            "message": "The server had an error", "type": "server_error", "param": null, "code": null,
        }})),
    }
}
