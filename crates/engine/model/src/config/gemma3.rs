//! The `gemma3` architecture. Its files leave much implicit; the values here are those of the Gemma 3 report (arXiv 2503.19786)
//! and of llama.cpp's reading of such files.

use super::metadata::Metadata;
use super::{Architecture, Gate, LayerConfig, ModelConfig, RopeConfig, Sizes, limit, rope};
use crate::LoadError;

/// Base of the layers that see everything, when the file does not say one.
const GLOBAL_ROPE_BASE: f32 = 1_000_000.0;
/// Base of the windowed layers. No file that we know of writes it.
const LOCAL_ROPE_BASE: f32 = 10_000.0;
/// Five windowed layers, then one that sees everything.
const PATTERN: usize = 6;
/// The 27B model has this many layers and alone scales attention by `width / heads` (168) in place of the head's size (128).
const LAYERS_OF_27B: usize = 62;

pub(super) fn config(metadata: &Metadata<'_>) -> Result<ModelConfig, LoadError> {
    super::refuse_unsupported(metadata)?;
    let sizes = Sizes::read(metadata)?;
    let window = metadata.size("attention.sliding_window", limit::CONTEXT)?;
    let pattern = metadata.size_or("attention.sliding_window_pattern", limit::LAYERS, PATTERN)?;
    let global = RopeConfig {
        base: rope::base(metadata, "rope.freq_base", GLOBAL_ROPE_BASE)?,
        // Linear scaling, which the larger models have, concerns the global layers alone.
        scale: rope::scale(metadata)?,
    };
    let local = RopeConfig {
        base: rope::base(metadata, "rope.freq_base_swa", LOCAL_ROPE_BASE)?,
        scale: 1.0,
    };
    let layers = (1..=sizes.layers)
        .map(|number| {
            if number % pattern == 0 {
                LayerConfig { window: None, rope: global }
            } else {
                LayerConfig { window: Some(window), rope: local }
            }
        })
        .collect();
    let query_scale =
        if sizes.layers == LAYERS_OF_27B { sizes.width / sizes.heads } else { sizes.head_dim };
    Ok(ModelConfig {
        // Not rounded to bf16, as PyTorch does where the weights are bf16: llama.cpp, whose files these are, does not either.
        embedding_scale: (sizes.width as f32).sqrt(),
        attention_scale: 1.0 / (query_scale as f32).sqrt(),
        qk_norm: true,
        post_norms: true,
        gate: Gate::GeluTanh,
        ..super::of_sizes(metadata, Architecture::Gemma3, sizes, layers)?
    })
}
