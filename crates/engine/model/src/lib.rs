//! One configurable decoder over a paged KV cache.
mod config;
mod error;
pub use config::{Architecture, Gate, LayerConfig, ModelConfig, RopeConfig, RopePairs};
pub use error::LoadError;
