//! Exact and semantic response caches.
//!
//! Map: [`exact`] the same request again; [`semantic`] another question that means the same; `private`
//! the mode of their files; [`tasks`] what is under way apart from any client.

mod broken;
pub mod exact;
mod private;
pub mod semantic;
pub mod tasks;
