//! OpenAI's responses.

mod object;

use serde_json::{Value, json};

use super::answer::{Answer, Block, said, words};
use super::ordered::Ordered;
use super::{Head, frame};
use crate::event::{CallEvent, Says};
use crate::openai::logprobs::chat_list;
use crate::{ApiError, Finish, FinishReason, sealed};

/// Writes one answer.
#[derive(Debug, Default)]
pub(super) struct Writer {
    answer: Answer,
    ordered: Ordered,
    sequence: u64,
    begun: bool,
    /// The item that is open, and its place in the output.
    open: Option<Item>,
    output: Vec<Value>,
    end: Option<FinishReason>,
}

/// An item whose deltas come. Its blocks are one for each part of its content.
#[derive(Debug)]
struct Item {
    id: String,
    block: Block,
}

impl Writer {
    pub(super) fn add(&mut self, event: &CallEvent) {
        self.see(event);
        self.answer.event(event);
    }

    fn see(&mut self, event: &CallEvent) {
        let CallEvent::Piece(piece) = event else { return };
        for delta in piece.deltas.iter().filter(|delta| delta.choice == 0) {
            if let Says::End { reason, .. } = &delta.says {
                self.end = Some(*reason);
            }
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
        for (at, block) in self.answer.blocks.iter().enumerate() {
            self.output.extend(whole(block, &item_id(head, block, at)));
        }
        self.last(head, finish, usage, note).to_string()
    }

    /// The response at its end.
    fn last(
        &mut self,
        head: &Head,
        finish: &Finish,
        usage: Option<Value>,
        note: Option<Value>,
    ) -> Value {
        let output = std::mem::take(&mut self.output);
        let reason = self.end.unwrap_or(finish.reason);
        let refused = output.iter().any(has_refusal);
        let mut response = object::response(head, output);
        let incomplete = match reason {
            FinishReason::Length => Some("max_output_tokens"),
            // A refusal is an answer; what a filter cut is none.
            FinishReason::ContentFilter if !refused => Some("content_filter"),
            _ => None,
        };
        response["status"] = if incomplete.is_some() { "incomplete" } else { "completed" }.into();
        if let Some(reason) = incomplete {
            response["incomplete_details"] = json!({ "reason": reason });
        }
        response["usage"] = usage.unwrap_or(Value::Null);
        if let Some(note) = note {
            response["tapri"] = note;
        }
        response
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
        let response = self.last(head, finish, usage, note);
        let kind = match response["status"].as_str() {
            Some("incomplete") => "response.incomplete",
            _ => "response.completed",
        };
        self.send(kind, json!({ "response": response }), out);
    }

    /// An error, which ends the stream.
    pub(super) fn fail(&mut self, error: &ApiError, out: &mut String) {
        let fields = json!({
            "code": error.word(),
            "message": error.to_string(),
            "param": error.field,
        });
        self.send("error", fields, out);
    }

    fn begin(&mut self, head: &Head, out: &mut String) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        for kind in ["response.created", "response.in_progress"] {
            let response = object::response(head, Vec::new());
            self.send(kind, json!({ "response": response }), out);
        }
    }

    fn says(&mut self, head: &Head, says: &Says, out: &mut String) {
        if let Some(words) = words(says) {
            let logprobs = match says {
                Says::Token(token) => chat_list(token),
                _ => Vec::new(),
            };
            if !words.is_empty() || !logprobs.is_empty() {
                self.text(head, words, logprobs, out);
            }
            return;
        }
        match says {
            Says::Logprobs(value) => {
                let list = value.get("content").unwrap_or(value).as_array().cloned();
                if let Some(Item { block: Block::Text { logprobs, .. }, .. }) = &mut self.open {
                    logprobs.extend(list.unwrap_or_default());
                }
            }
            Says::Refusal(words) => {
                self.open(head, Block::Refusal(String::new()), out);
                self.append(words, out, "response.refusal.delta", json!({ "content_index": 0 }));
            }
            Says::Thinking(words) => {
                self.open(head, thought(), out);
                let kind = "response.reasoning_summary_text.delta";
                self.append(words, out, kind, json!({ "summary_index": 0 }));
            }
            Says::ThinkingSignature(seal) => {
                self.open(head, thought(), out);
                if let Some(Item { block: Block::Thinking { signature, .. }, .. }) = &mut self.open
                {
                    signature.push_str(seal);
                }
                // What is thought after it is another thought.
                self.close(out);
            }
            Says::RedactedThinking(data) => {
                self.close(out);
                self.open(head, Block::Redacted(data.clone()), out);
                self.close(out);
            }
            Says::ToolCall { id, name, .. } => {
                self.close(out);
                let (id, name) = (id.clone(), name.clone());
                self.open(head, Block::Call { id, name, json: String::new() }, out);
            }
            Says::ToolArguments { json: part, .. } => {
                if matches!(&self.open, Some(Item { block: Block::Call { .. }, .. })) {
                    let kind = "response.function_call_arguments.delta";
                    self.append(part, out, kind, json!({}));
                }
            }
            Says::Other { field, value } if field == "text_annotations" => {
                if let Some(Item { block: Block::Text { annotations, .. }, .. }) = &mut self.open {
                    annotations.extend(value.as_array().into_iter().flatten().cloned());
                }
            }
            Says::Other { field, value } if field == "output" => {
                for value in value.as_array().into_iter().flatten() {
                    self.close(out);
                    let (field, value) = (field.clone(), value.clone());
                    self.open(head, Block::Other { field, value }, out);
                    self.close(out);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, head: &Head, words: &str, more: Vec<Value>, out: &mut String) {
        let block = Block::Text {
            text: String::new(),
            citations: Vec::new(),
            annotations: Vec::new(),
            logprobs: Vec::new(),
        };
        self.open(head, block, out);
        let fields = json!({ "content_index": 0, "logprobs": more });
        if let Some(Item { block: Block::Text { logprobs, .. }, .. }) = &mut self.open {
            logprobs.extend(more);
        }
        self.append(words, out, "response.output_text.delta", fields);
    }

    /// Says more of the open item.
    fn append(&mut self, words: &str, out: &mut String, kind: &str, mut fields: Value) {
        let Some(Item { id, block }) = &mut self.open else { return };
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } | Block::Refusal(text) => {
                text.push_str(words);
            }
            Block::Call { json, .. } => json.push_str(words),
            Block::Redacted(_) | Block::Other { .. } => {}
        }
        fields["item_id"] = id.clone().into();
        fields["output_index"] = self.output.len().into();
        fields["delta"] = words.into();
        self.send(kind, fields, out);
    }

    /// Opens an item, unless one of its kind is open.
    fn open(&mut self, head: &Head, block: Block, out: &mut String) {
        if let Some(open) = &self.open
            && std::mem::discriminant(&open.block) == std::mem::discriminant(&block)
        {
            return;
        }
        self.begin(head, out);
        self.close(out);
        let at = self.output.len();
        let id = item_id(head, &block, at);
        let Some(item) = begun(&block, &id) else { return };
        self.send("response.output_item.added", json!({ "output_index": at, "item": item }), out);
        let place = json!({ "item_id": id, "output_index": at });
        match &block {
            Block::Text { .. } | Block::Refusal(_) => {
                self.part(
                    "response.content_part.added",
                    "content_index",
                    &place,
                    part(&block),
                    out,
                );
            }
            Block::Thinking { .. } => {
                let part = json!({ "type": "summary_text", "text": "" });
                let kind = "response.reasoning_summary_part.added";
                self.part(kind, "summary_index", &place, part, out);
            }
            _ => {}
        }
        self.open = Some(Item { id, block });
    }

    fn part(&mut self, kind: &str, index: &str, place: &Value, part: Value, out: &mut String) {
        let mut fields = place.clone();
        fields[index] = 0.into();
        fields["part"] = part;
        self.send(kind, fields, out);
    }

    fn close(&mut self, out: &mut String) {
        let Some(Item { id, block }) = self.open.take() else { return };
        let at = self.output.len();
        let place = json!({ "item_id": id, "output_index": at });
        let mut done = place.clone();
        match &block {
            Block::Text { text, logprobs, .. } => {
                done["content_index"] = 0.into();
                done["text"] = text.clone().into();
                done["logprobs"] = logprobs.clone().into();
                self.send("response.output_text.done", done, out);
                self.part("response.content_part.done", "content_index", &place, part(&block), out);
            }
            Block::Refusal(text) => {
                done["content_index"] = 0.into();
                done["refusal"] = text.clone().into();
                self.send("response.refusal.done", done, out);
                self.part("response.content_part.done", "content_index", &place, part(&block), out);
            }
            Block::Thinking { text, .. } => {
                done["summary_index"] = 0.into();
                done["text"] = text.clone().into();
                self.send("response.reasoning_summary_text.done", done, out);
                let part = json!({ "type": "summary_text", "text": text });
                let kind = "response.reasoning_summary_part.done";
                self.part(kind, "summary_index", &place, part, out);
            }
            Block::Call { name, json, .. } => {
                done["name"] = name.clone().into();
                done["arguments"] = json.clone().into();
                self.send("response.function_call_arguments.done", done, out);
            }
            Block::Redacted(_) | Block::Other { .. } => {}
        }
        if let Some(item) = whole(&block, &id) {
            let fields = json!({ "output_index": at, "item": item });
            self.send("response.output_item.done", fields, out);
            self.output.push(item);
        }
    }

    fn send(&mut self, kind: &str, fields: Value, out: &mut String) {
        let mut event = json!({ "type": kind, "sequence_number": self.sequence });
        self.sequence += 1;
        if let (Some(event), Value::Object(fields)) = (event.as_object_mut(), fields) {
            event.extend(fields);
        }
        frame(Some(kind), &event.to_string(), out);
    }
}

fn has_refusal(item: &Value) -> bool {
    item["content"].as_array().into_iter().flatten().any(|part| part["type"] == "refusal")
}

fn thought() -> Block {
    Block::Thinking { text: String::new(), signature: String::new() }
}

/// An item's id: its kind's letters, the answer's own, and its place.
fn item_id(head: &Head, block: &Block, at: usize) -> String {
    let kind = match block {
        Block::Thinking { signature, .. } => {
            // One that came from OpenAI has its id in it.
            let (id, _) = sealed::reasoning(signature);
            if !id.is_empty() {
                return id.to_owned();
            }
            "rs"
        }
        Block::Redacted(_) => "rs",
        Block::Call { .. } => "fc",
        _ => "msg",
    };
    let call = head.id.rsplit('_').next().unwrap_or_default();
    format!("{kind}_{call}{at:02}")
}

/// An item at its beginning; `None` for what only other formats have.
fn begun(block: &Block, id: &str) -> Option<Value> {
    let mut item = whole(block, id)?;
    match block {
        Block::Text { .. } | Block::Refusal(_) => {
            item["status"] = "in_progress".into();
            item["content"] = json!([]);
        }
        Block::Thinking { .. } => item["summary"] = json!([]),
        Block::Call { .. } => item["status"] = "in_progress".into(),
        Block::Redacted(_) | Block::Other { .. } => {}
    }
    Some(item)
}

/// A whole item; `None` for what only other formats have.
fn whole(block: &Block, id: &str) -> Option<Value> {
    Some(match block {
        Block::Text { .. } | Block::Refusal(_) => json!({
            "id": id,
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [part(block)],
        }),
        Block::Thinking { text, signature } => {
            let summary = match text.is_empty() {
                true => json!([]),
                false => json!([{ "type": "summary_text", "text": text }]),
            };
            let mut item = json!({ "id": id, "type": "reasoning", "summary": summary });
            if !signature.is_empty() {
                item["encrypted_content"] = sealed::reasoning(signature).1.into();
            }
            item
        }
        Block::Redacted(data) => json!({
            "id": id,
            "type": "reasoning",
            "summary": [],
            "encrypted_content": sealed::redacted(data),
        }),
        Block::Call { id: call, name, json } => json!({
            "id": id,
            "type": "function_call",
            "status": "completed",
            "call_id": call,
            "name": name,
            "arguments": json,
        }),
        Block::Other { field, value } if field == "output" => value.clone(),
        Block::Other { .. } => return None,
    })
}

/// A part of a message.
fn part(block: &Block) -> Value {
    match block {
        Block::Text { text, annotations, logprobs, .. } => json!({
            "type": "output_text",
            "text": text,
            "annotations": annotations,
            "logprobs": logprobs,
        }),
        Block::Refusal(text) => json!({ "type": "refusal", "refusal": text }),
        _ => Value::Null,
    }
}
