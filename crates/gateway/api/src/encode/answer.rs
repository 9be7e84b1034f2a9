//! An answer as a row of blocks, from what its events say: what formats with blocks are written from.

use serde_json::{Map, Value, json};

use crate::event::{CallEvent, Says, Token};
use crate::openai::logprobs;

/// A block of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Text {
        text: String,
        /// Of a message.
        citations: Vec<Value>,
        /// Of a response.
        annotations: Vec<Value>,
        logprobs: Vec<Value>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Refusal(String),
    Call {
        id: String,
        name: String,
        json: String,
    },
    /// A block of a message (`content`), or an item of a response's output (`output`), that only its format has.
    Other {
        field: String,
        value: Value,
    },
}

/// The first answer of a call; formats with blocks have one.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) blocks: Vec<Block>,
    /// Blocks of calls, by the number of the call.
    calls: Vec<(usize, usize)>,
}

impl Answer {
    pub(super) fn event(&mut self, event: &CallEvent) {
        for says in said(event) {
            self.add(&says);
        }
    }

    pub(super) fn add(&mut self, says: &Says) {
        match says {
            Says::Text(words) => self.text(words),
            Says::Token(token) => {
                self.text(&token.text);
                self.logprobs(logprobs::chat_list(token));
            }
            Says::Logprobs(value) => {
                let list = value.get("content").unwrap_or(value);
                self.logprobs(list.as_array().cloned().unwrap_or_default());
            }
            Says::Thinking(words) => {
                if let Some(Block::Thinking { text, signature }) = self.blocks.last_mut()
                    && signature.is_empty()
                {
                    text.push_str(words);
                } else {
                    let (text, signature) = (words.clone(), String::new());
                    self.blocks.push(Block::Thinking { text, signature });
                }
            }
            Says::ThinkingSignature(seal) => match self.blocks.last_mut() {
                Some(Block::Thinking { signature, .. }) => signature.push_str(seal),
                _ => {
                    let (text, signature) = (String::new(), seal.clone());
                    self.blocks.push(Block::Thinking { text, signature });
                }
            },
            Says::RedactedThinking(data) => self.blocks.push(Block::Redacted(data.clone())),
            Says::Refusal(words) => match self.blocks.last_mut() {
                Some(Block::Refusal(text)) => text.push_str(words),
                _ => self.blocks.push(Block::Refusal(words.clone())),
            },
            Says::ToolCall { index, id, name } => {
                self.calls.push((*index, self.blocks.len()));
                let (id, name, json) = (id.clone(), name.clone(), String::new());
                self.blocks.push(Block::Call { id, name, json });
            }
            Says::ToolArguments { index, json: more } => {
                let place = self.calls.iter().rev().find(|(call, _)| call == index);
                if let Some(Block::Call { json, .. }) =
                    place.and_then(|(_, at)| self.blocks.get_mut(*at))
                {
                    json.push_str(more);
                }
            }
            Says::Other { field, value } if field == "citations" || field == "text_annotations" => {
                if let (Some(Block::Text { citations, annotations, .. }), Some(more)) =
                    (self.blocks.last_mut(), value.as_array())
                {
                    let notes = if field == "citations" { citations } else { annotations };
                    notes.extend(more.iter().cloned());
                }
            }
            Says::Other { field, .. } if field != "content" && field != "output" => {}
            Says::Other { field, value } => {
                for value in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
                    self.blocks.push(Block::Other { field: field.clone(), value: value.clone() });
                }
            }
            // Of the prompt only OpenAI's formats have room to tell.
            Says::Echo { .. } | Says::PromptLogprobs(_) | Says::End { .. } => {}
        }
    }

    fn text(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        match self.blocks.last_mut() {
            Some(Block::Text { text, .. }) => text.push_str(words),
            _ => {
                self.blocks.push(Block::Text {
                    text: words.to_owned(),
                    citations: Vec::new(),
                    annotations: Vec::new(),
                    logprobs: Vec::new(),
                });
            }
        }
    }

    fn logprobs(&mut self, more: Vec<Value>) {
        if let Some(Block::Text { logprobs, .. }) = self.blocks.last_mut() {
            logprobs.extend(more);
        }
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }
}

/// What an event says of the first answer.
pub(super) fn said(event: &CallEvent) -> Vec<Says> {
    match event {
        CallEvent::Token(token) => vec![Says::Token(token.clone())],
        CallEvent::Piece(piece) => piece
            .deltas
            .iter()
            .filter(|delta| delta.choice == 0)
            .map(|delta| delta.says.clone())
            .collect(),
        // What was held back and turned out to belong to the answer.
        CallEvent::Finished(finish) if !finish.tail.is_empty() => {
            vec![Says::Text(finish.tail.clone())]
        }
        _ => Vec::new(),
    }
}

/// The text of a token, or a text.
pub(super) fn words(says: &Says) -> Option<&str> {
    match says {
        Says::Text(words) => Some(words),
        Says::Token(Token { text, .. }) => Some(text),
        _ => None,
    }
}

/// The arguments of a call as the object that they are. What a model wrote that is no object can't be one, and is
/// kept as a text under `arguments`.
pub(super) fn input(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(input)) => Value::Object(input),
        _ => json!({ "arguments": arguments }),
    }
}
