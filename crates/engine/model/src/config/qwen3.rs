//! The `qwen3` architecture (Qwen3, arXiv 2505.09388), the dense ones: Llama's shape with norms over each head's queries and keys,
//! and heads whose size is a setting of its own.

use super::metadata::Metadata;
use super::{Architecture, ModelConfig};
use crate::LoadError;

/// llama.cpp's default; every Qwen3 file that we know of writes its own (1,000,000).
const DEFAULT_ROPE_BASE: f32 = 10_000.0;

pub(super) fn config(metadata: &Metadata<'_>) -> Result<ModelConfig, LoadError> {
    Ok(ModelConfig {
        qk_norm: true,
        ..super::plain(metadata, Architecture::Qwen3, DEFAULT_ROPE_BASE)?
    })
}
