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
//! - Nobody waits for a slow reader: a call's event channel has room for everything it can ever send.
//!
//! Map: [`config`] what can be set; [`request`] what a caller asks; [`event`] what it gets back;
//! [`engine`] the handle and start-up; `scheduler` the loop; `sequence` one running call;
//! [`sampling`] the choice of a token; `stop` stop strings; [`stats`] counters.

pub mod config;
pub mod event;
pub mod request;
pub mod stats;

pub use config::{EngineConfig, PrefixHash};
pub use event::{Admitted, FinishReason, GenerateError, GenerateEvent, Outcome, Timings, TokenEvent, TokenLogprob, TokenLogprobs, Usage};
pub use request::{CacheUse, GenerateRequest, Sampling, Scope, StopRules};
pub use stats::EngineStats;
pub use tapri_gguf::TokenId;
