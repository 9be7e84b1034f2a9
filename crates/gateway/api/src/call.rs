//! One request, whichever API and whichever door it came through.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::inbound::Inbound;
use crate::outline::Outline;

/// One call: a prompt, how to go on from it, and what the caches may do with it.
///
/// Built by a wire format of this crate, or by hand through [`Call::chat`], [`Call::text`] and
/// [`Call::tokens`], whose defaults are OpenAI's (temperature 1, every token possible, no limit but the context).
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Its name in answers, logs and the ledger.
    pub id: CallId,
    /// The model's name as asked for; `None` takes the one that is served.
    pub model: Option<String>,
    /// What the model reads.
    pub prompt: Prompt,
    /// The most tokens of the answer; `None` lets it run to the end of the context, 0 computes the prompt alone.
    pub max_tokens: Option<usize>,
    /// How each token is chosen.
    pub sampling: Sampling,
    /// What ends the answer.
    pub stop: Stop,
    /// With `Some(n)`: the logprob of each token and of its n likeliest rivals (at most [`MAX_TOP_LOGPROBS`]).
    pub logprobs: Option<u32>,
    /// With `Some(n)`: the logprob of each token of the prompt but the first, and of the n likeliest in its place (at most
    /// [`MAX_TOP_LOGPROBS`]). They are computed, so nothing of the prompt is read from the prefix cache.
    pub prompt_logprobs: Option<u32>,
    /// Whether the prompt is said again before the answer (completions), with its logprobs where there are some.
    pub echo: bool,
    /// What the request said to the caches.
    pub cache: CacheDirectives,
    /// The client's own partition of its tenant's cache.
    pub salt: Option<CacheSalt>,
    /// Whose call it is, as far as caches are concerned.
    pub scope: TenantScope,
    /// The share of an engine's KV memory that all calls of its scope may take together, from 0 to 1; `None` for no limit.
    pub kv_share: Option<f64>,
    /// Where it came from, for its record.
    pub origin: Origin,
    /// What its prompt is made of, for its record and for explanations.
    pub outline: Option<Outline>,
    /// The tools that the model may call, in the caller's order.
    pub tools: Vec<Tool>,
    /// Which of them it may or must call.
    pub tool_choice: ToolChoice,
    /// Whether one answer may call several tools.
    pub parallel_tool_calls: bool,
    /// The shape that the answer's text must have.
    pub output: OutputFormat,
    /// How many answers; at least 1. The prompt is read once.
    pub choices: usize,
}

/// A function that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// The JSON schema of its arguments, an object.
    pub parameters: Value,
    /// Whether the arguments must keep to the schema.
    pub strict: bool,
}

/// Which tools an answer may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// The one with this name.
    Named(String),
}

/// The shape of an answer's text.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutputFormat {
    /// Any text.
    #[default]
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON of this schema.
    JsonSchema(Value),
}

/// Where a call came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The door: the path of the API (`/v1/chat/completions`), or `ask`.
    pub route: Cow<'static, str>,
    /// The tenant's name; without configured tenants, [`Origin::DEFAULT_TENANT`].
    pub tenant: Cow<'static, str>,
    /// The conversation or session it belongs to, where the caller named one.
    pub conversation: Option<String>,
    /// The document it is about, where the caller named one: what is stored for it can be erased by this name.
    pub document: Option<String>,
    /// The caller's span, as W3C Trace Context has it: for traces alone.
    pub traceparent: Option<String>,
}

impl Origin {
    /// The one tenant, where none are configured.
    pub const DEFAULT_TENANT: &'static str = "default";

    /// Through a door, for the one tenant.
    pub fn of(route: &'static str) -> Self {
        Origin {
            route: Cow::Borrowed(route),
            tenant: Cow::Borrowed(Origin::DEFAULT_TENANT),
            conversation: None,
            document: None,
            traceparent: None,
        }
    }
}

impl Default for Origin {
    /// Through no door: by hand.
    fn default() -> Self {
        Origin::of("direct")
    }
}

/// The most rivals a logprob may be asked for, as in OpenAI's API.
pub const MAX_TOP_LOGPROBS: u32 = 20;

impl Call {
    /// A conversation.
    pub fn chat(messages: Vec<Message>) -> Self {
        Call::new(Prompt::Chat(messages))
    }

    /// Plain text to go on from.
    pub fn text(text: impl Into<String>) -> Self {
        Call::new(Prompt::Text(text.into()))
    }

    /// Token ids to go on from.
    pub fn tokens(ids: Vec<u32>) -> Self {
        Call::new(Prompt::Tokens(ids))
    }

    /// What an API was asked, to be read by whoever answers it. Of the other fields it has the model's name; the rest
    /// are defaults until it is read.
    pub fn request(inbound: Arc<Inbound>) -> Self {
        let model = inbound.model.clone();
        Call { model, ..Call::new(Prompt::Request(inbound)) }
    }

    /// A call with a new id and the defaults.
    pub fn new(prompt: Prompt) -> Self {
        Call {
            id: CallId::random(),
            model: None,
            prompt,
            max_tokens: None,
            sampling: Sampling::default(),
            stop: Stop::default(),
            logprobs: None,
            prompt_logprobs: None,
            echo: false,
            cache: CacheDirectives::default(),
            salt: None,
            scope: TenantScope::default(),
            kv_share: None,
            origin: Origin::default(),
            outline: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            output: OutputFormat::Text,
            choices: 1,
        }
    }
}

/// A call's name: 128 random bits, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub u128);

impl CallId {
    /// A new one.
    pub fn random() -> Self {
        CallId(uuid::Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What the model reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// A conversation, to be laid out by the model's chat template.
    Chat(Vec<Message>),
    /// Text, taken literally: the strings of special tokens in it are text. The tokenizer adds its
    /// beginning-of-text token where the model wants one.
    Text(String),
    /// Token ids, taken as they are: nothing is added.
    Tokens(Vec<u32>),
    /// A request as it came. The embedded engine reads it field by field and refuses what it can't
    /// do; an upstream of the same format gets it as it is.
    Request(Arc<Inbound>),
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The instructions. OpenAI's newer name `developer` means the same.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// What a tool gave back.
    Tool,
}

impl Role {
    /// The name that chat templates and both APIs use.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in one part or several. Templates read one string, so parts are joined by a newline
    /// (as vLLM and llama-server do); see [`Message::text`].
    pub parts: Vec<Part>,
    /// The speaker's name among several of one role.
    pub name: Option<String>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// Text.
    Text(String),
    /// A call of a tool, in a message of the model.
    ToolCall(ToolCall),
    /// What a tool gave back, in a message of [`Role::Tool`].
    ToolResult(ToolResult),
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id, by which the result names it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, JSON as the model wrote it.
    pub arguments: String,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub id: String,
    /// What it said.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

impl Message {
    /// A message of one text.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Message { role, parts: vec![Part::Text(text.into())], name: None }
    }

    /// Instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Message::new(Role::System, text)
    }

    /// The person's turn.
    pub fn user(text: impl Into<String>) -> Self {
        Message::new(Role::User, text)
    }

    /// The model's turn.
    pub fn assistant(text: impl Into<String>) -> Self {
        Message::new(Role::Assistant, text)
    }

    /// All its text and what tools said, parts joined by a newline.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) | Part::ToolResult(ToolResult { text, .. }) => Some(text.as_str()),
            Part::ToolCall(_) => None,
        });
        let mut joined = String::new();
        for (i, text) in texts.enumerate() {
            if i > 0 {
                joined.push('\n');
            }
            joined.push_str(text);
        }
        joined
    }
}

/// How the next token is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy; otherwise the logits are divided by it. In [0, 2].
    pub temperature: f32,
    /// Keep the k likeliest tokens; `None` keeps all.
    pub top_k: Option<u32>,
    /// Keep the likeliest tokens that together reach this probability, in (0, 1].
    pub top_p: f32,
    /// Keep the tokens at least this fraction as likely as the likeliest, in [0, 1].
    pub min_p: f32,
    /// The same seed gives the same answer on the same build and machine. Of several answers each has a seed of its own,
    /// derived from this one.
    pub seed: Option<u64>,
    /// Taken off the logit of every token that the answer has already, in [-2, 2].
    pub presence_penalty: f32,
    /// Taken off a token's logit once for each time that the answer has it, in [-2, 2].
    pub frequency_penalty: f32,
    /// Divides the positive logits of all tokens of the prompt and the answer and multiplies the negative ones, as vLLM and
    /// Hugging Face's libraries do: above 0, at most 10; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Added to the logits of single tokens, each in [-100, 100].
    pub logit_bias: Vec<(u32, f32)>,
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

/// What ends an answer before its token limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stop {
    /// The answer ends before the first of these.
    pub strings: Vec<String>,
    /// The answer ends before the first of these token ids.
    pub token_ids: Vec<u32>,
    /// Go on past the model's own end tokens.
    pub ignore_eos: bool,
}

/// The request's `Cache-Control`, as far as it concerns us (RFC 9111, section 5.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheDirectives {
    /// `no-cache`: use nothing that is stored.
    pub no_cache: bool,
    /// `no-store`: leave nothing behind.
    pub no_store: bool,
    /// `only-if-cached`: an error rather than a computation.
    pub only_if_cached: bool,
    /// `max-age=N`: nothing that was stored longer ago. It limits stored answers; K and V are a pure function
    /// of the prompt and don't age, so for the prefix cache only 0 matters, which means `no-cache`.
    pub max_age: Option<Duration>,
}

impl CacheDirectives {
    /// Reads the value of a `Cache-Control` header. Directives that don't concern us, unknown ones and broken
    /// arguments are skipped, as RFC 9111 asks of a cache.
    pub fn parse(value: &str) -> Self {
        let mut directives = CacheDirectives::default();
        for directive in value.split(',') {
            let (name, argument) = match directive.split_once('=') {
                Some((name, argument)) => (name.trim(), Some(argument.trim().trim_matches('"'))),
                None => (directive.trim(), None),
            };
            match name.to_ascii_lowercase().as_str() {
                "no-cache" => directives.no_cache = true,
                "no-store" => directives.no_store = true,
                "only-if-cached" => directives.only_if_cached = true,
                "max-age" => {
                    if let Some(seconds) = argument.and_then(|a| a.parse().ok()) {
                        directives.max_age = Some(Duration::from_secs(seconds));
                    }
                }
                _ => {}
            }
        }
        directives
    }

    /// Joins the directives of a second header line: the stricter of each.
    pub fn and(self, other: CacheDirectives) -> Self {
        CacheDirectives {
            no_cache: self.no_cache || other.no_cache,
            no_store: self.no_store || other.no_store,
            only_if_cached: self.only_if_cached || other.only_if_cached,
            max_age: match (self.max_age, other.max_age) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// Whether the prefix cache may be read.
    pub fn may_read(self) -> bool {
        !self.no_cache && self.max_age != Some(Duration::ZERO)
    }

    /// Whether anything may be left behind.
    pub fn may_store(self) -> bool {
        !self.no_store
    }
}

/// A client's own salt: calls share cached blocks only if their salts are equal. Narrows within the tenant's
/// scope, never widens it. Not empty, at most [`CacheSalt::MAX_CHARS`] characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CacheSalt(String);

/// Why a string is no salt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a salt has 1 to {} characters, this one has {chars}", CacheSalt::MAX_CHARS)]
pub struct SaltError {
    /// Its length in characters.
    pub chars: usize,
}

impl CacheSalt {
    /// The longest salt that is taken.
    pub const MAX_CHARS: usize = 128;

    /// Checks the length.
    pub fn new(salt: impl Into<String>) -> Result<Self, SaltError> {
        let salt = salt.into();
        let chars = salt.chars().count();
        if chars == 0 || chars > CacheSalt::MAX_CHARS {
            return Err(SaltError { chars });
        }
        Ok(CacheSalt(salt))
    }

    /// The salt itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The cache partition of a tenant, derived by the gateway. Without configured keys there is one tenant, the default.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TenantScope(pub Vec<u8>);
