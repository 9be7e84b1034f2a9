//! Writes an answer in a caller's format: as a stream of events (SSE) or as one body. Both eat the same
//! [`CallEvent`]s and agree in words and usage.
//!
//! What an upstream of the same format sent is passed on as it came; anything else is written from what it says. An
//! answer that comes out of a cache gets the id and the time of the call that it answers now.
//!
//! ```
//! use tapri_api::encode::{Encoder, Head};
//! use tapri_api::{CallEvent, CallId, Format, Token};
//!
//! let mut encoder = Encoder::stream(Head::new(Format::Messages, CallId(1), "tiny"));
//! let frames = encoder.event(&CallEvent::Token(Token { id: 5, text: "Hi".into(), logprobs: None })).unwrap();
//! assert!(frames.starts_with("event: message_start\ndata: {"), "{frames}");
//! assert!(frames.contains(r#""type":"text_delta","text":"Hi""#), "{frames}");
//! ```

mod answer;
mod error;
mod messages;
mod openai;
mod ordered;
mod raw;
mod responses;

use std::sync::Arc;

use serde_json::Value;

use crate::event::{CallEvent, Raw, Says};
use crate::{CallId, Finish, Format, Inbound, Usage};

pub use error::error;

/// What every chunk, and the body, is made with.
#[derive(Debug, Clone)]
pub struct Head {
    /// The format.
    pub format: Format,
    /// The answer's id; see [`Head::answer_id`].
    pub id: String,
    /// When the answer began, in seconds of Unix time.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// Changes when the weights, the tokenizer or the arithmetic do.
    pub fingerprint: Option<String>,
    /// Whether the usage says nothing of cached tokens.
    pub hide_cached: bool,
    /// Whether a stream of chat completions or completions has a last chunk with the usage.
    pub include_usage: bool,
    /// Whether the events come out of a cache: then raw chunks get this head's id and time.
    pub replayed: bool,
    /// Whether a [note](Encoder::note) will come before the last event.
    pub explain: bool,
    /// What was asked, of which responses repeat the settings.
    pub request: Option<Arc<Inbound>>,
}

impl Head {
    /// Of an answer to a call, with nothing special about it.
    pub fn new(format: Format, call: CallId, model: impl Into<String>) -> Self {
        Head {
            format,
            id: Head::answer_id(format, call),
            created: 0,
            model: model.into(),
            fingerprint: None,
            hide_cached: false,
            include_usage: false,
            replayed: false,
            explain: false,
            request: None,
        }
    }

    /// The id of a call's answer.
    pub fn answer_id(format: Format, call: CallId) -> String {
        let prefix = match format {
            Format::Chat => "chatcmpl-",
            Format::Completion => "cmpl-",
            Format::Responses => "resp_",
            Format::Embeddings => "embd-",
            Format::Messages => "msg_",
        };
        format!("{prefix}{call}")
    }
}

/// Writes one answer.
#[derive(Debug)]
pub struct Encoder {
    head: Head,
    writer: Writer,
    whole: bool,
    /// A body of the same format as it came.
    body: Option<Arc<str>>,
    /// Whether chunks were passed on as they came.
    passed: bool,
    /// The last of them, which wait for the note.
    held: Vec<Raw>,
    /// The usage as an upstream of the same family wrote it.
    usage: Option<Value>,
    note: Option<Value>,
}

#[derive(Debug)]
enum Writer {
    OpenAi(openai::Writer),
    Messages(Box<messages::Writer>),
    Responses(Box<responses::Writer>),
}

impl Encoder {
    /// Writes a stream.
    pub fn stream(head: Head) -> Self {
        Encoder::new(head, false)
    }

    /// Writes one body.
    pub fn whole(head: Head) -> Self {
        Encoder::new(head, true)
    }

    fn new(head: Head, whole: bool) -> Self {
        let writer = match head.format {
            Format::Messages => Writer::Messages(Box::default()),
            Format::Responses => Writer::Responses(Box::default()),
            Format::Chat | Format::Completion | Format::Embeddings => {
                Writer::OpenAi(openai::Writer::default())
            }
        };
        Encoder {
            head,
            writer,
            whole,
            body: None,
            passed: false,
            held: Vec::new(),
            usage: None,
            note: None,
        }
    }

    /// Puts a `tapri` field into the last chunk, or into the body. To be said before the last event.
    pub fn note(&mut self, note: Value) {
        self.note = Some(note);
    }

    /// What is known of the prompt's tokens before anything is answered. To be said before the first event: messages tell
    /// it as they begin.
    pub fn prompt(&mut self, usage: Usage) {
        if let Writer::Messages(writer) = &mut self.writer {
            writer.prompt(usage);
        }
    }

    /// What a stream sends while nothing happens.
    pub fn heartbeat(&self) -> &'static str {
        match self.head.format {
            // Anthropic's own way; the SDKs expect it.
            Format::Messages if self.passed || self.has_begun() => {
                "event: ping\ndata: {\"type\": \"ping\"}\n\n"
            }
            _ => ": still at it\n\n",
        }
    }

    fn has_begun(&self) -> bool {
        matches!(&self.writer, Writer::Messages(writer) if writer.has_begun())
    }

    /// What an event gives to send: of a stream its next frames, of a body the body itself after `Finished`. A
    /// `Failed` ends a stream with an error; without a stream it is for the caller to answer with [`error`].
    pub fn event(&mut self, event: &CallEvent) -> Option<String> {
        if self.whole { self.collect(event) } else { self.frames(event) }
    }

    fn collect(&mut self, event: &CallEvent) -> Option<String> {
        match event {
            CallEvent::Piece(piece) => {
                self.see_usage(piece.raw.as_ref());
                match &piece.raw {
                    Some(raw) if raw.whole && raw.format == self.head.format => {
                        self.body = Some(Arc::clone(&raw.data));
                    }
                    _ => self.add(event),
                }
                None
            }
            CallEvent::Finished(finish) => {
                if let Some(body) = self.body.take() {
                    return Some(raw::body(&self.head, &body, self.note.take()));
                }
                let usage = self.usage(finish);
                let (head, note) = (&self.head, self.note.take());
                Some(match &mut self.writer {
                    Writer::OpenAi(writer) => writer.body(head, finish, usage, note),
                    Writer::Messages(writer) => writer.body(head, finish, usage, note),
                    Writer::Responses(writer) => writer.body(head, finish, usage, note),
                })
            }
            event => {
                self.add(event);
                None
            }
        }
    }

    fn add(&mut self, event: &CallEvent) {
        match &mut self.writer {
            Writer::OpenAi(writer) => writer.add(&self.head, event),
            Writer::Messages(writer) => writer.add(event),
            Writer::Responses(writer) => writer.add(event),
        }
    }

    fn frames(&mut self, event: &CallEvent) -> Option<String> {
        let mut out = String::new();
        match event {
            CallEvent::Piece(piece) => {
                self.see_usage(piece.raw.as_ref());
                match &piece.raw {
                    Some(raw) if !raw.whole && raw.format == self.head.format => {
                        self.passed = true;
                        let ends =
                            piece.deltas.iter().any(|it| matches!(it.says, Says::End { .. }));
                        let may_wait =
                            matches!(self.head.format, Format::Messages | Format::Responses);
                        if self.head.explain && may_wait && (ends || !self.held.is_empty()) {
                            self.held.push(raw.clone());
                        } else {
                            raw::chunk(&self.head, raw, None, &mut out);
                        }
                    }
                    _ => self.write(event, &mut out),
                }
            }
            CallEvent::Finished(finish) if self.passed => self.close(finish, &mut out),
            CallEvent::Finished(finish) => {
                let usage = self.usage(finish);
                let (head, note) = (&self.head, self.note.take());
                match &mut self.writer {
                    Writer::OpenAi(writer) => writer.finish(head, finish, usage, note, &mut out),
                    Writer::Messages(writer) => writer.finish(head, finish, usage, note, &mut out),
                    Writer::Responses(writer) => writer.finish(head, finish, usage, note, &mut out),
                }
            }
            CallEvent::Failed(failure) => match &mut self.writer {
                Writer::Responses(writer) => writer.fail(failure, &mut out),
                _ => error::frame(self.head.format, failure, &mut out),
            },
            CallEvent::Admitted(_) | CallEvent::Prefill { .. } | CallEvent::Token(_) => {
                self.write(event, &mut out);
            }
        }
        (!out.is_empty()).then_some(out)
    }

    fn write(&mut self, event: &CallEvent, out: &mut String) {
        match &mut self.writer {
            Writer::OpenAi(writer) => writer.event(&self.head, event, out),
            Writer::Messages(writer) => writer.event(&self.head, event, out),
            Writer::Responses(writer) => writer.event(&self.head, event, out),
        }
    }

    /// The end of a stream that was passed on as it came.
    fn close(&mut self, finish: &Finish, out: &mut String) {
        let note = self.note.take();
        if matches!(self.head.format, Format::Messages | Format::Responses) {
            for (i, raw) in std::mem::take(&mut self.held).iter().enumerate() {
                raw::chunk(&self.head, raw, note.as_ref().filter(|_| i == 0), out);
            }
            return;
        }
        match &finish.raw {
            Some(raw) if self.head.include_usage => {
                raw::chunk(&self.head, raw, note.as_ref(), out);
            }
            // Where the counts came with the last words, they were passed on with them.
            _ => {
                let said = self.usage.is_some() || !self.head.include_usage;
                let usage = if said { None } else { finish.usage.to_chat(self.head.hide_cached) };
                if usage.is_some() || note.is_some() {
                    let usage = usage.map(Some);
                    openai::last_chunk(&self.head, usage, note.as_ref(), out);
                }
            }
        }
        frame(None, "[DONE]", out);
    }

    /// Remembers the counts as an upstream wrote them: it may say more than a [`Usage`](crate::Usage) knows names for.
    fn see_usage(&mut self, raw: Option<&Raw>) {
        let Some(raw) = raw.filter(|raw| self.is_of_kin(raw.format)) else { return };
        // Chunks that have none say so, or don't have the word at all.
        if !raw.data.contains("\"usage\":{") && !raw.data.contains("\"usage\": {") {
            return;
        }
        let Ok(value) = serde_json::from_str::<Value>(&raw.data) else { return };
        let places = [value.get("usage"), value.pointer("/response/usage")];
        if let Some(usage) = places.into_iter().flatten().find(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
    }

    /// Whether the usage of a format reads as that of this one.
    fn is_of_kin(&self, format: Format) -> bool {
        let chat = |format| matches!(format, Format::Chat | Format::Completion);
        match self.head.format {
            // A message's usage comes in two parts, and a response's is in its last event.
            Format::Messages => false,
            own => own == format || (chat(own) && chat(format)),
        }
    }

    /// The usage to write: an upstream's own words where they are this format's, else the counts.
    fn usage(&mut self, finish: &Finish) -> Option<Value> {
        let hide = self.head.hide_cached;
        self.see_usage(finish.raw.as_deref());
        if let Some(mut usage) = self.usage.take() {
            if hide {
                raw::hide_cached(self.head.format, &mut usage);
            }
            return Some(usage);
        }
        match self.head.format {
            Format::Messages => Some(finish.usage.to_anthropic(hide)),
            Format::Responses => finish.usage.to_responses(hide),
            _ => finish.usage.to_chat(hide),
        }
    }
}

/// Adds an event of a stream.
fn frame(name: Option<&str>, data: &str, out: &mut String) {
    if let Some(name) = name {
        out.push_str("event: ");
        out.push_str(name);
        out.push('\n');
    }
    for line in data.lines() {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
}
