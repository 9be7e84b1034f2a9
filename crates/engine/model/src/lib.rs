//! One configurable decoder over a paged KV cache.
//!
//! A [`Model`] is loaded from a GGUF file: its [`ModelConfig`] is read from the metadata (what the file leaves implicit is filled
//! in there), its tensors are checked against it and packed for `tapri-kernels`. Nothing is guessed: an architecture, a tensor
//! or a setting that the decoder would not compute exactly is an error that names it.
//!
//! [`Model::forward`] computes tokens of several sequences at once. K and V go to and come from blocks of a
//! [`KvStore`](tapri_kernels::KvStore), whose shape [`Model::kv_plan`] gives; which blocks those are is the caller's business.
//!
//! Invariants:
//! - A token's logits are the same bits alone or in a batch, in one chunk or many, over blocks that were just written or found,
//!   wherever they lie, on any number of threads. (They differ between instruction-set paths.)
//! - A sequence may bring an [`Adapter`]. It changes no other's bits, and without one they are what they were before adapters.
//! - No architecture's name is asked for outside [`ModelConfig::from_gguf`].
//!
//! Map: `config` what a model is made of; `weights` its tensors; `adapter` what is added to them; `plan` which layers share KV blocks; `batch` what a pass is asked
//! for; `scratch` the memory it works in; `forward` the pass; `profile` (a feature) where its time goes; `tiny` (a feature) random models for tests.
//!
//! ```no_run
//! use tapri_gguf::{Gguf, TokenId};
//! use tapri_kernels::{Compute, Isa, KvStore};
//! use tapri_model::{LogitsWanted, Model, Scratch, SequenceBatch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let compute = Compute::new(Isa::from_env()?, 2);
//! let model = Model::load(&Gguf::open("model.gguf")?, &compute)?;
//! let plan = model.kv_plan(16);
//! let mut store = KvStore::new(plan.layout, 1 + plan.groups.len())?;
//!
//! // One block for each group is room for 16 tokens. Block 0 is never used.
//! let tables: Vec<[u32; 1]> = (1..=plan.groups.len() as u32).map(|id| [id]).collect();
//! let blocks: Vec<&[u32]> = tables.iter().map(|table| &table[..]).collect();
//! let tokens = [TokenId(1), TokenId(17)];
//! let batch = [SequenceBatch { tokens: &tokens, start: 0, blocks: &blocks, logits: LogitsWanted::Last, adapter: None }];
//! let mut logits = Vec::new();
//! model.forward(&compute, &mut Scratch::new(), &mut store, &batch, &mut logits)?;
//! assert_eq!(logits.len(), model.config().vocab_size);
//! # Ok(())
//! # }
//! ```

mod adapter;
mod batch;
mod config;
mod error;
mod forward;
mod model;
mod plan;
mod profile;
mod scratch;
#[cfg(feature = "tiny")]
pub mod tiny;
mod weights;

pub use adapter::{Adapter, AdapterError};
pub use batch::{ForwardError, LogitsWanted, SequenceBatch};
pub use config::{
    Architecture, AttentionBias, Gate, LayerConfig, ModelConfig, RopeConfig, RopePairs,
};
pub use error::LoadError;
pub use model::Model;
pub use plan::{GroupPlan, KvPlan};
pub use profile::{Profile, Stage};
pub use scratch::Scratch;
