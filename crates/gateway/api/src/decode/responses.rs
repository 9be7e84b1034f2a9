//! OpenAI's responses: a list of output items, streamed as named events.

use std::collections::HashMap;

use serde_json::Value;

use super::{error, finish, index, invalid, is_told, list, object, piece, raw, says, text};
use crate::event::{Delta, Says};
use crate::{ApiError, CallEvent, ErrorKind, Finish, FinishReason, Format, Usage, sealed};

const FORMAT: Format = Format::Responses;

/// Reads an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Calls of tools by their place in the output.
    calls: HashMap<usize, usize>,
    refused: bool,
    /// How many thoughts were said of the output item that is being thought.
    thoughts: usize,
}

impl Reader {
    pub(super) fn event(
        &mut self,
        name: Option<&str>,
        data: &str,
    ) -> Result<Vec<CallEvent>, ApiError> {
        // Some servers end with it as in chat completions; the last event has come before.
        if data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let event = object(data)?;
        let kind = text(&event, "type").or(name).unwrap_or_default().to_owned();
        if (kind == "error" || text(&event, "type").is_none())
            && let Some(error) = error::in_stream(FORMAT, &event)
        {
            return Ok(vec![CallEvent::Failed(error)]);
        }
        let response = event.get("response").unwrap_or(&Value::Null);
        if kind == "response.failed" {
            return Ok(vec![CallEvent::Failed(failed(response))]);
        }
        let raw = raw(FORMAT, Some(&kind), data, false);
        if kind == "response.completed" || kind == "response.incomplete" {
            let finish = self.finish(response);
            let end = Says::End { reason: finish.reason, matched_stop: None };
            return Ok(vec![piece(raw, vec![says(end)]), CallEvent::Finished(finish)]);
        }
        let deltas = self.deltas(&kind, &event);
        Ok(vec![piece(raw, deltas)])
    }

    pub(super) fn body(&mut self, data: &str) -> Result<Vec<CallEvent>, ApiError> {
        let body = object(data)?;
        match text(&body, "status") {
            Some("failed" | "cancelled") => return Ok(vec![CallEvent::Failed(failed(&body))]),
            Some("queued" | "in_progress") => return Err(invalid("it runs in the background")),
            _ => {}
        }
        if let Some(error) = error::in_stream(FORMAT, &body) {
            return Ok(vec![CallEvent::Failed(error)]);
        }
        if !body.get("output").is_some_and(Value::is_array) {
            return Err(invalid("it has no `output`"));
        }
        let mut deltas = Vec::new();
        for (at, item) in list(&body, "output").iter().enumerate() {
            self.item(at, item, &mut deltas);
        }
        let finish = self.finish(&body);
        deltas.push(says(Says::End { reason: finish.reason, matched_stop: None }));
        Ok(vec![piece(raw(FORMAT, None, data, true), deltas), CallEvent::Finished(finish)])
    }

    fn deltas(&mut self, kind: &str, event: &Value) -> Vec<Delta> {
        let at = index(event, "output_index").unwrap_or(0);
        let delta = || text(event, "delta").unwrap_or_default().to_owned();
        let item = event.get("item").unwrap_or(&Value::Null);
        let mut deltas = Vec::new();
        let mut say = |it| deltas.push(says(it));
        match kind {
            "response.output_text.delta" => {
                say(Says::Text(delta()));
                if let Some(logprobs) = event.get("logprobs").filter(|it| is_told(it)) {
                    say(Says::Logprobs(logprobs.clone()));
                }
            }
            "response.refusal.delta" => {
                self.refused = true;
                say(Says::Refusal(delta()));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                say(Says::Thinking(delta()));
            }
            // Between two parts of a summary.
            "response.reasoning_summary_part.added" => {
                self.thoughts += 1;
                if self.thoughts > 1 {
                    say(Says::Thinking("\n\n".into()));
                }
            }
            "response.output_item.added" if is_call(item) => {
                let index = self.calls.len();
                self.calls.insert(at, index);
                say(called(index, item));
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                if let Some(&index) = self.calls.get(&at) {
                    say(Says::ToolArguments { index, json: delta() });
                }
            }
            "response.output_text.annotation.added" => {
                if let Some(annotation) = event.get("annotation") {
                    let value = Value::Array(vec![annotation.clone()]);
                    say(Says::Other { field: "text_annotations".into(), value });
                }
            }
            "response.output_item.done" => match text(item, "type") {
                Some("message") => {}
                Some("reasoning") => {
                    self.thoughts = 0;
                    if let Some(seal) = sealed::signature(item) {
                        say(Says::ThinkingSignature(seal));
                    }
                }
                _ if is_call(item) => {}
                _ => say(other(item)),
            },
            _ => {}
        }
        deltas
    }

    fn item(&mut self, at: usize, item: &Value, deltas: &mut Vec<Delta>) {
        let mut say = |it| deltas.push(says(it));
        match text(item, "type") {
            Some("message") => {
                for part in list(item, "content") {
                    match text(part, "type") {
                        Some("refusal") => {
                            self.refused = true;
                            say(Says::Refusal(text(part, "refusal").unwrap_or_default().into()));
                        }
                        Some("output_text" | "text") => {
                            say(Says::Text(text(part, "text").unwrap_or_default().into()));
                        }
                        _ => {
                            let value = Value::Array(vec![part.clone()]);
                            say(Says::Other { field: "content_parts".into(), value });
                        }
                    }
                    for field in ["annotations", "logprobs"] {
                        let Some(value) = part.get(field).filter(|it| is_told(it)) else {
                            continue;
                        };
                        say(match field {
                            "logprobs" => Says::Logprobs(value.clone()),
                            _ => Says::Other {
                                field: "text_annotations".into(),
                                value: value.clone(),
                            },
                        });
                    }
                }
            }
            Some("reasoning") => {
                let parts = list(item, "summary").iter().chain(list(item, "content"));
                let words: Vec<&str> = parts.filter_map(|part| text(part, "text")).collect();
                if !words.is_empty() {
                    say(Says::Thinking(words.join("\n\n")));
                }
                if let Some(seal) = sealed::signature(item) {
                    say(Says::ThinkingSignature(seal));
                }
            }
            _ if is_call(item) => {
                let index = self.calls.len();
                self.calls.insert(at, index);
                say(called(index, item));
                let arguments = text(item, "arguments").or_else(|| text(item, "input"));
                say(Says::ToolArguments { index, json: arguments.unwrap_or_default().into() });
            }
            _ => say(other(item)),
        }
    }

    fn finish(&self, response: &Value) -> Finish {
        let usage = response.get("usage").map(Usage::from_openai).unwrap_or_default();
        let details = response.get("incomplete_details").unwrap_or(&Value::Null);
        let reason = match (text(response, "status"), text(details, "reason")) {
            (Some("incomplete"), Some("max_output_tokens")) => FinishReason::Length,
            (Some("incomplete"), _) => FinishReason::ContentFilter,
            _ if self.refused => FinishReason::ContentFilter,
            _ if !self.calls.is_empty() => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        };
        finish(reason, None, usage)
    }
}

fn is_call(item: &Value) -> bool {
    matches!(text(item, "type"), Some("function_call" | "custom_tool_call"))
}

fn called(index: usize, item: &Value) -> Says {
    let word = |name| text(item, name).unwrap_or_default().to_owned();
    Says::ToolCall { index, id: word("call_id"), name: word("name") }
}

/// An item that only this format has.
fn other(item: &Value) -> Says {
    Says::Other { field: "output".into(), value: Value::Array(vec![item.clone()]) }
}

fn failed(response: &Value) -> ApiError {
    error::in_stream(FORMAT, response).unwrap_or_else(|| {
        ApiError::new(ErrorKind::Upstream, "The upstream's answer failed").code("upstream_failed")
    })
}
