//! What a request is answered with.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One request's answer. The default is a short text with honest usage, at once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// An HTTP status; from 400 up the answer is an error in the API's shape.
    pub status: Option<u16>,
    /// The error's message.
    pub error: Option<String>,
    /// The error's type or code.
    pub error_type: Option<String>,
    /// The `Retry-After` header, as it is to be sent.
    pub retry_after: Option<String>,
    /// An error is for the first so many requests of this model alone; later ones are answered.
    pub first: Option<usize>,
    /// The connection is closed before any answer.
    pub hang_up: bool,
    /// Milliseconds before the first byte.
    pub delay_ms: u64,
    /// Milliseconds before each chunk of a stream.
    pub chunk_delay_ms: u64,
    /// The answer's text; its words are a stream's chunks.
    pub text: Option<String>,
    /// So many words instead.
    pub words: Option<usize>,
    /// What the model thinks before.
    pub thinking: Option<String>,
    /// The tools that it calls.
    pub tool_calls: Vec<ToolScript>,
    /// Why it ends, in OpenAI's word; by default `stop`, or `tool_calls`.
    pub finish: Option<String>,
    /// The connection breaks after so many chunks; of a body, in its middle.
    pub cut_after: Option<usize>,
    /// The stream says nothing more after so many chunks, and stays open.
    pub stall_after: Option<usize>,
    /// The stream ends in good order after so many chunks, without its last event.
    pub end_after: Option<usize>,
    /// An error event after so many chunks of a stream.
    pub error_after: Option<usize>,
    /// Vectors of embeddings depend on the texts, so that near texts have near vectors.
    pub letters: bool,
    /// What is said of tokens.
    pub usage: UsageScript,
    /// Streams are sent in pieces of so many bytes, wherever that cuts them.
    pub split: Option<usize>,
    /// Lines of a stream end in CR LF.
    pub crlf: bool,
    /// Comments and blank lines stand between a stream's events.
    pub comments: bool,
    /// This body, whatever the request was.
    pub raw: Option<String>,
    /// Its content type.
    pub content_type: Option<String>,
}

/// A tool that is called.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolScript {
    /// Its name.
    pub name: String,
    /// Its arguments, as JSON text.
    pub arguments: String,
}

/// What is said of tokens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageScript {
    /// What was counted.
    #[default]
    Honest,
    /// What was counted, without what came from the cache.
    NoDetails,
    /// Nothing: the field isn't there.
    Absent,
    /// `null`.
    Null,
    /// Counts below zero.
    Negative,
    /// More cached tokens than tokens, and totals that don't add up.
    Inconsistent,
    /// This.
    Verbatim(Value),
}

impl Script {
    /// An error.
    pub fn error(status: u16, message: &str) -> Self {
        Script { status: Some(status), error: Some(message.to_owned()), ..Script::default() }
    }

    /// A text.
    pub fn text(text: &str) -> Self {
        Script { text: Some(text.to_owned()), ..Script::default() }
    }

    /// The script in a model's name: what follows `@`, as `field=value` with commas between. `None` where there is
    /// none; the error says what can't be read.
    pub fn of_model(model: &str) -> Option<Result<Self, String>> {
        let (_, written) = model.split_once('@')?;
        let mut fields = Map::new();
        for part in written.split(',') {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => {
                    // Words are strings, everything else is JSON.
                    let value = serde_json::from_str(value)
                        .unwrap_or_else(|_| Value::String(value.to_owned()));
                    (name, value)
                }
                None => (part, Value::Bool(true)),
            };
            let value = match (name, value) {
                // A header is text, also where it is a number.
                ("retry_after", Value::Number(number)) => Value::String(number.to_string()),
                (_, value) => value,
            };
            fields.insert(name.to_owned(), value);
        }
        Some(serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_holds_a_script() {
        let script = Script::of_model("m@status=503,retry_after=2,usage=absent,hang_up").unwrap();
        let wanted = Script {
            status: Some(503),
            retry_after: Some("2".into()),
            usage: UsageScript::Absent,
            hang_up: true,
            ..Script::default()
        };
        assert_eq!(script.unwrap(), wanted);
        assert!(Script::of_model("m").is_none());
        assert!(Script::of_model("m@statuss=1").unwrap().unwrap_err().contains("statuss"));
    }
}
