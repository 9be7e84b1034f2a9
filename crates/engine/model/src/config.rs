//! What a model is made of, read from GGUF metadata.
//!
//! One [`ModelConfig`] describes every architecture: the forward pass asks the configuration, never the architecture's name.
//! What a GGUF file leaves implicit (Gemma's local RoPE base, its window pattern, its embedding scale) is filled in here, per
//! architecture, and nowhere else.

mod gemma3;
mod llama;
pub(crate) mod metadata;
mod qwen2;
mod qwen3;
mod rope;

use tapri_gguf::Gguf;

use crate::LoadError;
use metadata::Metadata;

/// An architecture that the decoder knows, by its GGUF name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// `llama`: Llama up to 3.3, SmolLM2, Mistral 7B and Nemo, and what else is exported under that name.
    Llama,
    /// `gemma3`: the text part of Gemma 3.
    Gemma3,
    /// `qwen2`: Qwen2 and Qwen2.5.
    Qwen2,
    /// `qwen3`: Qwen3, the dense ones.
    Qwen3,
}

impl Architecture {
    /// The supported names, for messages.
    pub const SUPPORTED: &'static str = "gemma3, llama, qwen2, qwen3";

    /// The name as GGUF writes it.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Gemma3 => "gemma3",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
        }
    }
}

/// The function on the gate of the feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `x * sigmoid(x)` (Llama and its kin).
    Silu,
    /// GELU in its tanh form (Gemma).
    GeluTanh,
}

/// Which elements of a head RoPE turns together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairs {
    /// Elements `2i` and `2i + 1`: what GGUF's `llama` files hold, whose Q and K rows are permuted for it.
    Interleaved,
    /// Elements `i` and `i + dims / 2`, as in GPT-NeoX.
    Halves,
}

/// Which of attention's projections add a bias (`blk.N.attn_*.bias`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionBias {
    /// None. A file that has one is refused.
    None,
    /// Those of query, key, value and output that the file has.
    AsInFile,
    /// Query, key and value, which the file must have.
    QueryKeyValue,
}

/// One layer's rotary position embedding: pair `i` of a head turns by
/// `position * scale * base^(-2i / dims)` radians, divided by the pair's factor where the file has factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeConfig {
    /// The base of the frequencies.
    pub base: f32,
    /// Multiplies positions: 1 divided by the factor of linear scaling, else 1.
    pub scale: f32,
}

/// What can differ between the layers of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerConfig {
    /// How many tokens back a token sees, itself included; none sees all of them.
    pub window: Option<usize>,
    /// The layer's RoPE.
    pub rope: RopeConfig,
}

/// What a model is made of. All sizes are checked when it is made: none is zero, heads divide evenly, nothing can overflow.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The architecture the file names.
    pub architecture: Architecture,
    /// `general.name`, for people.
    pub name: Option<String>,
    /// Tokens in the vocabulary; the width of a row of logits.
    pub vocab_size: usize,
    /// The most tokens a sequence may have.
    pub context_length: usize,
    /// Elements of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
    /// Elements between the two halves of the feed-forward network.
    pub ffn_width: usize,
    /// Added to the mean square in every norm.
    pub norm_eps: f32,
    /// Multiplies the embedding of a token.
    pub embedding_scale: f32,
    /// Multiplies the product of query and key.
    pub attention_scale: f32,
    /// Which of attention's projections add a bias.
    pub attention_bias: AttentionBias,
    /// Whether queries and keys are normalised per head before RoPE.
    pub qk_norm: bool,
    /// Whether the outputs of attention and feed-forward are normalised before they are added to the residual stream.
    pub post_norms: bool,
    /// The function on the gate.
    pub gate: Gate,
    /// Elements of a head that RoPE turns, from the first; even.
    pub rope_dims: usize,
    /// Which of them it turns together.
    pub rope_pairs: RopePairs,
    /// Whether the file may divide the frequencies by factors of its own (`rope_freqs.weight`, Llama 3's scaling).
    pub rope_factors: bool,
    /// The layers, first to last.
    pub layers: Vec<LayerConfig>,
}

/// Bounds on sizes: far above any real model's, far below where products of them overflow.
mod limit {
    pub(super) const LAYERS: usize = 1024;
    pub(super) const WIDTH: usize = 1 << 17;
    pub(super) const FFN_WIDTH: usize = 1 << 20;
    pub(super) const HEADS: usize = 1024;
    pub(super) const HEAD_DIM: usize = 512;
    pub(super) const CONTEXT: usize = 1 << 24;
    pub(super) const VOCABULARY: usize = 1 << 22;
}

/// The attention kernels read V in runs of this many dimensions.
const HEAD_DIM_STEP: usize = 32;

impl ModelConfig {
    /// Reads the configuration from a file's metadata.
    ///
    /// # Errors
    /// When the architecture is unknown, a key is missing, or a value makes no sense: the error names the key.
    pub fn from_gguf(gguf: &Gguf) -> Result<ModelConfig, LoadError> {
        match gguf.metadata().str("general.architecture")? {
            "llama" => llama::config(&Metadata::new(gguf, "llama")),
            "gemma3" => gemma3::config(&Metadata::new(gguf, "gemma3")),
            "qwen2" => qwen2::config(&Metadata::new(gguf, "qwen2")),
            "qwen3" => qwen3::config(&Metadata::new(gguf, "qwen3")),
            other => Err(LoadError::Architecture { name: other.to_owned() }),
        }
    }

    /// Elements of one token's queries: `heads * head_dim`.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of one token's keys in one layer (and of its values): `kv_heads * head_dim`.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Every part of the configuration that the numbers depend on, in a fixed binary form, for the fingerprint.
    pub(crate) fn numeric_identity(&self) -> Vec<u8> {
        // Taking it apart makes a new field fail to compile until someone decides whether it belongs here.
        let ModelConfig {
            architecture,
            name: _,
            vocab_size,
            context_length: _,
            width,
            heads,
            kv_heads,
            head_dim,
            ffn_width,
            norm_eps,
            embedding_scale,
            attention_scale,
            attention_bias,
            qk_norm,
            post_norms,
            gate,
            rope_dims,
            rope_pairs,
            rope_factors,
            layers,
        } = self;
        let mut out = Vec::with_capacity(128 + 16 * layers.len());
        let text = architecture.name().as_bytes();
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text);
        for size in [vocab_size, width, heads, kv_heads, head_dim, ffn_width, rope_dims] {
            out.extend_from_slice(&(*size as u64).to_le_bytes());
        }
        for number in [norm_eps, embedding_scale, attention_scale] {
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        out.extend_from_slice(&[
            u8::from(*qk_norm),
            u8::from(*post_norms),
            u8::from(*rope_factors),
        ]);
        out.push(match attention_bias {
            AttentionBias::None => 0,
            AttentionBias::AsInFile => 1,
            AttentionBias::QueryKeyValue => 2,
        });
        out.push(match gate {
            Gate::Silu => 0,
            Gate::GeluTanh => 1,
        });
        out.push(match rope_pairs {
            RopePairs::Interleaved => 0,
            RopePairs::Halves => 1,
        });
        out.extend_from_slice(&(layers.len() as u64).to_le_bytes());
        for LayerConfig { window, rope: RopeConfig { base, scale } } in layers {
            // A window is at least 1, so 0 can stand for none.
            out.extend_from_slice(&(window.unwrap_or(0) as u64).to_le_bytes());
            out.extend_from_slice(&base.to_bits().to_le_bytes());
            out.extend_from_slice(&scale.to_bits().to_le_bytes());
        }
        out
    }
}

/// The sizes that every architecture writes under the same keys.
struct Sizes {
    vocab_size: usize,
    context_length: usize,
    width: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    ffn_width: usize,
    norm_eps: f32,
}

impl Sizes {
    fn read(metadata: &Metadata<'_>) -> Result<Sizes, LoadError> {
        let width = metadata.size("embedding_length", limit::WIDTH)?;
        let layers = metadata.size("block_count", limit::LAYERS)?;
        let heads = metadata.size("attention.head_count", limit::HEADS)?;
        let kv_heads = metadata.size_or("attention.head_count_kv", limit::HEADS, heads)?;
        if heads % kv_heads != 0 {
            return Err(metadata.bad(
                "attention.head_count_kv",
                format!("{heads} query heads do not divide among {kv_heads} key-value heads"),
            ));
        }
        let head_dim = match metadata.optional_size("attention.key_length", limit::HEAD_DIM)? {
            Some(dim) => dim,
            None if width % heads == 0 => width / heads,
            None => {
                return Err(metadata.bad(
                    "attention.head_count",
                    format!("an embedding of {width} does not divide among {heads} heads, and no attention.key_length is given"),
                ));
            }
        };
        if head_dim % HEAD_DIM_STEP != 0 || head_dim > limit::HEAD_DIM {
            return Err(metadata.bad(
                "attention.key_length",
                format!("a head of {head_dim} elements; supported are multiples of {HEAD_DIM_STEP} up to {}", limit::HEAD_DIM),
            ));
        }
        let value_dim = metadata.size_or("attention.value_length", limit::HEAD_DIM, head_dim)?;
        if value_dim != head_dim {
            return Err(metadata.bad(
                "attention.value_length",
                format!("values of {value_dim} elements beside keys of {head_dim}; only equal ones are supported"),
            ));
        }
        let eps_key = "attention.layer_norm_rms_epsilon";
        let norm_eps = metadata.float(eps_key)?;
        if !(norm_eps > 0.0 && norm_eps < 1.0) {
            return Err(metadata.bad(eps_key, format!("{norm_eps} is not between 0 and 1")));
        }
        Ok(Sizes {
            vocab_size: metadata.vocabulary(limit::VOCABULARY)?,
            context_length: metadata.size("context_length", limit::CONTEXT)?,
            width,
            layers,
            heads,
            kv_heads,
            head_dim,
            ffn_width: metadata.size("feed_forward_length", limit::FFN_WIDTH)?,
            norm_eps,
        })
    }
}

/// Refuses what would change the results and is not computed, under the keys that llama.cpp reads for some architecture.
fn refuse_unsupported(metadata: &Metadata<'_>) -> Result<(), LoadError> {
    for (key, feature) in [
        ("expert_count", "a mixture of experts"),
        ("attn_logit_softcapping", "a soft cap on scores"),
        ("final_logit_softcapping", "a soft cap on scores"),
        ("attention.clamp_kqv", "a clamp on queries, keys and values"),
        ("attention.max_alibi_bias", "ALiBi in place of RoPE"),
        ("attention.scale", "an attention scale of its own"),
        ("attention.temperature_scale", "an attention temperature"),
        ("attention.temperature_length", "an attention temperature"),
        ("embedding_scale", "scaled embeddings"),
        ("residual_scale", "scaled residuals"),
        ("logit_scale", "scaled logits"),
    ] {
        metadata.refuse_positive(key, feature)?;
    }
    metadata.refuse_bool("attention.causal", false, "attention to later tokens")?;
    metadata.refuse_bool("use_parallel_residual", true, "a parallel residual stream")
}

/// The shape that most decoders share: SwiGLU, no norms but those before attention and feed-forward, and every layer sees
/// everything. An architecture's file says what it has beyond that.
fn plain(
    metadata: &Metadata<'_>,
    architecture: Architecture,
    default_rope_base: f32,
) -> Result<ModelConfig, LoadError> {
    refuse_unsupported(metadata)?;
    metadata.refuse_positive("attention.sliding_window", "a sliding window in every layer")?;
    let sizes = Sizes::read(metadata)?;
    let rope = RopeConfig {
        base: rope::base(metadata, "rope.freq_base", default_rope_base)?,
        scale: rope::scale(metadata)?,
    };
    let layers = vec![LayerConfig { window: None, rope }; sizes.layers];
    of_sizes(metadata, architecture, sizes, layers)
}

/// The same shape of these sizes and layers.
fn of_sizes(
    metadata: &Metadata<'_>,
    architecture: Architecture,
    sizes: Sizes,
    layers: Vec<LayerConfig>,
) -> Result<ModelConfig, LoadError> {
    Ok(ModelConfig {
        architecture,
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
        attention_bias: AttentionBias::None,
        qk_norm: false,
        post_norms: false,
        gate: Gate::Silu,
        rope_dims: rope::dims(metadata, sizes.head_dim)?,
        rope_pairs: RopePairs::Halves,
        rope_factors: false,
        layers,
    })
}
