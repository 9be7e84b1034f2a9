//! What comes back from a call, whichever backend answers it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ApiError;
use crate::convert::Dropped;
use crate::inbound::Format;
use crate::reuse::Reuse;
use crate::usage::Usage;

/// One step of a call, in this order: `Admitted`, any number of `Prefill`, any number of `Token` or `Piece`, then
/// `Finished` or `Failed`, after which nothing comes.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// The call runs, and what it reuses is known.
    Admitted(Admission),
    /// So much of the prompt is read. Sent now and then; a display of progress may need it, an API doesn't.
    Prefill {
        /// Prompt tokens that are ready, reused ones included.
        ready: usize,
        /// Prompt tokens in all.
        total: usize,
    },
    /// A token of the answer: what an engine of our own says.
    Token(Token),
    /// A piece of the answer: what an upstream says, and what only pieces can say (tool calls, several answers).
    Piece(Piece),
    /// The call ended well.
    Finished(Finish),
    /// The call ended without an answer, or in the middle of one.
    Failed(ApiError),
}

/// What is known when a call starts to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// What the prefix cache had for it; `None` where whoever answers tells it later or never.
    pub reuse: Option<Reuse>,
    /// How long it waited.
    pub queued: Duration,
    /// How a conversation was laid out; `None` for text and token ids.
    pub template: Option<TemplateUse>,
    /// The prompt's token ids, where the backend knows them: for records, not for answers.
    pub prompt_ids: Option<Arc<[u32]>>,
    /// What of the request could not be said in the answerer's API, and affects no answer.
    pub dropped: Vec<Dropped>,
}

/// Which chat template laid out a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateUse {
    /// The one that came with the model.
    Own,
    /// The model has none, so ChatML was used. A base model was not trained on it.
    ChatMlFallback,
}

impl Piece {
    /// Whether it tells of the prompt alone: the answer has not begun.
    pub fn is_of_prompt(&self) -> bool {
        let of_prompt =
            |delta: &Delta| matches!(delta.says, Says::Echo { .. } | Says::PromptLogprobs(_));
        self.raw.is_none() && !self.deltas.is_empty() && self.deltas.iter().all(of_prompt)
    }
}

/// A piece of an answer, twice: as it came, and what it says.
///
/// A renderer of the same format that sends as the piece came (chunk for chunk, body for body) sends [`Piece::raw`],
/// in which fields that nobody here knows are kept; every other one renders the deltas. A chunk that holds nothing but
/// the usage is no piece: it is in [`Finish`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Piece {
    /// As it came from an upstream.
    pub raw: Option<Raw>,
    /// What it says, in order.
    pub deltas: Vec<Delta>,
}

/// A chunk or a body of an API's answer, as it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raw {
    /// Its format.
    pub format: Format,
    /// The event's name, in formats that name them (Anthropic messages, responses).
    pub event: Option<String>,
    /// Its JSON. A body where [`Raw::whole`].
    pub data: Arc<str>,
    /// Whether it is a whole body and no chunk of a stream.
    pub whole: bool,
}

/// What a piece says of one of the answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// Which answer, counted from 0; with one answer always 0.
    pub choice: usize,
    /// What is said.
    pub says: Says,
}

/// What a [`Delta`] says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Says {
    /// More text.
    Text(String),
    /// More text, with the id and logprobs of the token: from an engine of our own.
    Token(Token),
    /// The next tokens of the prompt, said again before the answer.
    Echo {
        /// The tokens. The prompt's first has no logprobs.
        tokens: Vec<Token>,
        /// Whether logprobs were asked for.
        scored: bool,
    },
    /// The logprobs of the prompt's next tokens, an entry for each, as vLLM has them: null for the first.
    PromptLogprobs(Vec<Value>),
    /// Logprobs as an upstream wrote them, in the shape of the piece's format.
    Logprobs(Value),
    /// More of what the model thinks before it answers.
    Thinking(String),
    /// The signature of the thinking so far, without which it can't be sent back.
    ThinkingSignature(String),
    /// Thinking that can't be read, only sent back.
    RedactedThinking(String),
    /// The model won't answer, in its words.
    Refusal(String),
    /// A call of a tool begins.
    ToolCall {
        /// Which call of this answer, counted from 0.
        index: usize,
        /// Its id.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a tool call's arguments, a part of JSON text.
    ToolArguments {
        /// Which call of this answer.
        index: usize,
        /// What to append.
        json: String,
    },
    /// A field that only one format has: strings are appended, lists joined, anything else replaced.
    Other {
        /// Its name in the message.
        field: String,
        /// Its value.
        value: Value,
    },
    /// This answer ended.
    End {
        /// Why.
        reason: FinishReason,
        /// The stop string that ended it.
        matched_stop: Option<String>,
    },
}

/// A token of the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Its id, where the backend says.
    pub id: u32,
    /// The text that became certain with it: empty while it ends in half a character or in what may be a stop string.
    pub text: String,
    /// Its logprob, if asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// A token's logprob and its rivals'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprobs {
    /// The chosen token's own.
    pub chosen: Logprob,
    /// The likeliest tokens, best first.
    pub top: Vec<Logprob>,
}

/// A token and the natural logarithm of its probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprob {
    /// Its id.
    pub id: u32,
    /// Its bytes; not always UTF-8 on their own.
    pub bytes: Vec<u8>,
    /// ln p.
    pub logprob: f32,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinishReason {
    /// The model's end, a stop string or a stop token.
    Stop,
    /// The token limit, or the end of the context.
    Length,
    /// The model called tools and waits for what they say.
    ToolCalls,
    /// A filter cut it, or the model refused.
    ContentFilter,
    /// The provider paused a long turn, to be sent back as it is and gone on with.
    Pause,
}

impl FinishReason {
    /// OpenAI's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
            // OpenAI has no word for it; a client that reads `stop` sends the turn back, which is right.
            FinishReason::Pause => "stop",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// The stop string that ended it, if one did.
    pub matched_stop: Option<String>,
    /// The last of the text: what was held back and turned out to belong to the answer.
    pub tail: String,
    /// Token counts.
    pub usage: Usage,
    /// The last chunk of an upstream's stream, where it says the usage and nothing of the answer. It has counts that
    /// [`Usage`] knows no name for, and so is sent to a caller of the same format who asked for the usage.
    pub raw: Option<Box<Raw>>,
    /// Durations.
    pub timings: Timings,
}

/// Durations of a call, measured where it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timings {
    /// From submission to admission.
    pub queued: Duration,
    /// From submission to the first token of the answer.
    pub first_token: Option<Duration>,
    /// From the first token of the answer to the last.
    pub decode: Duration,
    /// From submission to the end.
    pub total: Duration,
}
