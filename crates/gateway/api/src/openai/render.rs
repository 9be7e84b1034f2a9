//! Writes an answer: as chunks, or as one body. Both eat the same events, and agree in text and usage.

use serde_json::Value;

use super::logprobs::{ChatLogprobs, TextLogprobs};
use super::wire::{ChatChoice, Delta, Envelope, Said, TextChoice, WireMessage, json};
use crate::call::CallId;
use crate::event::{CallEvent, Finish, Token};

/// Which of OpenAI's two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Text,
}

/// What every chunk, and the body, begins with.
#[derive(Debug, Clone)]
pub struct Head {
    /// The format.
    pub format: Format,
    /// The answer's id, `chatcmpl-...` or `cmpl-...`.
    pub id: String,
    /// When the answer began, in seconds of Unix time.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// Changes when the weights, the tokenizer or the arithmetic do.
    pub fingerprint: String,
    /// Whether the usage says nothing of cached tokens.
    pub hide_cached: bool,
}

impl Head {
    /// The id of a call's answer.
    pub fn answer_id(format: Format, call: CallId) -> String {
        match format {
            Format::Chat => format!("chatcmpl-{call}"),
            Format::Text => format!("cmpl-{call}"),
        }
    }

    fn envelope<'a, C>(
        &'a self,
        chunk: bool,
        choices: &'a [C],
        usage: Option<Option<Value>>,
    ) -> Envelope<'a, C> {
        let object = match self.format {
            Format::Chat if chunk => "chat.completion.chunk",
            Format::Chat => "chat.completion",
            Format::Text => "text_completion",
        };
        Envelope {
            id: &self.id,
            object,
            created: self.created,
            model: &self.model,
            system_fingerprint: &self.fingerprint,
            choices,
            usage,
            tapri: None,
        }
    }
}

/// Writes an answer as chunks, each a JSON object.
#[derive(Debug)]
pub struct Chunks {
    head: Head,
    include_usage: bool,
    chars: usize,
    note: Option<Value>,
}

impl Chunks {
    /// For one answer.
    pub fn new(head: Head, include_usage: bool) -> Self {
        Chunks { head, include_usage, chars: 0, note: None }
    }

    /// Puts a `tapri` field into the last chunk. To be said before the last event.
    pub fn note(&mut self, note: Value) {
        self.note = Some(note);
    }

    /// The chunk before any text; completions have none.
    pub fn first(&self) -> Option<String> {
        match self.head.format {
            Format::Chat => {
                Some(self.chat(Delta { role: Some("assistant"), content: Some("") }, None, None))
            }
            Format::Text => None,
        }
    }

    /// The chunks of an event: none, one, or at the end up to three. An error is not a chunk; see
    /// [`error::render`](super::error::render).
    pub fn event(&mut self, event: &CallEvent) -> Vec<String> {
        match event {
            CallEvent::Token(token) => self.token(token).into_iter().collect(),
            CallEvent::Finished(finish) => self.finish(finish),
            CallEvent::Admitted(_)
            | CallEvent::Prefill { .. }
            | CallEvent::Piece(_)
            | CallEvent::Failed(_) => Vec::new(),
        }
    }

    fn token(&mut self, token: &Token) -> Option<String> {
        if token.text.is_empty() && token.logprobs.is_none() {
            return None;
        }
        let chunk = match self.head.format {
            Format::Chat => {
                let mut logprobs = ChatLogprobs::default();
                logprobs.push(token);
                let logprobs = token.logprobs.is_some().then_some(logprobs);
                self.chat(Delta { role: None, content: Some(&token.text) }, logprobs, None)
            }
            Format::Text => {
                let mut logprobs = TextLogprobs::default();
                logprobs.push(token, self.chars);
                let logprobs = token.logprobs.is_some().then_some(logprobs);
                self.text(&token.text, logprobs, None)
            }
        };
        self.chars += token.text.chars().count();
        Some(chunk)
    }

    fn finish(&self, finish: &Finish) -> Vec<String> {
        let mut chunks = Vec::new();
        let reason = Some(finish.reason.as_str());
        match self.head.format {
            Format::Chat => {
                if !finish.tail.is_empty() {
                    chunks.push(self.chat(
                        Delta { role: None, content: Some(&finish.tail) },
                        None,
                        None,
                    ));
                }
                chunks.push(self.chat(Delta::default(), None, reason));
            }
            Format::Text => chunks.push(self.text(&finish.tail, None, reason)),
        }
        if self.include_usage || self.note.is_some() {
            let usage = self.include_usage.then(|| finish.usage.to_chat(self.head.hide_cached));
            let last = self.head.envelope::<TextChoice<'_>>(true, &[], usage);
            chunks.push(json(&Envelope { tapri: self.note.as_ref(), ..last }));
        }
        chunks
    }

    fn chat(
        &self,
        delta: Delta<'_>,
        logprobs: Option<ChatLogprobs>,
        finish_reason: Option<&'static str>,
    ) -> String {
        let choice = ChatChoice { index: 0, said: Said::Delta(delta), logprobs, finish_reason };
        json(&self.head.envelope(true, &[choice], self.no_usage()))
    }

    fn text(
        &self,
        text: &str,
        logprobs: Option<TextLogprobs>,
        finish_reason: Option<&'static str>,
    ) -> String {
        let choice = TextChoice { index: 0, text, logprobs, finish_reason };
        json(&self.head.envelope(true, &[choice], self.no_usage()))
    }

    /// With the usage asked for, every chunk but the last says that it has none.
    fn no_usage(&self) -> Option<Option<Value>> {
        self.include_usage.then_some(None)
    }
}

/// Writes an answer as one body.
#[derive(Debug)]
pub struct Body {
    head: Head,
    text: String,
    chat_logprobs: Option<ChatLogprobs>,
    text_logprobs: Option<TextLogprobs>,
    note: Option<Value>,
}

impl Body {
    /// For one answer.
    pub fn new(head: Head) -> Self {
        Body { head, text: String::new(), chat_logprobs: None, text_logprobs: None, note: None }
    }

    /// Puts a `tapri` field into the body. To be said before the last event.
    pub fn note(&mut self, note: Value) {
        self.note = Some(note);
    }

    /// Takes an event in; after `Finished` the body is there.
    pub fn event(&mut self, event: &CallEvent) -> Option<String> {
        match event {
            CallEvent::Token(token) => {
                self.token(token);
                None
            }
            CallEvent::Finished(finish) => Some(self.finish(finish)),
            CallEvent::Admitted(_)
            | CallEvent::Prefill { .. }
            | CallEvent::Piece(_)
            | CallEvent::Failed(_) => None,
        }
    }

    fn token(&mut self, token: &Token) {
        if token.logprobs.is_some() {
            match self.head.format {
                Format::Chat => self.chat_logprobs.get_or_insert_default().push(token),
                Format::Text => {
                    self.text_logprobs
                        .get_or_insert_default()
                        .push(token, self.text.chars().count());
                }
            }
        }
        self.text.push_str(&token.text);
    }

    fn finish(&mut self, finish: &Finish) -> String {
        self.text.push_str(&finish.tail);
        let usage = Some(finish.usage.to_chat(self.head.hide_cached));
        let finish_reason = Some(finish.reason.as_str());
        match self.head.format {
            Format::Chat => {
                let message = WireMessage { role: "assistant", content: &self.text, refusal: None };
                let logprobs = self.chat_logprobs.take();
                let choice =
                    ChatChoice { index: 0, said: Said::Message(message), logprobs, finish_reason };
                let note = self.note.as_ref();
                json(&Envelope { tapri: note, ..self.head.envelope(false, &[choice], usage) })
            }
            Format::Text => {
                let logprobs = self.text_logprobs.take();
                let choice = TextChoice { index: 0, text: &self.text, logprobs, finish_reason };
                let note = self.note.as_ref();
                json(&Envelope { tapri: note, ..self.head.envelope(false, &[choice], usage) })
            }
        }
    }
}
