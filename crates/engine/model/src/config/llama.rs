//! The `llama` architecture: Llama up to 3.3, SmolLM2, and Mistral (7B, Nemo), whose files llama.cpp's converter writes under that
//! name. Mistral 7B v0.1 was trained with a window of 4,096 tokens, but its files do not carry it and llama.cpp computes it without.

use super::metadata::Metadata;
use super::{Architecture, AttentionBias, ModelConfig, RopePairs};
use crate::LoadError;

/// The base when the file does not say one, as in Llama 1 and 2.
const DEFAULT_ROPE_BASE: f32 = 10_000.0;

pub(super) fn config(metadata: &Metadata<'_>) -> Result<ModelConfig, LoadError> {
    Ok(ModelConfig {
        attention_bias: AttentionBias::AsInFile,
        rope_pairs: RopePairs::Interleaved,
        rope_factors: true,
        ..super::plain(metadata, Architecture::Llama, DEFAULT_ROPE_BASE)?
    })
}
