//! Anthropic's messages.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Block, input, said, words};
use super::ordered::Ordered;
use super::{Head, frame};
use crate::event::{Admission, CallEvent, Says};
use crate::{Finish, FinishReason, Usage};

/// Writes one answer.
#[derive(Debug, Default)]
pub(super) struct Writer {
    answer: Answer,
    ordered: Ordered,
    /// What the prefix cache had, where it is known from the start.
    prompt: Usage,
    begun: bool,
    open: Option<Open>,
    blocks: usize,
    has_calls: bool,
    end: Option<(FinishReason, Option<String>)>,
}

/// The kind of block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text,
    Thinking,
    Call,
}

impl Writer {
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(super) fn prompt(&mut self, usage: Usage) {
        self.prompt = usage;
    }

    pub(super) fn add(&mut self, event: &CallEvent) {
        self.see(event);
        self.answer.event(event);
    }

    /// What concerns the answer as a whole.
    fn see(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Admitted(Admission { reuse: Some(reuse), .. }) => {
                self.prompt = Usage::from_prompt(reuse.prompt, reuse.cached, reuse.joined, 0);
            }
            CallEvent::Piece(piece) => {
                for delta in piece.deltas.iter().filter(|delta| delta.choice == 0) {
                    if let Says::End { reason, matched_stop } = &delta.says {
                        self.end = Some((*reason, matched_stop.clone()));
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn body(
        &mut self,
        head: &Head,
        finish: &Finish,
        usage: Option<Value>,
        note: Option<Value>,
    ) -> String {
        if !finish.tail.is_empty() {
            self.answer.add(&Says::Text(finish.tail.clone()));
        }
        let content: Vec<Value> = self.answer.blocks.iter().filter_map(block).collect();
        let (reason, stop) = self.reason(finish, self.answer.has_calls());
        let mut body = json!({
            "id": head.id,
            "type": "message",
            "role": "assistant",
            "model": head.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": usage,
        });
        if let (Some(note), Some(fields)) = (note, body.as_object_mut()) {
            fields.insert("tapri".into(), note);
        }
        body.to_string()
    }

    pub(super) fn event(&mut self, head: &Head, event: &CallEvent, out: &mut String) {
        self.see(event);
        for says in said(event) {
            for says in self.ordered.next(says) {
                self.says(head, &says, out);
            }
        }
    }

    pub(super) fn finish(
        &mut self,
        head: &Head,
        finish: &Finish,
        usage: Option<Value>,
        note: Option<Value>,
        out: &mut String,
    ) {
        self.begin(head, out);
        for says in self.ordered.rest() {
            self.says(head, &says, out);
        }
        if !finish.tail.is_empty() {
            self.says(head, &Says::Text(finish.tail.clone()), out);
        }
        self.close(out);
        let (reason, stop) = self.reason(finish, self.has_calls);
        let mut event = json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": stop },
            "usage": usage,
        });
        if let (Some(note), Some(fields)) = (note, event.as_object_mut()) {
            fields.insert("tapri".into(), note);
        }
        send(&event, out);
        send(&json!({ "type": "message_stop" }), out);
    }

    /// Anthropic's words for why it ended.
    fn reason(&self, finish: &Finish, has_calls: bool) -> (&'static str, Option<String>) {
        let (reason, stop) =
            self.end.clone().unwrap_or_else(|| (finish.reason, finish.matched_stop.clone()));
        let word = match reason {
            // OpenAI says `stop` where the caller chose the tool, Anthropic never does.
            FinishReason::Stop if has_calls => "tool_use",
            FinishReason::Stop if stop.is_some() => "stop_sequence",
            FinishReason::Stop => "end_turn",
            FinishReason::Length => "max_tokens",
            FinishReason::ToolCalls => "tool_use",
            FinishReason::ContentFilter => "refusal",
            FinishReason::Pause => "pause_turn",
        };
        (word, stop.filter(|_| word == "stop_sequence"))
    }

    fn begin(&mut self, head: &Head, out: &mut String) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let mut usage = match self.prompt.is_unknown() {
            true => Value::Object(Map::new()),
            false => self.prompt.to_anthropic(head.hide_cached),
        };
        // So far nothing is answered; what the prompt is may be told only at the end.
        usage["output_tokens"] = 0.into();
        let message = json!({
            "id": head.id,
            "type": "message",
            "role": "assistant",
            "model": head.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        });
        send(&json!({ "type": "message_start", "message": message }), out);
    }

    fn says(&mut self, head: &Head, says: &Says, out: &mut String) {
        if let Some(words) = words(says) {
            if !words.is_empty() {
                self.text(head, words, out);
            }
            return;
        }
        match says {
            Says::Refusal(words) => self.text(head, words, out),
            Says::Thinking(words) => {
                self.open(head, Open::Thinking, thinking(""), out);
                self.delta(json!({ "type": "thinking_delta", "thinking": words }), out);
            }
            Says::ThinkingSignature(signature) => {
                self.open(head, Open::Thinking, thinking(""), out);
                self.delta(json!({ "type": "signature_delta", "signature": signature }), out);
                // What is thought after it is another thought.
                self.close(out);
            }
            Says::RedactedThinking(data) => {
                self.whole(head, json!({ "type": "redacted_thinking", "data": data }), out);
            }
            Says::ToolCall { id, name, .. } => {
                self.has_calls = true;
                self.close(out);
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.open(head, Open::Call, block, out);
            }
            Says::ToolArguments { json: part, .. } if self.open == Some(Open::Call) => {
                self.delta(json!({ "type": "input_json_delta", "partial_json": part }), out);
            }
            Says::Other { field, value } if field == "content" => {
                for block in value.as_array().into_iter().flatten() {
                    self.whole(head, block.clone(), out);
                }
            }
            Says::Other { field, value }
                if field == "citations" && self.open == Some(Open::Text) =>
            {
                for citation in value.as_array().into_iter().flatten() {
                    self.delta(json!({ "type": "citations_delta", "citation": citation }), out);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, head: &Head, words: &str, out: &mut String) {
        self.open(head, Open::Text, json!({ "type": "text", "text": "" }), out);
        self.delta(json!({ "type": "text_delta", "text": words }), out);
    }

    /// Opens a block, unless one of its kind is open.
    fn open(&mut self, head: &Head, kind: Open, block: Value, out: &mut String) {
        if self.open == Some(kind) {
            return;
        }
        self.begin(head, out);
        self.close(out);
        let first = self.blocks == 0;
        let index = self.blocks;
        send(
            &json!({ "type": "content_block_start", "index": index, "content_block": block }),
            out,
        );
        if first {
            send(&json!({ "type": "ping" }), out);
        }
        self.open = Some(kind);
    }

    fn delta(&self, delta: Value, out: &mut String) {
        let index = self.blocks;
        send(&json!({ "type": "content_block_delta", "index": index, "delta": delta }), out);
    }

    fn close(&mut self, out: &mut String) {
        if self.open.take().is_some() {
            send(&json!({ "type": "content_block_stop", "index": self.blocks }), out);
            self.blocks += 1;
        }
    }

    /// A block that comes in one.
    fn whole(&mut self, head: &Head, block: Value, out: &mut String) {
        self.close(out);
        self.open(head, Open::Call, block, out);
        self.close(out);
    }
}

fn thinking(signature: &str) -> Value {
    json!({ "type": "thinking", "thinking": "", "signature": signature })
}

/// A block of a body; `None` for what only other formats have.
fn block(block: &Block) -> Option<Value> {
    Some(match block {
        Block::Text { text, citations, .. } if citations.is_empty() => {
            json!({ "type": "text", "text": text })
        }
        Block::Text { text, citations, .. } => {
            json!({ "type": "text", "text": text, "citations": citations })
        }
        Block::Thinking { text, signature } => {
            json!({ "type": "thinking", "thinking": text, "signature": signature })
        }
        Block::Redacted(data) => json!({ "type": "redacted_thinking", "data": data }),
        Block::Refusal(text) => json!({ "type": "text", "text": text }),
        Block::Call { id, name, json: arguments } => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input(arguments) })
        }
        Block::Other { field, value } if field == "content" => value.clone(),
        Block::Other { .. } => return None,
    })
}

/// Sends an event under its own name.
fn send(event: &Value, out: &mut String) {
    frame(event.get("type").and_then(Value::as_str), &event.to_string(), out);
}
