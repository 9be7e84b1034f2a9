//! The embedded engine: continuous batching, chunked prefill and sampling over the paged KV cache.
//!
//! One thread owns the model's scratch memory, the KV pages and the logical prefix cache ([`tapri_kv`]);
//! it shares its arithmetic with a pool of workers. Callers hand in a [`GenerateRequest`] and read
//! [`GenerateEvent`]s from the [`CallHandle`]; dropping the handle cancels the call at the next step.
//!
//! Invariants:
//! - **A hit changes nothing.** The logits of a token are the same bits whether its prefix was computed
//!   now, shared or joined; alone or in a batch; in one chunk or many; with any number of threads.
//! - A call's blocks are returned when it ends, however it ends.
//! - First come, first served: calls start in the order in which they came, one that was preempted starts again before
//!   all that came after it, and the newest is preempted first. Two may go past: a call whose prefix another computes
//!   waits for that alone, and so does one whose scope has all of its share.
//! - A call that was taken ends with `Done` or `Failed`, also when the engine's thread ends meanwhile.
//! - Nobody waits for a slow reader: a call's event channel has room for everything it can ever send.
//!
//! Map: [`adapters`] LoRA adapters, loaded at the start; [`config`] what can be set; [`request`] what a caller asks; [`event`] what it gets back; [`constraint`] answers
//! that keep to a grammar;
//! [`handle`] the engine as others see it, and its start; [`holdings`] which call holds what; `scheduler` the loop (with `scheduler/admit`,
//! `scheduler/batch`, `scheduler/fork`, `scheduler/paging`, `scheduler/pin`, `scheduler/masks` and `scheduler/emit`); `sequence` one call; [`sampling`] the choice of a token; `stop`
//! stop strings; [`stats`] counters; [`disk`] the blocks that are kept on disk.

pub mod adapters;
pub mod config;
pub mod constraint;
pub mod disk;
pub mod event;
pub mod handle;
pub mod holdings;
pub mod request;
pub mod sampling;
mod scheduler;
mod sequence;
pub mod stats;
mod stop;

pub use adapters::{AdapterFile, AdapterInfo, AdapterStartError};
pub use config::EngineConfig;
pub use constraint::{Constraint, ConstraintError, Grammar, JsonShape};
pub use disk::{DiskConfig, DiskError, DiskStats, clear_folder};
pub use event::{
    Admitted, FinishReason, GenerateError, GenerateEvent, Outcome, Pin, PromptLogprobs, Timings,
    TokenEvent, TokenLogprob, TokenLogprobs, Usage,
};
pub use handle::{
    CallHandle, Engine, MAX_CHOICES, ModelInfo, PictureError, Pins, PrefixPicture, StartError,
    SubmitError,
};
pub use holdings::{CallHolding, CallState, EngineHoldings};
pub use request::{CacheUse, GenerateRequest, Sampling, Scope, StopRules};
pub use stats::EngineStats;
pub use tapri_gguf::TokenId;
pub use tapri_kernels::{Isa, KvType};
pub use tapri_kv::{CallId, Picture, PrefixHash, ResetReport, Root, Run, Stop, StopReason};
