//! One streamed answer, timed.

use std::io::{self, BufRead, Read};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// What is of interest in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Answer {
    /// From sending the request to the first token.
    pub(super) ttft: Duration,
    /// The time that the server itself names, where it does.
    pub(super) server: Option<Duration>,
    /// Prompt tokens that the server says it read from its cache.
    pub(super) cached: Option<u64>,
    /// Tokens of the prompt, as the server counts them.
    pub(super) prompt: Option<u64>,
    /// Whether it came only when asked again: the first try may have left the prompt in a cache.
    pub(super) asked_again: bool,
}

/// Why a stream is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error("the connection ended before the answer did")]
    Cut,
    #[error("the stream reports an error: {0}")]
    Reported(String),
    #[error("the stream has what is no event: {0}")]
    Garbled(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An answer of one token is shorter than this by far.
const LARGEST: u64 = 4 << 20;

/// Reads a stream of events to its end, so that the connection can be used again.
pub(super) fn read(reader: impl Read, sent: Instant) -> Result<Answer, StreamError> {
    let mut reader = io::BufReader::new(reader.take(LARGEST));
    let mut answer = Answer::default();
    let mut first = None;
    let mut line = Vec::new();
    let mut done = false;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let Some(data) = line.strip_prefix(b"data:") else { continue };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            done = true;
            continue;
        }
        let event: Event = serde_json::from_slice(data)
            .map_err(|error| StreamError::Garbled(error.to_string()))?;
        if let Some(error) = event.error {
            return Err(StreamError::Reported(error.message()));
        }
        // The first event often only says who speaks, and comes before the prompt was read.
        if first.is_none() && event.choices.iter().any(Choice::has_token) {
            first = Some(sent.elapsed());
        }
        if let Some(usage) = event.usage {
            answer.prompt = usage.prompt_tokens;
            answer.cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        }
    }
    answer.ttft = first.ok_or(StreamError::Cut)?;
    if done { Ok(answer) } else { Err(StreamError::Cut) }
}

/// An error body's message, or the start of what is none.
pub(super) fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Problem,
    }
    match serde_json::from_slice::<Body>(body) {
        Ok(body) => body.error.message(),
        Err(_) => String::from_utf8_lossy(body).chars().take(200).collect(),
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

impl Choice {
    /// A token may have no text of its own; then the end tells that it came.
    fn has_token(&self) -> bool {
        let says = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let delta = self.delta.as_ref();
        says(&self.text)
            || delta.is_some_and(|delta| says(&delta.content) || says(&delta.reasoning_content))
            || self.finish_reason.is_some()
    }
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

/// An error, as an object with a message or as text.
#[derive(Deserialize)]
#[serde(from = "serde_json::Value")]
struct Problem(serde_json::Value);

impl From<serde_json::Value> for Problem {
    fn from(value: serde_json::Value) -> Self {
        Problem(value)
    }
}

impl Problem {
    fn message(&self) -> String {
        let text = self.0.get("message").unwrap_or(&self.0);
        let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        text.chars().take(300).collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<Answer, StreamError> {
        read(text.as_bytes(), Instant::now())
    }

    #[test]
    fn chat_and_completions() {
        let chat = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
                    : a comment\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\r\n\r\n\
                    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n\
                    data: [DONE]\n\n";
        let read = answer(chat).unwrap();
        assert_eq!((read.prompt, read.cached), (Some(20), Some(16)));
        let read = answer(
            "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata:[DONE]\n",
        )
        .unwrap();
        assert_eq!((read.prompt, read.cached), (None, None));
    }

    #[test]
    fn what_is_no_answer() {
        assert!(matches!(answer(""), Err(StreamError::Cut)));
        assert!(matches!(
            answer("data: {\"choices\":[{\"text\":\"a\"}]}\n\n"),
            Err(StreamError::Cut)
        ));
        assert!(matches!(answer("data: [DONE]\n\n"), Err(StreamError::Cut)));
        assert!(matches!(answer("data: {\n\n"), Err(StreamError::Garbled(_))));
        let reported = answer("data: {\"error\":{\"message\":\"no room\"}}\n\n").unwrap_err();
        assert_eq!(reported.to_string(), "the stream reports an error: no room");
        assert_eq!(message(b"{\"error\":\"bad\"}"), "bad");
        assert_eq!(message(b"<html>"), "<html>");
    }
}
