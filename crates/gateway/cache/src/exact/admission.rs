//! Which answers are stored: whole ones that the model meant to give.
//!
//! A gateway that stores what it happened to see serves a cut answer, a refusal or an empty one for as long as the
//! entry lives. So the end is awaited, and then judged.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tapri_api::{Call, CallEvent, Finish, FinishReason, Format, Prompt, Says, TokenLogprobs};

/// Why an answer was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rejected {
    /// It ended with an error, or its upstream went away.
    Failed,
    /// Everyone who waited for it left, and it was cancelled.
    Abandoned,
    /// It was cut at the token limit.
    Length,
    /// A filter cut it, or the model refused.
    Refused,
    /// It was paused, to be gone on with.
    Paused,
    /// It says nothing.
    Empty,
    /// It calls a tool that it wasn't given, or with arguments that are no JSON.
    ToolCall,
    /// It is longer than the route keeps.
    TooLarge,
    /// It holds a number that can't be written down.
    NotANumber,
    /// What it belongs to was erased while it was on its way.
    Erased,
}

impl Rejected {
    /// Every reason.
    pub const ALL: [Self; 10] = [
        Self::Failed,
        Self::Abandoned,
        Self::Length,
        Self::Refused,
        Self::Paused,
        Self::Empty,
        Self::ToolCall,
        Self::TooLarge,
        Self::NotANumber,
        Self::Erased,
    ];

    /// The stable name, as in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::Length => "length",
            Self::Refused => "refused",
            Self::Paused => "paused",
            Self::Empty => "empty",
            Self::ToolCall => "tool_call",
            Self::TooLarge => "too_large",
            Self::NotANumber => "not_a_number",
            Self::Erased => "erased",
        }
    }
}

/// What a call's answer must have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    choices: usize,
    tools: BTreeSet<String>,
    /// An embedding has no words.
    is_embedding: bool,
}

impl Expected {
    /// Read from the call before it is sent on.
    pub(crate) fn of(call: &Call) -> Self {
        match &call.prompt {
            Prompt::Request(inbound) => Expected {
                choices: inbound.body.get("n").and_then(Value::as_u64).unwrap_or(1) as usize,
                tools: asked_tools(inbound.body.get("tools"), inbound.body.get("functions")),
                is_embedding: inbound.format == Format::Embeddings,
            },
            _ => Expected {
                choices: call.choices,
                tools: call.tools.iter().map(|tool| tool.name.clone()).collect(),
                is_embedding: false,
            },
        }
    }

    /// Whether an answer that ended may be stored.
    pub(crate) fn judge(&self, events: &[CallEvent], finish: &Finish) -> Result<(), Rejected> {
        reason(finish.reason)?;
        let mut answers: BTreeMap<usize, Said> = BTreeMap::new();
        let mut raw = false;
        for event in events {
            match event {
                CallEvent::Token(token) => {
                    finite(token.logprobs.as_ref())?;
                    answers.entry(0).or_default().words |= has_words(&token.text);
                }
                CallEvent::Piece(piece) => {
                    raw |= piece.raw.is_some();
                    for delta in &piece.deltas {
                        answers.entry(delta.choice).or_default().hear(&delta.says)?;
                    }
                }
                _ => {}
            }
        }
        if self.is_embedding {
            return if raw || !answers.is_empty() { Ok(()) } else { Err(Rejected::Empty) };
        }
        // Held back to the end: with several answers each has its own in its pieces.
        answers.entry(0).or_default().words |= has_words(&finish.tail);
        if answers.len() < self.choices {
            return Err(Rejected::Empty);
        }
        answers.values().try_for_each(|said| said.judge(&self.tools))
    }
}

/// What one answer said.
#[derive(Debug, Default)]
struct Said {
    words: bool,
    calls: BTreeMap<usize, (String, String)>,
}

impl Said {
    fn hear(&mut self, says: &Says) -> Result<(), Rejected> {
        match says {
            Says::Text(text) => self.words |= has_words(text),
            Says::Token(token) => {
                finite(token.logprobs.as_ref())?;
                self.words |= has_words(&token.text);
            }
            Says::Refusal(_) => return Err(Rejected::Refused),
            Says::ToolCall { index, name, .. } => {
                self.calls.entry(*index).or_default().0.clone_from(name);
            }
            Says::ToolArguments { index, json } => {
                self.calls.entry(*index).or_default().1.push_str(json);
            }
            Says::End { reason: why, .. } => reason(*why)?,
            // A field of one format's own (audio, a server's tool and what it found): something is said.
            Says::Other { value, .. } => self.words |= !value.is_null(),
            // Thoughts alone are no answer.
            _ => {}
        }
        Ok(())
    }

    fn judge(&self, tools: &BTreeSet<String>) -> Result<(), Rejected> {
        let is_sound = |(name, arguments): &(String, String)| {
            let arguments = arguments.trim();
            // Anthropic streams no part at all for a tool without arguments.
            tools.contains(name)
                && (arguments.is_empty() || serde_json::from_str::<Value>(arguments).is_ok())
        };
        if !self.calls.values().all(is_sound) {
            return Err(Rejected::ToolCall);
        }
        if self.words || !self.calls.is_empty() { Ok(()) } else { Err(Rejected::Empty) }
    }
}

fn has_words(text: &str) -> bool {
    !text.trim().is_empty()
}

fn reason(reason: FinishReason) -> Result<(), Rejected> {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => Ok(()),
        FinishReason::Length => Err(Rejected::Length),
        FinishReason::ContentFilter => Err(Rejected::Refused),
        FinishReason::Pause => Err(Rejected::Paused),
    }
}

/// JSON has no infinity, so such a logprob would come back as something else.
fn finite(logprobs: Option<&TokenLogprobs>) -> Result<(), Rejected> {
    let all = logprobs.into_iter().flat_map(|logprobs| {
        std::iter::once(&logprobs.chosen).chain(&logprobs.top).map(|logprob| logprob.logprob)
    });
    if all.into_iter().all(f32::is_finite) { Ok(()) } else { Err(Rejected::NotANumber) }
}

/// The names of the tools that a request gives: `tools[].name`, `tools[].function.name`, `tools[].custom.name`, and
/// chat completions' older `functions[].name`.
fn asked_tools(tools: Option<&Value>, functions: Option<&Value>) -> BTreeSet<String> {
    let items =
        |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    items(tools)
        .iter()
        .chain(&items(functions))
        .flat_map(|tool| {
            [tool.get("name"), tool.pointer("/function/name"), tool.pointer("/custom/name")]
        })
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
