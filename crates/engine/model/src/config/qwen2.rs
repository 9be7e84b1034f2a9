//! The `qwen2` architecture (Qwen2 and Qwen2.5, arXiv 2407.10671 and 2412.15115): Llama's shape with biases on queries, keys and
//! values. The long-context variants ask for YaRN, which is refused.

use super::metadata::Metadata;
use super::{Architecture, AttentionBias, ModelConfig};
use crate::LoadError;

/// llama.cpp's default; every Qwen2 file that we know of writes its own (1,000,000).
const DEFAULT_ROPE_BASE: f32 = 10_000.0;

pub(super) fn config(metadata: &Metadata<'_>) -> Result<ModelConfig, LoadError> {
    Ok(ModelConfig {
        attention_bias: AttentionBias::QueryKeyValue,
        ..super::plain(metadata, Architecture::Qwen2, DEFAULT_ROPE_BASE)?
    })
}
