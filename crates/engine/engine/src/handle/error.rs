//! Why an engine does not start, does not take a call, or shows nothing.

use std::path::PathBuf;

use tapri_gguf::GgufError;
use tapri_kernels::{IsaError, KvStoreError};
use tapri_kv::ConfigError;
use tapri_model::LoadError;
use tapri_text::{TemplateError, TokenizerError};

use crate::adapters::AdapterStartError;
use crate::disk::DiskError;
use crate::sampling::SamplingError;

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The file isn't a GGUF that can be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: GgufError,
    },
    /// The model can't be run exactly as the file says.
    #[error("{}: {source}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: LoadError,
    },
    /// The tokenizer isn't one that is known.
    #[error("{}: {source}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: TokenizerError,
    },
    /// The chat template can't be read.
    #[error("{}: {source}", path.display())]
    Template {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: TemplateError,
    },
    /// An adapter can't be applied to the model.
    #[error(transparent)]
    Adapter(#[from] AdapterStartError),
    /// `TAPRI_ISA` names no path of this machine.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// The block size isn't one that the kernels take.
    #[error("the block size must be 16, 32, 64, 128 or 256 tokens, not {0}")]
    BlockSize(usize),
    /// The KV budget has no room for a block of each group.
    #[error("a KV memory of {budget} bytes is too little: this model needs at least {least} bytes")]
    KvMemory {
        /// What was set.
        budget: u64,
        /// The least that works.
        least: u64,
    },
    /// The memory could not be reserved.
    #[error(transparent)]
    KvStore(#[from] KvStoreError),
    /// The prefix cache refused its settings.
    #[error(transparent)]
    Cache(#[from] ConfigError),
    /// The disk tier can't be as it was set up.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The operating system gave no thread.
    #[error("start the engine's thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Why a call was not taken. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// There is nothing to go on from.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Prompt and answer don't fit the context.
    #[error(
        "the prompt has {prompt} tokens; the model's context is {context} tokens, prompt and answer together"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// A token id that the vocabulary doesn't have.
    #[error("token id {id} at position {position} is outside the vocabulary of {vocabulary}")]
    BadToken {
        /// The id.
        id: u32,
        /// Its place in the prompt.
        position: usize,
        /// Tokens in the vocabulary.
        vocabulary: usize,
    },
    /// There is no adapter of that name.
    #[error("there is no adapter {name:?}")]
    UnknownAdapter {
        /// The name.
        name: String,
    },
    /// A pin is of a prompt alone.
    #[error("a call that pins its prompt has no answer: its limit of tokens must be 0")]
    PinWithAnswer,
    /// A sampling setting is out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// No answer, or too many.
    #[error("a call has from 1 to {most} answers, and {asked} were asked for")]
    Choices {
        /// What was asked for.
        asked: usize,
        /// The most there can be.
        most: usize,
    },
    /// Too many calls wait already.
    #[error("{waiting} calls wait already, which is the limit")]
    QueueFull {
        /// Calls that wait.
        waiting: usize,
    },
    /// Memory forgot it, the disk did not.
    #[error("what is kept on disk can't be erased: {0}")]
    NotErased(String),
    /// The engine is stopping.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

/// Why there is no picture of the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// A step takes longer than the caller would wait.
    #[error("the engine is busy with a long step")]
    Busy,
    /// It has stopped.
    #[error("the engine is shutting down")]
    ShuttingDown,
}
