//! What can go wrong, one enum per operation. Messages are fragments that fit "failed to {operation}: {error}".

use tapri_gguf::{MetadataError, TokenId};

/// Why a model file's tokenizer can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A setting is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A kind of tokenizer that isn't implemented.
    #[error("tokenizer model `{0}` is not supported (`gpt2` and `llama` are)")]
    Model(String),
    /// A way to cut text into words that isn't implemented.
    #[error("pre-tokenizer `{0}` is not supported ({supported})", supported = crate::bpe::PRE_TOKENIZERS)]
    PreTokenizer(String),
    /// The file has no tokens.
    #[error("the vocabulary is empty")]
    Empty,
    /// A table has fewer or more entries than there are tokens.
    #[error("`{key}` has {found} entries, but there are {tokens} tokens")]
    Length {
        /// The table's key.
        key: &'static str,
        /// Its length.
        found: usize,
        /// The vocabulary's size.
        tokens: usize,
    },
    /// The vocabulary is larger than token ids or text offsets can count.
    #[error("the vocabulary is too large ({tokens} tokens, {bytes} bytes)")]
    TooLarge {
        /// How many tokens there are.
        tokens: usize,
        /// How many bytes their texts have.
        bytes: usize,
    },
    /// Two tokens have the same text.
    #[error("tokens {first} and {second} are both {text:?}")]
    Duplicate {
        /// Their text.
        text: String,
        /// The first of them.
        first: TokenId,
        /// The second of them.
        second: TokenId,
    },
    /// A special token's id lies outside the vocabulary.
    #[error("`{key}` is {id}, but there are only {tokens} tokens")]
    OutOfRange {
        /// The key.
        key: String,
        /// The id found.
        id: u32,
        /// The vocabulary's size.
        tokens: usize,
    },
    /// A merge rule isn't two tokens that make a third.
    #[error("merge rule {index} ({rule:?}) is not two tokens that make a third")]
    Merge {
        /// Its index.
        index: usize,
        /// The rule.
        rule: String,
    },
    /// Some text could not be written with this vocabulary.
    #[error("the vocabulary has no token for byte {0:#04x} and no unknown token")]
    NoByte(u8),
    /// The file asks for a BOS token but names none.
    #[error("`tokenizer.ggml.add_bos_token` is set, but the file names no BOS token")]
    NoBos,
}

/// A token id that the vocabulary doesn't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token {id} does not exist (the vocabulary has {tokens} tokens)")]
pub struct UnknownToken {
    /// The id.
    pub id: TokenId,
    /// The vocabulary's size.
    pub tokens: usize,
}

/// Why a chat could not be made into a prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The model file's template is not a string.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The template is not valid Jinja.
    #[error("the chat template is not valid: {0}")]
    Syntax(#[source] minijinja::Error),
    /// The template refused the messages by `raise_exception`.
    #[error("the model's chat template refuses these messages: {0}")]
    Raised(String),
    /// The template took more steps, more nesting or more output than it may.
    #[error("the chat template exceeds a limit: {0}")]
    Limit(String),
    /// The template failed on these messages.
    #[error("the chat template failed: {0}")]
    Render(#[source] minijinja::Error),
    /// The input uses every character that could mark its own special tokens.
    #[error("the messages use every character that is reserved for internal use")]
    NoMarker,
}
