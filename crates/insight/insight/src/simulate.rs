//! How much of a workload a prefix cache of any size would have reused.
//!
//! A block trace (who sent which blocks when, without the text) is replayed against caches that never existed:
//! - [`Curve`]: least recently used at every capacity at once, by stack distances;
//! - [`replay`]: the engine's own cache, `tapri-kv`, at one capacity, with or without expiry;
//! - [`fifo`] and [`belady`]: first in, first out, and what no order of eviction could beat.
//!
//! Calls run one after another in the order of their arrival, so nothing is pinned by a neighbour, and answers are not
//! part of a trace: what they leave in a real cache comes back only where a later prompt of the trace repeats it.
//!
//! Map: `trace` the calls, compact; `read` the three formats; `stack` the one pass; `replay` through the engine's cache;
//! `order` the two other orders.

mod order;
mod read;
mod replay;
mod stack;
mod trace;

pub use order::{belady, fifo};
pub use read::{Format, ReadError, Reader};
pub use replay::{ReplayError, Replayed, Settings, replay};
pub use stack::Curve;
pub use trace::{Call, Counting, Hits, Scope, Shape, Trace, TraceError};
