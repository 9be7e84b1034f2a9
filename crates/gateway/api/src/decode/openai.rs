//! Chat completions and completions, as OpenAI and the many that speak its API write them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Options, error, finish, index, invalid, is_told, list, object, piece, raw, text};
use crate::event::{Delta, Raw, Says};
use crate::{ApiError, CallEvent, Finish, FinishReason, Format, Usage};

/// Reads an answer of either format.
#[derive(Debug)]
pub(super) struct Reader {
    format: Format,
    options: Options,
    usage: Usage,
    usage_chunk: Option<Raw>,
    choices: BTreeMap<usize, Choice>,
}

/// What was seen of one of the answers.
#[derive(Debug, Default)]
struct Choice {
    calls: BTreeSet<usize>,
    refused: bool,
    ended: Option<(FinishReason, Option<String>)>,
}

impl Reader {
    pub(super) fn new(format: Format, options: Options) -> Self {
        Reader {
            format,
            options,
            usage: Usage::default(),
            usage_chunk: None,
            choices: BTreeMap::new(),
        }
    }

    pub(super) fn event(
        &mut self,
        name: Option<&str>,
        data: &str,
    ) -> Result<Vec<CallEvent>, ApiError> {
        let data = data.trim();
        if data == "[DONE]" {
            let last = match self.finish() {
                Some(finish) => CallEvent::Finished(finish),
                None => CallEvent::Failed(super::broken_off()),
            };
            return Ok(vec![last]);
        }
        let mut chunk = object(data)?;
        if let Some(error) = error::in_stream(self.format, &chunk) {
            return Ok(vec![CallEvent::Failed(error)]);
        }
        let has_usage = chunk.get("usage").is_some_and(|usage| !usage.is_null());
        if let Some(usage) = chunk.get("usage").filter(|usage| !usage.is_null()) {
            self.usage = Usage::from_openai(usage);
        }
        let choices = list(&chunk, "choices");
        if choices.is_empty() && has_usage {
            self.usage_chunk = Some(raw(self.format, name, data, false));
            return Ok(Vec::new());
        }
        let mut deltas = Vec::new();
        for choice in choices {
            self.choice(choice, "delta", &mut deltas);
        }
        let raw = match self.options.client_usage {
            true => raw(self.format, name, data, false),
            false => raw(self.format, name, without_usage(data, &mut chunk), false),
        };
        Ok(vec![piece(raw, deltas)])
    }

    pub(super) fn body(&mut self, data: &str) -> Result<Vec<CallEvent>, ApiError> {
        let body = object(data)?;
        if let Some(error) = error::in_stream(self.format, &body) {
            return Ok(vec![CallEvent::Failed(error)]);
        }
        if !body.get("choices").is_some_and(Value::is_array) {
            return Err(invalid("it has no `choices`"));
        }
        if let Some(usage) = body.get("usage") {
            self.usage = Usage::from_openai(usage);
        }
        let mut deltas = Vec::new();
        for choice in list(&body, "choices") {
            self.choice(choice, "message", &mut deltas);
        }
        let last = match self.finish() {
            Some(finish) => CallEvent::Finished(finish),
            None => return Err(invalid("none of its `choices` has ended")),
        };
        Ok(vec![piece(raw(self.format, None, data, true), deltas), last])
    }

    /// The end of a stream that closed without its `[DONE]`: all that was asked for has ended.
    pub(super) fn whole(&mut self) -> Option<Finish> {
        let ended = self.choices.values().filter(|choice| choice.ended.is_some()).count();
        (ended >= self.options.choices).then(|| self.finish()).flatten()
    }

    /// `None` where some answer didn't end, or there was none.
    fn finish(&mut self) -> Option<Finish> {
        let ends: Option<Vec<FinishReason>> = self
            .choices
            .values()
            .map(|choice| choice.ended.as_ref().map(|(reason, _)| *reason))
            .collect();
        // The answers' reason is that of the one that ended worst: what is stored or counted must hold for all.
        let reason = ends?.into_iter().max_by_key(|reason| match reason {
            FinishReason::Stop => 0,
            FinishReason::ToolCalls => 1,
            FinishReason::Pause => 2,
            FinishReason::Length => 3,
            FinishReason::ContentFilter => 4,
        })?;
        let first = self.choices.values().next().and_then(|choice| choice.ended.as_ref());
        let matched_stop = first.and_then(|(_, matched)| matched.clone());
        Some(Finish {
            raw: self.usage_chunk.take().map(Box::new),
            ..finish(reason, matched_stop, self.usage)
        })
    }

    fn choice(&mut self, value: &Value, said: &str, deltas: &mut Vec<Delta>) {
        let at = index(value, "index").unwrap_or(0);
        let choice = self.choices.entry(at).or_default();
        let mut say = |says| deltas.push(Delta { choice: at, says });
        if let Some(words) = text(value, "text").filter(|words| !words.is_empty()) {
            say(Says::Text(words.to_owned()));
        }
        // Some servers stream with `message` in the place of `delta`.
        let said = value.get(said).or_else(|| value.get("message")).and_then(Value::as_object);
        let thinking = said.and_then(|said| {
            // vLLM and OpenRouter write both names or the second alone, DeepSeek the first.
            ["reasoning_content", "reasoning"].iter().find_map(|name| said.get(*name)?.as_str())
        });
        if let Some(thinking) = thinking.filter(|thinking| !thinking.is_empty()) {
            say(Says::Thinking(thinking.to_owned()));
        }
        for (field, value) in said.into_iter().flatten() {
            match (field.as_str(), value) {
                ("role" | "reasoning_content" | "reasoning", _) => {}
                ("content", Value::String(words)) if words.is_empty() => {}
                ("content", Value::String(words)) => say(Says::Text(words.clone())),
                ("content", Value::Array(parts)) => {
                    parts.iter().for_each(|part| part_of(part, &mut say))
                }
                ("refusal", Value::String(words)) => {
                    choice.refused = true;
                    say(Says::Refusal(words.clone()));
                }
                ("tool_calls", Value::Array(calls)) => {
                    for (position, call) in calls.iter().enumerate() {
                        // Bodies don't count their calls.
                        choice.call(call, position, &mut say);
                    }
                }
                _ if is_told(value) => {
                    say(Says::Other { field: field.clone(), value: value.clone() });
                }
                _ => {}
            }
        }
        if let Some(logprobs) = value.get("logprobs").filter(|logprobs| !logprobs.is_null()) {
            say(Says::Logprobs(logprobs.clone()));
        }
        if let Some(word) = text(value, "finish_reason") {
            let reason = match reason(word) {
                FinishReason::Stop if choice.refused => FinishReason::ContentFilter,
                reason => reason,
            };
            // vLLM's name for the stop string; a stop token's id is a number there.
            let matched_stop = text(value, "stop_reason").map(str::to_owned);
            choice.ended = Some((reason, matched_stop.clone()));
            say(Says::End { reason, matched_stop });
        }
    }
}

impl Choice {
    fn call(&mut self, call: &Value, position: usize, say: &mut impl FnMut(Says)) {
        let id = text(call, "id").unwrap_or_default();
        let at = index(call, "index").unwrap_or({
            // Without an index a new id is a new call, and anything else goes on with the last one.
            if id.is_empty() {
                self.calls.len().saturating_sub(1)
            } else {
                position.max(self.calls.len())
            }
        });
        let function = call.get("function").or_else(|| call.get("custom")).unwrap_or(&Value::Null);
        if self.calls.insert(at) {
            let name = text(function, "name").unwrap_or_default();
            say(Says::ToolCall { index: at, id: id.to_owned(), name: name.to_owned() });
        }
        let arguments = match function.get("arguments").or_else(|| function.get("input")) {
            Some(Value::String(arguments)) => arguments.clone(),
            // Some servers of local models give an object.
            Some(object @ Value::Object(_)) => object.to_string(),
            _ => return,
        };
        if !arguments.is_empty() {
            say(Says::ToolArguments { index: at, json: arguments });
        }
    }
}

/// A part of a content that is a list, as Mistral writes thinking.
fn part_of(part: &Value, say: &mut impl FnMut(Says)) {
    match text(part, "type") {
        Some("text" | "output_text") => {
            if let Some(words) = text(part, "text") {
                say(Says::Text(words.to_owned()));
            }
        }
        Some("thinking") => match part.get("thinking") {
            Some(Value::String(words)) => say(Says::Thinking(words.clone())),
            Some(Value::Array(parts)) => {
                for words in parts.iter().filter_map(|part| text(part, "text")) {
                    say(Says::Thinking(words.to_owned()));
                }
            }
            _ => {}
        },
        _ => say(Says::Other {
            field: "content_parts".into(),
            value: Value::Array(vec![part.clone()]),
        }),
    }
}

/// A word that nobody knows counts as cut: such an answer is passed on, but not taken for a good one.
fn reason(word: &str) -> FinishReason {
    match word {
        "stop" | "eos" | "eos_token" | "stop_sequence" | "end_turn" => FinishReason::Stop,
        "length" | "max_tokens" | "model_length" => FinishReason::Length,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        _ => FinishReason::ContentFilter,
    }
}

/// The chunk without its `usage`, which the client didn't ask for.
fn without_usage(data: &str, chunk: &mut Value) -> String {
    const NONE: &str = r#","usage":null"#;
    let Some(fields) = chunk.as_object_mut() else { return data.to_owned() };
    let Some(usage) = fields.get("usage") else { return data.to_owned() };
    // In a string the quotes would be escaped, so this is the field; a nested one of that name would be a second.
    if usage.is_null() && data.matches(NONE).count() == 1 {
        return data.replacen(NONE, "", 1);
    }
    fields.shift_remove("usage");
    chunk.to_string()
}
