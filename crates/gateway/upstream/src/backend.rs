//! The trait.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tapri_api::{ApiError, Call, ErrorKind, Prompt, TemplateUse, TenantScope};

use crate::{BackendStats, CallStream, Holdings, PrefixMap, UpstreamStats};

/// A future that owns what it needs, so that a backend can be used behind an `Arc<dyn Backend>`.
pub type Answer<T> = std::pin::Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send>>;

/// The name of what answers in this process, in records and where routes name their upstreams.
pub const EMBEDDED: &str = "embedded";

/// Something that answers calls.
///
/// Every future must be polled inside a tokio runtime. Dropping one, or the stream it gave, cancels the call.
pub trait Backend: Send + Sync + 'static {
    /// The models it serves that can be listed, in the order of its configuration.
    fn models(&self) -> Vec<Arc<ModelCard>>;

    /// The model that goes by a name. A backend may serve names that it doesn't list (a pattern, say).
    fn card(&self, name: &str) -> Option<Arc<ModelCard>> {
        self.models().into_iter().find(|card| card.answers_to(name))
    }

    /// The model that a request's `model` field means; without one, the only one that is served.
    fn model(&self, name: Option<&str>) -> Result<Arc<ModelCard>, ApiError> {
        let Some(name) = name else {
            let mut models = self.models();
            return match models.len() {
                1 => Ok(models.remove(0)),
                _ => Err(unnamed(&models)),
            };
        };
        self.card(name).ok_or_else(|| unknown_model(name, &self.models()))
    }

    /// The same for a call of a route, where routes have upstreams of their own.
    fn model_on(&self, name: Option<&str>, _route: &str) -> Result<Arc<ModelCard>, ApiError> {
        self.model(name)
    }

    /// Its name in records where no model is known: `embedded`, `fleet`.
    fn name(&self) -> &str;

    /// Starts a call. The stream comes back as soon as the call is accepted, which may be before it runs.
    ///
    /// Errors are the caller's (a prompt too long, too many calls waiting) and are ready to be rendered.
    fn start(&self, call: Call) -> Answer<CallStream>;

    /// The token ids a prompt becomes, exactly those that [`Backend::start`] would read: with the chat
    /// template around a conversation, and a beginning-of-text token where the model wants one.
    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>>;

    /// The same for a call's prompt: what is known of its scope's earlier texts may be used, and what is new may be kept for
    /// its scope, as the call says to the caches. Those who keep no texts see no difference.
    fn tokenize_call(&self, call: Call) -> Answer<Vec<u32>> {
        self.tokenize(call.prompt)
    }

    /// How many tokens a call's prompt has. Those who have no tokenizer at hand ask whoever would answer.
    fn count_tokens(&self, call: Call) -> Answer<usize> {
        let tokens = self.tokenize_call(call);
        Box::pin(async move { Ok(tokens.await?.len()) })
    }

    /// The token ids of a piece of text on its own: nothing is added, and nothing in it is special.
    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>>;

    /// The text of token ids, special tokens included. Bytes that aren't UTF-8 become U+FFFD.
    fn detokenize(&self, ids: Vec<u32>) -> Answer<String>;

    /// Answers a request to a path as it came, where each tenant has a server of its own; `None` where it is to be answered
    /// here.
    fn pass_on(&self, _tenant: &str, _path: &'static str, _body: Bytes) -> Answer<Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Forgets what a prefix cache of its own holds of a tenant, or of all tenants. Calls that run go on, and nobody finds
    /// their blocks any more. `None` where it has no such cache: what an upstream keeps is the upstream's to erase.
    fn erase(&self, _whose: Option<Whose>) -> Answer<Option<Erased>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Pins the start that a call's prompt is: its whole blocks are computed where they aren't there, and stay in the prefix
    /// cache until the pin is taken away or its tenant's blocks are erased. What the call says of an answer doesn't matter.
    ///
    /// # Errors
    /// Where there is no prefix cache of its own, or the pin doesn't fit.
    fn pin(&self, _call: Call) -> Answer<Pinned> {
        Box::pin(std::future::ready(Err(no_pins())))
    }

    /// What a tenant has pinned, whatever the salts; `None` where there is no prefix cache of its own.
    fn pins(&self, _whose: Whose) -> Answer<Option<Pins>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Takes a pin of a tenant away. `false`: it has none of this name.
    fn unpin(&self, _whose: Whose, _id: u64) -> Answer<bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// What a prefix cache of its own holds, the last used first, in at most `limit` runs, and which of it belongs to
    /// which of some scopes. `None` where it has no such cache.
    fn prefix_map(&self, _scopes: Vec<TenantScope>, _limit: usize) -> Answer<Option<PrefixMap>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Which of its calls holds what of a prefix cache of its own, and which of them belongs to which of some scopes.
    /// `None` where it has no such cache.
    fn holdings(&self, _scopes: Vec<TenantScope>) -> Answer<Option<Holdings>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Counters and gauges, where the backend has any.
    fn stats(&self) -> Option<BackendStats>;

    /// What each of its upstreams did and does, where it has any.
    fn upstreams(&self) -> Vec<UpstreamStats> {
        Vec::new()
    }

    /// Stops it: calls get `limit` to end, the rest end with [`CallEvent::Failed`](tapri_api::CallEvent::Failed).
    /// Blocks meanwhile. Calls that come later are refused.
    fn shutdown(&self, limit: Duration);
}

/// Whose part of a prefix cache is meant. One engine for all tells them apart by scopes; where each tenant has an engine of
/// its own, by names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// The tenant's name.
    pub tenant: String,
    /// The scope of its blocks.
    pub scope: TenantScope,
}

/// What was erased of a prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    /// KV blocks that nobody used.
    pub dropped: u64,
    /// KV blocks that running calls use to their end: no other call finds them.
    pub in_use: u64,
    /// Pins that are no more.
    pub pins: u64,
}

impl std::ops::AddAssign for Erased {
    fn add_assign(&mut self, Erased { dropped, in_use, pins }: Erased) {
        self.dropped += dropped;
        self.in_use += in_use;
        self.pins += pins;
    }
}

/// A start that stays in the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Pin {
    /// Its name.
    pub id: u64,
    /// Tokens that are pinned: whole blocks.
    pub tokens: usize,
    /// KV blocks that hold them. Pins that begin alike share some.
    pub blocks: usize,
    /// Bytes of them.
    pub bytes: u64,
}

/// A pin that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// The pin.
    pub pin: Pin,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of it that were there, or that another call computed meanwhile.
    pub cached: usize,
}

/// What a scope has pinned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pins {
    /// Its pins, the oldest first.
    pub pins: Vec<Pin>,
    /// Bytes that all scopes together may pin.
    pub limit_bytes: u64,
}

/// The error where nothing can be pinned.
pub fn no_pins() -> ApiError {
    ApiError::new(ErrorKind::Invalid, "What answers here has no prefix cache of its own to pin in")
        .code("unsupported")
        .hint("Pins are for the embedded engine; an upstream keeps what it keeps")
}

/// What can be said about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCard {
    /// The name it is served under.
    pub id: String,
    /// Other names that requests may use.
    pub aliases: Vec<String>,
    /// Who answers for it, in records: `embedded`, or the upstream's name.
    pub upstream: String,
    /// Tokens that prompt and answer may have together, where it is known.
    pub context: Option<usize>,
    /// Tokens in the vocabulary, where it is known.
    pub vocabulary: Option<usize>,
    /// Which chat template lays out a conversation, where it is known.
    pub template: Option<TemplateUse>,
    /// Hexadecimal digits that change when the weights, the tokenizer or the arithmetic do; of an upstream's model, which
    /// can't be looked at, when the upstream or the model's name there does.
    pub fingerprint: String,
    /// When it began to be served.
    pub since: SystemTime,
}

impl ModelCard {
    /// Whether a request's `model` means this one.
    pub fn answers_to(&self, name: &str) -> bool {
        self.id == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// The error for a model that isn't served, with the list of those that are: the ones that the caller may know.
pub fn unknown_model(name: &str, models: &[Arc<ModelCard>]) -> ApiError {
    // A name may be of any length; the caller knows what it sent.
    let shown: String = name.chars().take(100).collect();
    ApiError::new(ErrorKind::NotFound, format!("The model `{shown}` is not served here"))
        .at("model")
        .code("model_not_found")
        .hint(match models {
            [] => "No model that can be listed is served: ask the operator for a name".to_owned(),
            [one] => format!("Ask for `{}`, or leave `model` out", one.id),
            many => format!("Ask for one of {}", names(many)),
        })
}

/// The error for a request without a model, where there are several.
pub(crate) fn unnamed(models: &[Arc<ModelCard>]) -> ApiError {
    ApiError::invalid("model", "`model` is missing, and more than one model is served here")
        .code("missing_field")
        .hint(match models {
            [] => "Ask the operator for a name".to_owned(),
            many => format!("Ask for one of {}", names(many)),
        })
}

fn names(models: &[Arc<ModelCard>]) -> String {
    /// More names than this help nobody in an error.
    const MOST: usize = 20;
    let mut list: Vec<String> =
        models.iter().take(MOST).map(|card| format!("`{}`", card.id)).collect();
    if models.len() > MOST {
        list.push(format!("{} more (see /v1/models)", models.len() - MOST));
    }
    list.join(", ")
}
