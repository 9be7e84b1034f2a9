//! Exact and semantic response caches.
//!
//! Map: [`exact`] the same request again; [`semantic`] another question that means the same.

pub mod exact;
pub mod semantic;
