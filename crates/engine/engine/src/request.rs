//! What a caller asks of the engine.

use tapri_gguf::TokenId;

use crate::constraint::Constraint;

/// The partition of the cache that a call lives in: two calls share blocks only if their scopes are equal.
///
/// Derived by the gateway from the tenant; a client never chooses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Scope(pub Vec<u8>);

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy; otherwise the logits are divided by it.
    pub temperature: f32,
    /// Keep the k likeliest tokens; `None` keeps all.
    pub top_k: Option<u32>,
    /// Keep the likeliest tokens that together reach this probability, in (0, 1]; 1 keeps all.
    pub top_p: f32,
    /// Keep the tokens at least this fraction as likely as the likeliest, in [0, 1]; 0 keeps all.
    pub min_p: f32,
    /// The seed; `None` takes one at random.
    pub seed: Option<u64>,
    /// Taken off the logit of every token that the answer has already, in [-2, 2].
    pub presence_penalty: f32,
    /// Taken off a token's logit once for each time that the answer has it, in [-2, 2].
    pub frequency_penalty: f32,
    /// Divides the positive logits of all tokens of the prompt and the answer, and multiplies the negative ones: above 0, at
    /// most 10; 1 changes nothing. (Keskar et al. 2019, "CTRL", as Hugging Face's libraries and vLLM have it.)
    pub repetition_penalty: f32,
    /// Added to the logits of single tokens, each in [-100, 100].
    pub logit_bias: Vec<(TokenId, f32)>,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            seed: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
        }
    }
}

impl Sampling {
    /// The likeliest token, always.
    pub fn greedy() -> Self {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }
}

/// What ends an answer before `max_tokens`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopRules {
    /// The answer ends before the first of these strings; it is not part of the answer.
    pub strings: Vec<String>,
    /// The answer ends before the first of these tokens, besides the model's own end tokens.
    pub tokens: Vec<TokenId>,
    /// Go on past the model's own end tokens. A call with a constraint ends where its grammar does all the same.
    pub ignore_eos: bool,
}

/// How a call uses the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUse {
    /// Whether it may use blocks that are there (`Cache-Control: no-cache` turns it off).
    pub read: bool,
    /// Whether it may leave blocks behind (`Cache-Control: no-store` turns it off).
    pub store: bool,
}

impl Default for CacheUse {
    fn default() -> Self {
        CacheUse { read: true, store: true }
    }
}

/// One call: a prompt and how to go on from it.
#[derive(Debug, Clone, Default)]
pub struct GenerateRequest {
    /// The whole prompt, with a beginning-of-text token where the model wants one.
    pub prompt: Vec<TokenId>,
    /// The cache partition.
    pub scope: Scope,
    /// The share of the KV memory, from 0 to 1, that all calls of the scope may use and leave behind together; `None` for no
    /// limit. The latest call's word holds. A scope that has its share evicts its own cached blocks, and no others'.
    pub kv_share: Option<f64>,
    /// The client's own salt; narrows within the scope.
    pub salt: Option<String>,
    /// The name of the adapter to apply, one of [`EngineConfig::adapters`](crate::EngineConfig::adapters).
    pub adapter: Option<String>,
    /// The most tokens of the answer; 0 computes the prompt alone (pre-warming).
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What ends the answer.
    pub stop: StopRules,
    /// With `Some(n)`: the logprob of each answer token and of its n likeliest rivals (at most 20).
    pub logprobs: Option<u32>,
    /// With `Some(n)`: the logprobs of the prompt's tokens as well, but for the first, and of the n likeliest of each place
    /// (at most 20). They need the scores of every place, so nothing is read from the prefix cache.
    pub prompt_logprobs: Option<u32>,
    /// Pins the prompt's whole blocks once they are computed: they stay until the pin is taken away by its id, which is in
    /// the [`Outcome`](crate::Outcome). For a prompt alone: `max_tokens` is 0, and the cache may be stored in.
    pub pin: bool,
    /// How the prefix cache is used.
    pub cache: CacheUse,
    /// What the answer must be; compiled by [`Engine::constrain`](crate::Engine::constrain).
    pub constraint: Option<Constraint>,
}
