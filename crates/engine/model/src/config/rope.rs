//! What `rope.*` says about positions.

use super::limit;
use super::metadata::Metadata;
use crate::LoadError;

/// Reads `rope.dimension_count`, by default the whole head.
pub(super) fn dims(metadata: &Metadata<'_>, head_dim: usize) -> Result<usize, LoadError> {
    let key = "rope.dimension_count";
    let dims = metadata.size_or(key, limit::HEAD_DIM, head_dim)?;
    if dims % 2 != 0 || dims > head_dim {
        return Err(metadata.bad(key, format!("{dims} is odd, or more than the head's {head_dim}")));
    }
    Ok(dims)
}

/// Reads a RoPE base under `key`, or takes `default`.
pub(super) fn base(metadata: &Metadata<'_>, key: &str, default: f32) -> Result<f32, LoadError> {
    let base = metadata.float_or(key, default)?;
    if !(base.is_finite() && base > 1.0) {
        return Err(metadata.bad(key, format!("{base} is no RoPE base")));
    }
    Ok(base)
}

/// Reads what `rope.scaling.*` asks for as a factor on positions. Linear scaling is the only kind that is one; YaRN and LongRoPE
/// change the frequencies (and the size of queries) and are refused. Llama 3's kind has no key: its files hold the factors.
pub(super) fn scale(metadata: &Metadata<'_>) -> Result<f32, LoadError> {
    let key = "rope.scaling.type";
    let attention = "rope.scaling.attn_factor";
    if metadata.float_or(attention, 1.0)? != 1.0 {
        return Err(metadata.unsupported(attention, "RoPE that scales queries and keys".to_owned()));
    }
    let kind = metadata.string(key)?;
    match kind {
        Some("none") => return Ok(1.0),
        // llama.cpp takes a factor without a type for linear scaling.
        None | Some("linear") => {}
        Some(other) => {
            return Err(metadata.unsupported(key, format!("RoPE scaling of the type {other:?}")));
        }
    }
    let factor_key = "rope.scaling.factor";
    // The name that the first GGUF files gave it.
    let old_key = "rope.scale_linear";
    let (key, factor) =
        match (metadata.optional_float(factor_key)?, metadata.optional_float(old_key)?) {
            (Some(factor), _) => (factor_key, factor),
            (None, Some(factor)) => (old_key, factor),
            (None, None) if kind.is_none() => return Ok(1.0),
            (None, None) => (factor_key, metadata.float(factor_key)?),
        };
    if !(factor.is_finite() && factor >= 1.0) {
        return Err(metadata.bad(key, format!("{factor} is no scaling factor")));
    }
    Ok(1.0 / factor)
}
