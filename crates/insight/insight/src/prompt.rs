//! A request as the model reads it: its parts in order, each with its place in the caller's own JSON.
//!
//! [`PromptDoc::parse`] and [`PromptDoc::from_value`] read saved bodies of OpenAI's chat completions, responses and
//! completions and of Anthropic's messages, and the forms that logs wrap them in; [`PromptDoc::from_parts`] takes parts
//! that a server has at hand. Two documents are compared part by part, so a difference always has a place.
//!
//! White space between the JSON of a request doesn't reach a model and isn't kept; the order of keys does and is. The
//! text of a string is kept as it was written.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tapri_ledger::{PartKind, TokenCounts};

mod anthropic;
mod block;
mod build;
mod canonical;
mod chat;
mod detect;
mod facts;
mod openai;
mod transcript;
mod usage;

pub use canonical::{Canonical, Spot};
pub use chat::Chat;
pub use detect::PromptError;
pub(crate) use detect::{MAX_WRAPPERS, WRAPPERS};
pub use usage::HostedDiagnosis;

/// Whose format a request is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// OpenAI's `/v1/chat/completions`, and everything that speaks it.
    ChatCompletions,
    /// OpenAI's `/v1/responses`.
    Responses,
    /// OpenAI's `/v1/completions`.
    Completions,
    /// Anthropic's `/v1/messages`.
    Messages,
    /// Text that nobody divided, as some logs keep it.
    Text,
}

/// What a part is, for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The definition of a tool.
    Tool,
    /// A parameter that stands in the prompt: the schema of the answer, the effort.
    Parameter,
    /// Instructions.
    System,
    /// Text of a message.
    Text,
    /// Reasoning of an earlier turn.
    Reasoning,
    /// A call of a tool, with its arguments.
    ToolCall,
    /// What a tool gave.
    ToolResult,
    /// An image, a sound: only its digest is kept.
    Media,
    /// A document beside the text.
    Document,
    /// Token ids, written as decimals.
    Tokens,
    /// An id that stands in the prompt: of a tool call.
    Id,
    /// A block of a kind that isn't known here, as JSON.
    Other,
}

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// Instructions, also OpenAI's `developer`.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// Someone else.
    Other,
}

/// A message: who speaks, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Its path: `messages[3]`.
    pub path: String,
    /// Who speaks.
    pub speaker: Speaker,
}

/// A marker: cache up to here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Where it stands: `system[0]`.
    pub path: String,
    /// The part it stands on, from 0; all up to its end is marked.
    pub part: usize,
    /// The lifetime asked for, as written: `5m`, `1h`.
    pub ttl: Option<String>,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What it is.
    pub kind: Kind,
    /// Where its text stands: `messages[0].content`, `tools[2]`.
    pub path: String,
    /// The character of the string at that path where this part begins; not 0 where a string was divided.
    pub offset: u64,
    /// Its text, as the caller wrote it; of a structure, compact JSON in the caller's order of keys.
    pub text: Arc<str>,
    /// The structure, where it is one.
    pub value: Option<Arc<Value>>,
    /// The name of a tool.
    pub name: Option<String>,
    /// The turn it belongs to: an index of [`PromptDoc::turns`].
    pub turn: Option<usize>,
}

impl Part {
    /// A part that is text.
    pub fn new(kind: Kind, path: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Part {
            kind,
            path: path.into(),
            offset: 0,
            text: text.into(),
            value: None,
            name: None,
            turn: None,
        }
    }

    /// A part that is a structure.
    pub fn json(kind: Kind, path: impl Into<String>, value: Value) -> Self {
        let text: Arc<str> = value.to_string().into();
        Part { value: Some(Arc::new(value)), ..Part::new(kind, path, text) }
    }

    /// The same, belonging to a turn.
    #[must_use]
    pub fn in_turn(self, turn: usize) -> Self {
        Part { turn: Some(turn), ..self }
    }

    /// The same, with the name of its tool.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Part { name: Some(name.into()), ..self }
    }

    /// The coarser kind that the ledger keeps.
    #[must_use]
    pub fn ledger_kind(&self) -> PartKind {
        match self.kind {
            Kind::Tool => PartKind::Tools,
            Kind::System | Kind::Parameter => PartKind::System,
            Kind::Document => PartKind::Page,
            Kind::Tokens => PartKind::Whole,
            _ if self.turn.is_none() => PartKind::Whole,
            _ => PartKind::Message,
        }
    }
}

/// What parts a cache: two calls that differ in it share nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionKind {
    /// The tenant: an account, an organisation, a team.
    Tenant,
    /// vLLM's and Tapri's `cache_salt`.
    Salt,
    /// OpenAI's `prompt_cache_key`.
    CacheKey,
    /// A LoRA adapter.
    Adapter,
    /// A tokenizer that the caller named.
    Tokenizer,
    /// A chat template that the caller gave.
    Template,
}

/// One value that parts a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// What it is.
    pub kind: PartitionKind,
    /// Where it stands in the request.
    pub path: String,
    /// Its value.
    pub value: String,
}

/// A request as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptDoc {
    /// Its format.
    pub dialect: Dialect,
    /// The model asked for.
    pub model: Option<String>,
    /// Its parts, in the order the model reads them.
    pub parts: Vec<Part>,
    /// Its messages.
    pub turns: Vec<Turn>,
    /// What parts the cache.
    pub partitions: Vec<Partition>,
    /// The cache markers, in reading order.
    pub markers: Vec<Marker>,
    /// Whether the request asks the provider to place a marker itself, with the lifetime asked for.
    pub automatic_marker: Option<Option<String>>,
    /// Whether nothing but what is marked may be cached: OpenAI's explicit mode.
    pub explicit_only: bool,
    /// Whether the caller said not to look: a header or directive that the log kept.
    pub bypassed: bool,
    /// The id of the call: its response's, or the log's own.
    pub id: Option<String>,
    /// The conversation it belongs to.
    pub conversation: Option<String>,
    /// The end user named, for bookkeeping; no part of a prompt.
    pub user: Option<String>,
    /// When it was made.
    pub at: Option<Timestamp>,
    /// When its first token came, or at the latest its last: its prompt was read by then.
    pub first_token: Option<Timestamp>,
    /// The lifetime asked for all of it, as written (OpenAI's retention or ttl).
    pub lifetime: Option<String>,
    /// What the response counted.
    pub usage: Option<TokenCounts>,
    /// What the provider itself said of a miss.
    pub diagnosis: Option<HostedDiagnosis>,
}

impl PromptDoc {
    /// From parts at hand, in the order the model reads them. Turns are those that the parts name.
    pub fn from_parts(
        model: impl Into<Option<String>>,
        parts: Vec<Part>,
        turns: Vec<Turn>,
    ) -> Self {
        PromptDoc { model: model.into(), parts, turns, ..Self::empty(Dialect::ChatCompletions) }
    }

    /// Reads a saved request body, or a line of a log that holds one.
    ///
    /// # Errors
    /// [`PromptError`] where it is no JSON, or no request in it.
    pub fn parse(json: &[u8]) -> Result<Self, PromptError> {
        detect::parse(json)
    }

    /// Reads a request from its JSON.
    ///
    /// # Errors
    /// [`PromptError::NoPrompt`] where there is none in it.
    pub fn from_value(value: &Value) -> Result<Self, PromptError> {
        detect::from_value(value)
    }

    /// Bytes of its texts: what keeping it costs, near enough.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.text.len() + part.path.len() + 160).sum()
    }

    /// Characters of all its texts.
    #[must_use]
    pub fn chars(&self) -> u64 {
        self.parts.iter().map(|part| part.text.chars().count() as u64).sum()
    }

    /// The turn of a part.
    #[must_use]
    pub fn turn_of(&self, part: &Part) -> Option<&Turn> {
        self.turns.get(part.turn?)
    }

    pub(crate) fn empty(dialect: Dialect) -> Self {
        PromptDoc {
            dialect,
            model: None,
            parts: Vec::new(),
            turns: Vec::new(),
            partitions: Vec::new(),
            markers: Vec::new(),
            automatic_marker: None,
            explicit_only: false,
            bypassed: false,
            id: None,
            conversation: None,
            user: None,
            at: None,
            first_token: None,
            lifetime: None,
            usage: None,
            diagnosis: None,
        }
    }
}

#[cfg(test)]
mod tests;
