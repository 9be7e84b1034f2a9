//! What a caller gets back from the engine.

use std::time::Duration;

use tapri_gguf::TokenId;
use tapri_kv::Stop;

/// One step of a call, in this order: `Admitted`, any number of `Prefill` and `Prompt`, any number of `Token`, then
/// `Done` or `Failed`, after which nothing comes.
#[derive(Debug, Clone)]
pub enum GenerateEvent {
    /// The call runs; what the prefix cache had for it is known.
    Admitted(Admitted),
    /// So many of the prompt's tokens are there (reused or computed). May be skipped under load.
    Prefill {
        /// Prompt tokens whose K and V are there.
        ready: usize,
        /// Prompt tokens in all.
        total: usize,
    },
    /// The logprobs of the prompt's next tokens, from the second on, if asked for. Of several answers the first is told.
    Prompt(Vec<PromptLogprobs>),
    /// A token of the answer.
    Token(TokenEvent),
    /// The call ended well.
    Done(Outcome),
    /// The call ended without an answer, or in the middle of one.
    Failed(GenerateError),
}

/// What was known when a call was admitted.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Prompt tokens found in the cache.
    pub cached_tokens: usize,
    /// Of those, tokens whose K and V were read back from disk.
    pub restored_tokens: usize,
    /// Prompt tokens that another call was computing and this one waited for; not part of `cached_tokens`.
    pub joined_tokens: usize,
    /// Where reuse ended, and why; what a client may see of it is [`Stop::for_client`].
    pub stop: Stop,
    /// How long the call waited before it ran.
    pub queued: Duration,
}

/// A token of the answer.
#[derive(Debug, Clone)]
pub struct TokenEvent {
    /// Its id.
    pub id: TokenId,
    /// The text that became certain with it; may be empty (half a character, the start of a stop string).
    pub text: String,
    /// Its logprob, if asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// A token's logprob and its rivals'.
#[derive(Debug, Clone)]
pub struct TokenLogprobs {
    /// The chosen token's own (natural log, before temperature).
    pub chosen: TokenLogprob,
    /// The likeliest tokens, best first.
    pub top: Vec<TokenLogprob>,
}

/// The logprob of a token of the prompt, given those before it.
#[derive(Debug, Clone)]
pub struct PromptLogprobs {
    /// Its own and its rivals'.
    pub logprobs: TokenLogprobs,
    /// How many tokens are at least as likely, itself included.
    pub rank: usize,
}

/// A token and the natural log of its probability.
#[derive(Debug, Clone)]
pub struct TokenLogprob {
    /// Its id.
    pub id: TokenId,
    /// Its bytes; not always valid UTF-8 on their own.
    pub bytes: Vec<u8>,
    /// ln p.
    pub logprob: f32,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model's end token, a stop token or a stop string.
    Stop,
    /// `max_tokens`, or the context was full.
    Length,
    /// The caller left, or the engine was told to stop.
    Cancelled,
}

/// Token counts of a call that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: usize,
    /// Prompt tokens found in the cache.
    pub cached_tokens: usize,
    /// Of those, tokens whose K and V were read back from disk.
    pub restored_tokens: usize,
    /// Prompt tokens that were joined while another call computed them.
    pub joined_tokens: usize,
    /// Prompt tokens that were left behind in the cache for the first time.
    pub written_tokens: usize,
    /// Tokens of the answer.
    pub answer_tokens: usize,
}

/// Durations of a call, as measured by the engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    /// From submission to admission.
    pub queued: Duration,
    /// From submission to the first answer token.
    pub first_token: Option<Duration>,
    /// From the first answer token to the last.
    pub decode: Duration,
    /// From submission to the end.
    pub total: Duration,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Why.
    pub finish: FinishReason,
    /// The stop string or token text that ended it, if one did.
    pub matched_stop: Option<String>,
    /// Text that was held back and turned out to belong to the answer.
    pub tail: String,
    /// Token counts.
    pub usage: Usage,
    /// Durations.
    pub timings: Timings,
    /// The pin that it left, if it was to leave one.
    pub pinned: Option<Pin>,
}

/// A start that stays in the KV memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// Its name, by which it is taken away.
    pub id: u64,
    /// Tokens that are pinned: whole blocks.
    pub tokens: usize,
    /// KV blocks that it holds. Pins that begin alike share some.
    pub blocks: usize,
    /// Bytes of them.
    pub bytes: u64,
}

/// Why a call failed after it was taken.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The engine is stopping.
    #[error("the engine is shutting down")]
    ShuttingDown,
    /// The prompt needs more KV blocks than the whole budget has, or the share of its scope.
    #[error(
        "the prompt needs {needed} KV blocks and there are {capacity}; raise the KV memory or the share of it, or shorten the prompt"
    )]
    ExceedsKvBudget {
        /// Blocks that the prompt needs at once.
        needed: usize,
        /// Blocks there are: in all, or in the share of the call's scope.
        capacity: usize,
        /// Whether it is the share.
        of_share: bool,
    },
    /// The model produced something that is not a number.
    #[error(
        "the model's scores for token {position} are not numbers; the model file may be damaged"
    )]
    NotANumber {
        /// The position whose logits were broken.
        position: usize,
    },
    /// The grammar of the answer took more than one may, or no token of the vocabulary fits it.
    #[error("the answer can't be kept to its grammar: {0}")]
    Constraint(String),
    /// Too much would be pinned.
    #[error("the pin needs {needed} KV blocks more, {pinned} are pinned, and {limit} may be")]
    PinsFull {
        /// Blocks that it needs, besides those that are pinned already.
        needed: usize,
        /// Blocks that are pinned: by all, or by its scope.
        pinned: usize,
        /// Blocks that may be.
        limit: usize,
        /// Whether it is the limit of its scope.
        of_share: bool,
    },
    /// There is no whole block that could be pinned.
    #[error("there is nothing to pin: a prompt is pinned by whole blocks of {block} tokens")]
    NothingToPin {
        /// Tokens of a block.
        block: usize,
    },
    /// A defect in the engine.
    #[error("the engine failed on this call: {0}")]
    Internal(String),
}
