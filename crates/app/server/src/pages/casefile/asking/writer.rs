//! Prompts as requests.

use serde_json::{Value, json};
use tapri_api::{ApiError, Format, Inbound, Message, Prompt};

/// Writes prompts as requests of OpenAI's API: what the embedded engine and every upstream reads, tools included.
pub(super) struct Writer {
    pub(super) model: String,
    pub(super) most: usize,
    pub(super) tools: Option<Value>,
}

/// Whether the model may call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// As it likes.
    Free,
    /// It has to: what it says is kept to a call. The prompt is the same as when it is free.
    Search,
    /// It has called them often enough. They stay in the prompt, so that its start stays the same.
    Answer,
}

impl Writer {
    pub(super) fn request(
        &self,
        prompt: &Prompt,
        stop: &[String],
        more: &[Value],
        choice: Choice,
    ) -> Result<Inbound, ApiError> {
        let (format, mut body) = match prompt {
            Prompt::Chat(messages) => {
                let messages: Vec<Value> =
                    messages.iter().map(message).chain(more.iter().cloned()).collect();
                (Format::Chat, json!({ "model": self.model, "messages": messages }))
            }
            Prompt::Text(text) => {
                (Format::Completion, json!({ "model": self.model, "prompt": text }))
            }
            Prompt::Tokens(ids) => {
                (Format::Completion, json!({ "model": self.model, "prompt": ids }))
            }
            Prompt::Request(inbound) => return Ok(Inbound::clone(inbound)),
        };
        if let (Some(tools), Format::Chat) = (&self.tools, format) {
            body["tools"] = tools.clone();
            match choice {
                Choice::Free => {}
                Choice::Search => {
                    body["tool_choice"] = "required".into();
                    // One search: a small model that may go on calling does.
                    body["parallel_tool_calls"] = false.into();
                }
                Choice::Answer => body["tool_choice"] = "none".into(),
            }
        }
        body["max_tokens"] = self.most.into();
        // The same question about the same files gets the same answer.
        body["temperature"] = 0.into();
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
        if !stop.is_empty() {
            body["stop"] = stop.into();
        }
        Inbound::read(format, body.to_string().into(), Vec::new())
    }
}

fn message(message: &Message) -> Value {
    json!({ "role": message.role.as_str(), "content": message.text() })
}
