//! The trait.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use tapri_api::{ApiError, Call, Prompt, TemplateUse};

use crate::{BackendStats, CallStream};

/// A future that owns what it needs, so that a backend can be used behind an `Arc<dyn Backend>`.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + Send>>;

/// Something that answers calls.
///
/// Every future must be polled inside a tokio runtime. Dropping one, or the stream it gave, cancels the call.
pub trait Backend: Send + Sync + 'static {
    /// The model it serves.
    fn model(&self) -> &ModelCard;

    /// Its name in records: `embedded`, or the upstream's.
    fn name(&self) -> &str;

    /// Starts a call. The stream comes back as soon as the call is accepted, which may be before it runs.
    ///
    /// Errors are the caller's (a prompt too long, too many calls waiting) and are ready to be rendered.
    fn start(&self, call: Call) -> Answer<CallStream>;

    /// The token ids a prompt becomes, exactly those that [`Backend::start`] would read: with the chat
    /// template around a conversation, and a beginning-of-text token where the model wants one.
    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>>;

    /// The token ids of a piece of text on its own: nothing is added, and nothing in it is special.
    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>>;

    /// The text of token ids, special tokens included. Bytes that aren't UTF-8 become U+FFFD.
    fn detokenize(&self, ids: Vec<u32>) -> Answer<String>;

    /// Counters and gauges, where the backend has any.
    fn stats(&self) -> Option<BackendStats>;

    /// Stops it: calls get `limit` to end, the rest end with [`CallEvent::Failed`](tapri_api::CallEvent::Failed).
    /// Blocks meanwhile. Calls that come later are refused.
    fn shutdown(&self, limit: Duration);
}

/// What can be said about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCard {
    /// The name it is served under.
    pub id: String,
    /// Other names that requests may use.
    pub aliases: Vec<String>,
    /// Tokens that prompt and answer may have together.
    pub context: usize,
    /// Tokens in the vocabulary.
    pub vocabulary: usize,
    /// Which chat template lays out a conversation.
    pub template: TemplateUse,
    /// Hexadecimal digits that change when the weights, the tokenizer or the arithmetic do.
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
