//! Anthropic's messages: blocks of content, streamed as named events.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{error, finish, index, invalid, list, object, piece, raw, says, text};
use crate::event::{Delta, Says};
use crate::usage::anthropic::merge;
use crate::{ApiError, CallEvent, Finish, FinishReason, Format, Usage};

const FORMAT: Format = Format::Messages;

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The last that was said of each count.
    usage: Map<String, Value>,
    blocks: BTreeMap<usize, Block>,
    calls: usize,
    ended: Option<(FinishReason, Option<String>)>,
}

/// A block whose deltas come.
#[derive(Debug)]
enum Block {
    /// Text or thinking, which are said as they come.
    Said,
    /// A call of a tool, by its number, and whether its arguments have begun.
    Call(usize, bool),
    /// A block that only this format has, with the JSON of its input so far.
    Other(Value, String),
}

impl Reader {
    pub(super) fn event(
        &mut self,
        name: Option<&str>,
        data: &str,
    ) -> Result<Vec<CallEvent>, ApiError> {
        let event = object(data)?;
        let kind = text(&event, "type").or(name).unwrap_or_default();
        if let Some(error) = error::in_stream(FORMAT, &event) {
            return Ok(vec![CallEvent::Failed(error)]);
        }
        let mut deltas = Vec::new();
        let mut last = None;
        let at = index(&event, "index").unwrap_or(0);
        match kind {
            "message_start" => {
                let message = event.get("message").unwrap_or(&Value::Null);
                merge(&mut self.usage, message.get("usage").unwrap_or(&Value::Null));
            }
            "content_block_start" => {
                let block = event.get("content_block").unwrap_or(&Value::Null);
                let begun = self.block(block, false, &mut deltas);
                self.blocks.insert(at, begun);
            }
            "content_block_delta" => {
                self.delta(at, event.get("delta").unwrap_or(&Value::Null), &mut deltas);
            }
            "content_block_stop" => match self.blocks.remove(&at) {
                Some(Block::Other(block, input)) => deltas.push(says(other(block, &input))),
                // A call without arguments has none, which as JSON is not nothing.
                Some(Block::Call(index, false)) => {
                    deltas.push(says(Says::ToolArguments { index, json: "{}".into() }));
                }
                _ => {}
            },
            "message_delta" => {
                merge(&mut self.usage, event.get("usage").unwrap_or(&Value::Null));
                self.end(event.get("delta").unwrap_or(&Value::Null), &mut deltas);
            }
            "message_stop" => {
                last = Some(self.finish().ok_or_else(|| invalid("it stops without a reason"))?)
            }
            _ => {}
        }
        let mut events = vec![piece(raw(FORMAT, Some(kind), data, false), deltas)];
        events.extend(last.map(CallEvent::Finished));
        Ok(events)
    }

    pub(super) fn body(&mut self, data: &str) -> Result<Vec<CallEvent>, ApiError> {
        let body = object(data)?;
        if let Some(error) = error::in_stream(FORMAT, &body) {
            return Ok(vec![CallEvent::Failed(error)]);
        }
        if !body.get("content").is_some_and(Value::is_array) {
            return Err(invalid("it has no `content`"));
        }
        merge(&mut self.usage, body.get("usage").unwrap_or(&Value::Null));
        let mut deltas = Vec::new();
        for block in list(&body, "content") {
            if let Block::Other(block, _) = self.block(block, true, &mut deltas) {
                deltas.push(says(other(block, "")));
            }
        }
        self.end(&body, &mut deltas);
        let finish = self.finish().ok_or_else(|| invalid("it has no `stop_reason`"))?;
        Ok(vec![piece(raw(FORMAT, None, data, true), deltas), CallEvent::Finished(finish)])
    }

    /// A block, whole or at its beginning.
    fn block(&mut self, block: &Value, whole: bool, deltas: &mut Vec<Delta>) -> Block {
        let mut say = |it| deltas.push(says(it));
        let word = |name| text(block, name).unwrap_or_default().to_owned();
        let some = |words: String| (!words.is_empty()).then_some(words);
        match text(block, "type") {
            Some("text") => {
                some(word("text")).map(Says::Text).into_iter().for_each(&mut say);
                if let Some(Value::Array(citations)) = block.get("citations")
                    && !citations.is_empty()
                {
                    let value = Value::Array(citations.clone());
                    say(Says::Other { field: "citations".into(), value });
                }
            }
            Some("thinking") => {
                some(word("thinking")).map(Says::Thinking).into_iter().for_each(&mut say);
                some(word("signature")).map(Says::ThinkingSignature).into_iter().for_each(&mut say);
            }
            Some("redacted_thinking") => say(Says::RedactedThinking(word("data"))),
            Some("tool_use") => {
                let index = self.calls;
                self.calls += 1;
                say(Says::ToolCall { index, id: word("id"), name: word("name") });
                // In a stream the input begins as `{}` and comes in deltas.
                let input = block.get("input").and_then(Value::as_object);
                let is_empty = input.is_none_or(Map::is_empty);
                if let Some(input) = input.filter(|_| whole || !is_empty) {
                    let json = Value::Object(input.clone()).to_string();
                    say(Says::ToolArguments { index, json });
                }
                return Block::Call(index, !is_empty);
            }
            _ => return Block::Other(block.clone(), String::new()),
        }
        Block::Said
    }

    fn delta(&mut self, at: usize, delta: &Value, deltas: &mut Vec<Delta>) {
        let word = |name| text(delta, name).unwrap_or_default().to_owned();
        let said = match (text(delta, "type"), self.blocks.get_mut(&at)) {
            (Some("text_delta"), _) => Says::Text(word("text")),
            (Some("thinking_delta"), _) => Says::Thinking(word("thinking")),
            (Some("signature_delta"), _) => Says::ThinkingSignature(word("signature")),
            (Some("input_json_delta"), Some(Block::Call(index, begun))) => {
                let json = word("partial_json");
                if json.is_empty() {
                    return;
                }
                *begun = true;
                Says::ToolArguments { index: *index, json }
            }
            (Some("input_json_delta"), Some(Block::Other(_, input))) => {
                input.push_str(&word("partial_json"));
                return;
            }
            (Some("citations_delta"), _) => match delta.get("citation") {
                Some(citation) => {
                    let value = Value::Array(vec![citation.clone()]);
                    Says::Other { field: "citations".into(), value }
                }
                None => return,
            },
            _ => return,
        };
        deltas.push(says(said));
    }

    /// The reason, in a `message_delta` or in a body.
    fn end(&mut self, said: &Value, deltas: &mut Vec<Delta>) {
        let Some(word) = text(said, "stop_reason") else { return };
        let reason = reason(word);
        let matched_stop = text(said, "stop_sequence").map(str::to_owned);
        self.ended = Some((reason, matched_stop.clone()));
        deltas.push(says(Says::End { reason, matched_stop }));
    }

    fn finish(&mut self) -> Option<Finish> {
        let (reason, matched_stop) = self.ended.take()?;
        let usage = Usage::from_anthropic(&Value::Object(std::mem::take(&mut self.usage)));
        Some(finish(reason, matched_stop, usage))
    }
}

/// A block that only this format has, with its input as it came in deltas.
fn other(mut block: Value, input: &str) -> Says {
    if let Ok(input) = serde_json::from_str::<Value>(input)
        && let Some(fields) = block.as_object_mut()
    {
        fields.insert("input".into(), input);
    }
    Says::Other { field: "content".into(), value: Value::Array(vec![block]) }
}

/// A word that nobody knows counts as cut: such an answer is passed on, but not taken for a good one.
fn reason(word: &str) -> FinishReason {
    match word {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "pause_turn" => FinishReason::Pause,
        _ => FinishReason::ContentFilter,
    }
}
