//! The `llama` architecture: Llama, SmolLM2, and Mistral where it has no window.

use super::metadata::Metadata;
use super::{Architecture, Gate, LayerConfig, ModelConfig, RopeConfig, RopePairs, Sizes};
use crate::LoadError;

/// The base when the file does not say one, as in Llama 1 and 2.
const DEFAULT_ROPE_BASE: f32 = 10_000.0;

pub(super) fn config(metadata: &Metadata<'_>) -> Result<ModelConfig, LoadError> {
    metadata.refuse_positive("expert_count", "a mixture of experts")?;
    metadata.refuse_positive("attention.sliding_window", "a sliding window in every layer")?;
    let sizes = Sizes::read(metadata)?;
    let rope = RopeConfig {
        base: super::rope_base(metadata, "rope.freq_base", DEFAULT_ROPE_BASE)?,
        scale: super::rope_scale(metadata)?,
    };
    Ok(ModelConfig {
        architecture: Architecture::Llama,
        name: metadata.model_name(),
        vocab_size: sizes.vocab_size,
        context_length: sizes.context_length,
        width: sizes.width,
        heads: sizes.heads,
        kv_heads: sizes.kv_heads,
        head_dim: sizes.head_dim,
        ffn_width: sizes.ffn_width,
        norm_eps: sizes.norm_eps,
        embedding_scale: 1.0,
        attention_scale: 1.0 / (sizes.head_dim as f32).sqrt(),
        qk_norm: false,
        post_norms: false,
        gate: Gate::Silu,
        rope_dims: super::rope_dims(metadata, sizes.head_dim)?,
        rope_pairs: RopePairs::Interleaved,
        layers: vec![LayerConfig { window: None, rope }; sizes.layers],
    })
}
