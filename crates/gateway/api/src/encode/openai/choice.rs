//! One of a call's answers, all of it for a body or what is new for a chunk.

use serde_json::{Map, Value, json};

use crate::event::{Says, Token};
use crate::openai::logprobs::{ChatLogprobs, TextLogprobs};
use crate::openai::wire::{Delta, Function, Logprobs, ToolCall};
use crate::{Finish, FinishReason, Format};

/// What is said of an answer and was not [sent](Choice::sent) yet, and what has to be known of the rest.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) refusal: String,
    pub(super) logprobs: Option<Logprobs>,
    /// The prompt's, in vLLM's form.
    pub(super) prompt: Vec<Value>,
    /// Thinking with its signature, as LiteLLM's clients send it back: OpenAI's API has no room for one.
    pub(super) thoughts: Vec<Value>,
    pub(super) other: Map<String, Value>,
    pub(super) end: Option<FinishReason>,
    /// Whether its first chunk was sent.
    pub(super) begun: bool,
    calls: Vec<Call>,
    /// The thinking since the last signature.
    thought: String,
    refused: bool,
    chars: usize,
    ends_now: bool,
}

#[derive(Debug)]
struct Call {
    index: usize,
    /// Id and name, where the call begins here.
    begins: Option<(String, String)>,
    arguments: String,
}

impl Choice {
    pub(super) fn add(&mut self, format: Format, says: &Says) {
        match says {
            Says::Text(words) => self.say(words),
            Says::Token(token) => self.token(format, token),
            Says::Echo { tokens, scored } => self.echo(format, tokens, *scored),
            Says::PromptLogprobs(entries) => self.prompt.extend_from_slice(entries),
            Says::Logprobs(value) => self.told(format, value),
            Says::Thinking(words) => {
                self.thinking.push_str(words);
                self.thought.push_str(words);
            }
            Says::ThinkingSignature(signature) => {
                let thinking = std::mem::take(&mut self.thought);
                self.thoughts.push(json!({
                    "type": "thinking",
                    "thinking": thinking,
                    "signature": signature,
                }));
            }
            Says::RedactedThinking(data) => {
                self.thoughts.push(json!({ "type": "redacted_thinking", "data": data }));
            }
            Says::Refusal(words) => {
                self.refused = true;
                self.refusal.push_str(words);
            }
            Says::ToolCall { index, id, name } => {
                let begins = Some((id.clone(), name.clone()));
                self.calls.push(Call { index: *index, begins, arguments: String::new() });
            }
            Says::ToolArguments { index, json } => {
                match self.calls.iter_mut().rev().find(|call| call.index == *index) {
                    Some(call) => call.arguments.push_str(json),
                    None => {
                        let (index, arguments) = (*index, json.clone());
                        self.calls.push(Call { index, begins: None, arguments });
                    }
                }
            }
            // Blocks, items and notes of other formats have no place here.
            Says::Other { field, .. }
                if matches!(
                    field.as_str(),
                    "content" | "content_parts" | "output" | "citations" | "text_annotations"
                ) => {}
            Says::Other { field, value } => match self.other.get_mut(field) {
                Some(before) => join(before, value),
                None => {
                    self.other.insert(field.clone(), value.clone());
                }
            },
            Says::End { reason, .. } => {
                self.end = Some(*reason);
                self.ends_now = true;
            }
        }
    }

    fn say(&mut self, words: &str) {
        self.text.push_str(words);
        self.chars += words.chars().count();
    }

    fn token(&mut self, format: Format, token: &Token) {
        if token.logprobs.is_some() {
            match (&mut self.logprobs, format) {
                (Some(Logprobs::Text(logprobs)), _) => logprobs.push(token, self.chars),
                (Some(Logprobs::Chat(logprobs)), _) => logprobs.push(token),
                (logprobs, Format::Completion) => {
                    let mut own = TextLogprobs::default();
                    own.push(token, self.chars);
                    *logprobs = Some(Logprobs::Text(own));
                }
                (logprobs, _) => {
                    let mut own = ChatLogprobs::default();
                    own.push(token);
                    *logprobs = Some(Logprobs::Chat(own));
                }
            }
        }
        self.say(&token.text);
    }

    /// The prompt, which only completions say again.
    fn echo(&mut self, format: Format, tokens: &[Token], scored: bool) {
        if format != Format::Completion {
            return;
        }
        for token in tokens {
            if scored && token.logprobs.is_none() {
                let mut first = TextLogprobs::default();
                first.push_first(token, self.chars);
                self.logprobs = Some(Logprobs::Text(first));
                self.say(&token.text);
            } else {
                self.token(format, token);
            }
        }
    }

    /// vLLM's field, if there is any of it.
    pub(super) fn prompt(&self) -> Option<&[Value]> {
        (!self.prompt.is_empty()).then_some(self.prompt.as_slice())
    }

    /// An upstream's logprobs: a response's are the list that a chat completion's have inside.
    fn told(&mut self, format: Format, value: &Value) {
        let value = match value {
            Value::Array(list) if format == Format::Chat => {
                json!({ "content": list, "refusal": null })
            }
            value => value.clone(),
        };
        match &mut self.logprobs {
            Some(Logprobs::Told(before)) => join(before, &value),
            logprobs => *logprobs = Some(Logprobs::Told(value)),
        }
    }

    /// Whether all that is new is of the prompt, of which a chat completion's choices say nothing.
    pub(super) fn tells_of_prompt_alone(&self) -> bool {
        !self.prompt.is_empty() && self.text.is_empty() && !self.ends_now && self.logprobs.is_none()
    }

    /// Whether there is anything to send.
    pub(super) fn has_news(&self) -> bool {
        !self.text.is_empty()
            || !self.thinking.is_empty()
            || !self.refusal.is_empty()
            || !self.calls.is_empty()
            || !self.thoughts.is_empty()
            || !self.other.is_empty()
            || self.logprobs.is_some()
            || !self.prompt.is_empty()
            || self.ends_now
    }

    /// It was sent.
    pub(super) fn sent(&mut self) {
        self.text.clear();
        self.thinking.clear();
        self.refusal.clear();
        self.calls.clear();
        self.thoughts.clear();
        self.other.clear();
        self.logprobs = None;
        self.prompt.clear();
        self.ends_now = false;
    }

    pub(super) fn delta(&self) -> Delta<'_> {
        let some = |text: &'_ String| -> bool { !text.is_empty() };
        // With logprobs of a token that is no text yet, the text is there and empty.
        let has_text = some(&self.text) || self.logprobs.is_some();
        Delta {
            role: None,
            content: has_text.then_some(&self.text),
            reasoning_content: some(&self.thinking).then_some(&self.thinking),
            refusal: some(&self.refusal).then_some(&self.refusal),
            tool_calls: self.calls(true),
            thinking_blocks: &self.thoughts,
            other: Some(&self.other),
        }
    }

    /// Its calls; in a chunk they are numbered, and some go on with earlier ones.
    pub(super) fn calls(&self, chunk: bool) -> Vec<ToolCall<'_>> {
        self.calls
            .iter()
            .map(|call| ToolCall {
                index: chunk.then_some(call.index),
                id: call.begins.as_ref().map(|(id, _)| id.as_str()),
                kind: call.begins.is_some().then_some("function"),
                function: Function {
                    name: call.begins.as_ref().map(|(_, name)| name.as_str()),
                    arguments: &call.arguments,
                },
            })
            .collect()
    }

    /// Why it ended, if that is new.
    pub(super) fn news_of_end(&self) -> Option<&'static str> {
        self.end.filter(|_| self.ends_now).map(|reason| self.word(reason))
    }

    /// Why it ended; an engine of our own says so of the call.
    pub(super) fn reason(&self, finish: &Finish) -> &'static str {
        self.word(self.end.unwrap_or(finish.reason))
    }

    fn word(&self, reason: FinishReason) -> &'static str {
        match reason {
            // The refusal is the answer.
            FinishReason::ContentFilter if self.refused => "stop",
            reason => reason.as_str(),
        }
    }
}

/// Strings are appended, lists joined, objects joined field by field, and anything else replaced.
fn join(before: &mut Value, more: &Value) {
    match (before, more) {
        (Value::String(before), Value::String(more)) => before.push_str(more),
        (Value::Array(before), Value::Array(more)) => before.extend(more.iter().cloned()),
        (Value::Object(before), Value::Object(more)) => {
            for (name, value) in more {
                match before.get_mut(name) {
                    Some(before) => join(before, value),
                    None => {
                        before.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (before, more) => *before = more.clone(),
    }
}
