//! What comes back from a call, whichever backend answers it.

use std::sync::Arc;
use std::time::Duration;

use crate::ApiError;
use crate::reuse::Reuse;
use crate::usage::Usage;

/// One step of a call, in this order: `Admitted`, any number of `Prefill`, any number of `Token`, then
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
    /// A token of the answer.
    Token(Token),
    /// The call ended well.
    Finished(Finish),
    /// The call ended without an answer, or in the middle of one.
    Failed(ApiError),
}

/// What is known when a call starts to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Admission {
    /// What the prefix cache had for it.
    pub reuse: Reuse,
    /// How long it waited.
    pub queued: Duration,
    /// How a conversation was laid out; `None` for text and token ids.
    pub template: Option<TemplateUse>,
    /// The prompt's token ids, where the backend knows them: for records, not for answers.
    pub prompt_ids: Option<Arc<[u32]>>,
}

/// Which chat template laid out a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateUse {
    /// The one that came with the model.
    Own,
    /// The model has none, so ChatML was used. A base model was not trained on it.
    ChatMlFallback,
}

/// A token of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Its id, where the backend says.
    pub id: u32,
    /// The text that became certain with it: empty while it ends in half a character or in what may be a stop string.
    pub text: String,
    /// Its logprob, if asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// A token's logprob and its rivals'.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// The chosen token's own.
    pub chosen: Logprob,
    /// The likeliest tokens, best first.
    pub top: Vec<Logprob>,
}

/// A token and the natural logarithm of its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct Logprob {
    /// Its id.
    pub id: u32,
    /// Its bytes; not always UTF-8 on their own.
    pub bytes: Vec<u8>,
    /// ln p.
    pub logprob: f32,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model's end, a stop string or a stop token.
    Stop,
    /// The token limit, or the end of the context.
    Length,
}

impl FinishReason {
    /// OpenAI's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
    /// The stop string that ended it, if one did.
    pub matched_stop: Option<String>,
    /// The last of the text: what was held back and turned out to belong to the answer.
    pub tail: String,
    /// Token counts.
    pub usage: Usage,
    /// Durations.
    pub timings: Timings,
}

/// Durations of a call, measured where it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
