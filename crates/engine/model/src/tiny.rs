//! Tiny random models, written as GGUF files, for tests (feature `tiny`).
//!
//! They have every part of the architecture that they stand for, their weights are random but always the same for the same seed,
//! and their tokenizer takes any text: 256 byte tokens, the small letters, a few pairs, and ChatML's two markers. What they
//! answer is noise, but noise that depends on every earlier token.
//!
//! ```
//! use tapri_kernels::{Compute, Isa};
//! use tapri_model::{Model, tiny::{TinyModel, TinyWeights}};
//!
//! let gguf = TinyModel::gemma3().weights(TinyWeights::Mixed).gguf();
//! let model = Model::load(&gguf, &Compute::new(Isa::best(), 1)).unwrap();
//! assert_eq!(model.config().vocab_size, 320);
//! ```

mod adapter;
mod random;
mod vocabulary;

use tapri_gguf::{Gguf, TensorType, Writer};

use crate::Architecture;
pub use adapter::TinyAdapter;
use random::Random;

/// How a tiny model's matrices are stored. (Norms are always F32.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TinyWeights {
    /// All F32: no activation is rounded either, so that a change anywhere shows everywhere it should.
    F32,
    /// All Q8_0.
    Q8_0,
    /// All Q4_1.
    Q4_1,
    /// All Q5_0.
    Q5_0,
    /// As in the Q4_K_M file of Gemma 3 270M: Q5_0, Q8_0, Q4_K and Q6_K.
    Mixed,
}

/// The recipe of a tiny model. The fields may be changed before it is made; K-quants need the widths that matrices read from to be
/// multiples of 256, the others multiples of 32.
#[derive(Debug, Clone, PartialEq)]
pub struct TinyModel {
    /// Whose parts it has.
    pub architecture: Architecture,
    /// How its matrices are stored.
    pub weights: TinyWeights,
    /// Layers.
    pub layers: usize,
    /// Elements of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements between the halves of the feed-forward network.
    pub ffn_width: usize,
    /// The window of Gemma's local layers.
    pub window: usize,
    /// Whether it has Llama 3's factors of RoPE's frequencies.
    pub rope_factors: bool,
    /// The most tokens of a sequence.
    pub context_length: usize,
    /// Picks the weights.
    pub seed: u64,
}

impl TinyModel {
    /// Llama-like: 4 layers that see everything, 8 query heads on 2 key-value heads, an output head of its own.
    pub fn llama() -> TinyModel {
        TinyModel {
            architecture: Architecture::Llama,
            weights: TinyWeights::F32,
            layers: 4,
            width: 64,
            heads: 8,
            kv_heads: 2,
            head_dim: 32,
            ffn_width: 256,
            window: 0,
            rope_factors: false,
            context_length: 8192,
            seed: 1,
        }
    }

    /// The same with Llama 3's factors of RoPE's frequencies: all three kinds, those that stay, those between, and those of 8.
    pub fn llama3() -> TinyModel {
        TinyModel { rope_factors: true, ..TinyModel::llama() }
    }

    /// Qwen2-like: 3 layers with biases on queries, keys and values, 4 query heads on 2 key-value heads, output tied to the
    /// embedding.
    pub fn qwen2() -> TinyModel {
        TinyModel { architecture: Architecture::Qwen2, layers: 3, heads: 4, ..TinyModel::llama() }
    }

    /// Qwen3-like: 3 layers with QK norms, heads that together are wider than the residual stream, output tied to the embedding.
    pub fn qwen3() -> TinyModel {
        TinyModel {
            architecture: Architecture::Qwen3,
            layers: 3,
            head_dim: 64,
            heads: 4,
            ..TinyModel::llama()
        }
    }

    /// Gemma3-like: 12 layers, every sixth of which sees everything and the others 32 tokens; QK norms, post-norms, one
    /// key-value head, output tied to the embedding.
    pub fn gemma3() -> TinyModel {
        TinyModel {
            architecture: Architecture::Gemma3,
            weights: TinyWeights::F32,
            layers: 12,
            width: 64,
            heads: 4,
            kv_heads: 1,
            head_dim: 64,
            ffn_width: 256,
            window: 32,
            rope_factors: false,
            context_length: 8192,
            seed: 1,
        }
    }

    /// The same recipe with its matrices stored otherwise.
    #[must_use]
    pub fn weights(self, weights: TinyWeights) -> TinyModel {
        TinyModel { weights, ..self }
    }

    /// The model as a file's bytes.
    ///
    /// # Panics
    /// If a size does not suit the way that the weights are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.writer().to_bytes()
    }

    /// The model as an open file.
    ///
    /// # Panics
    /// If a size does not suit the way that the weights are stored.
    #[expect(clippy::expect_used, reason = "the writer's own output is well-formed")]
    pub fn gguf(&self) -> Gguf {
        Gguf::from_bytes(self.to_bytes()).expect("a file that was just written can be read")
    }

    /// The file before it is written: a test may add to it.
    ///
    /// # Panics
    /// If a size does not suit the way that the weights are stored.
    pub fn writer(&self) -> Writer {
        self.written(None)
    }

    /// The model with an adapter's changes added to its matrices, which must be F32.
    ///
    /// # Panics
    /// If they are not.
    #[expect(clippy::expect_used, reason = "the writer's own output is well-formed")]
    pub fn merged(&self, adapter: &TinyAdapter) -> Gguf {
        assert!(self.weights == TinyWeights::F32, "only F32 matrices can be changed");
        let bytes = self.written(Some(adapter)).to_bytes();
        Gguf::from_bytes(bytes).expect("a file that was just written can be read")
    }

    fn written(&self, adapter: Option<&TinyAdapter>) -> Writer {
        let mut writer = Writer::new();
        self.metadata(&mut writer);
        vocabulary::write(&mut writer);
        let random = Random::new(self.seed);
        let mut tensors = Tensors { writer, random, weights: self.weights, adapter };
        self.tensors(&mut tensors);
        tensors.writer
    }

    fn metadata(&self, writer: &mut Writer) {
        let name = self.architecture.name();
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        writer.set("general.architecture", name);
        writer.set("general.name", format!("tiny {name} {}", self.seed).as_str());
        for (key, value) in [
            ("block_count", self.layers),
            ("context_length", self.context_length),
            ("embedding_length", self.width),
            ("feed_forward_length", self.ffn_width),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
        ] {
            writer.set(&format!("{name}.{key}"), size(value));
        }
        writer.set(&format!("{name}.attention.layer_norm_rms_epsilon"), 1e-6_f32);
        if self.architecture == Architecture::Gemma3 {
            writer.set("gemma3.attention.sliding_window", size(self.window));
        }
    }

    fn tensors(&self, tensors: &mut Tensors<'_>) {
        let gemma = self.architecture == Architecture::Gemma3;
        let (width, vocab) = (self.width, vocabulary::SIZE);
        let (queries, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let tied = self.architecture != Architecture::Llama;
        // Gemma multiplies embeddings by the root of the width; all but Llama read logits off the same matrix.
        let fan_in = if tied { width } else { 1 };
        tensors.matrix("token_embd.weight", vocab, width, fan_in);
        tensors.norm("output_norm.weight", width);
        if !tied {
            tensors.matrix("output.weight", vocab, width, width);
        }
        if self.rope_factors {
            // A quarter of the pairs as they are, a quarter between, half at 8.
            let pairs = self.head_dim / 2;
            let factor =
                |pair| (1.0 + 7.0 * (pair as f32 / pairs as f32 - 0.25) * 4.0).clamp(1.0, 8.0);
            let data: Vec<u8> = (0..pairs).flat_map(|pair| factor(pair).to_le_bytes()).collect();
            tensors.add("rope_freqs.weight", &[pairs], TensorType::F32, &data);
        }
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            tensors.norm(&name("attn_norm"), width);
            tensors.norm(&name("ffn_norm"), width);
            if gemma || self.architecture == Architecture::Qwen3 {
                tensors.norm(&name("attn_q_norm"), self.head_dim);
                tensors.norm(&name("attn_k_norm"), self.head_dim);
            }
            if self.architecture == Architecture::Qwen2 {
                for (part, len) in [("attn_q", queries), ("attn_k", kv), ("attn_v", kv)] {
                    tensors.bias(&format!("blk.{layer}.{part}.bias"), len);
                }
            }
            if gemma {
                tensors.norm(&name("post_attention_norm"), width);
                tensors.norm(&name("post_ffw_norm"), width);
            }
            tensors.matrix(&name("attn_q"), queries, width, width);
            tensors.matrix(&name("attn_k"), kv, width, width);
            tensors.matrix(&name("attn_v"), kv, width, width);
            tensors.matrix(&name("attn_output"), width, queries, queries);
            tensors.matrix(&name("ffn_gate"), self.ffn_width, width, width);
            tensors.matrix(&name("ffn_up"), self.ffn_width, width, width);
            tensors.matrix(&name("ffn_down"), width, self.ffn_width, self.ffn_width);
        }
    }
}

/// A file in the making.
struct Tensors<'a> {
    writer: Writer,
    random: Random,
    weights: TinyWeights,
    /// What is added to the matrices.
    adapter: Option<&'a TinyAdapter>,
}

impl Tensors<'_> {
    /// A norm's weights, around 1.
    fn norm(&mut self, name: &str, len: usize) {
        let data: Vec<u8> =
            (0..len).flat_map(|_| (1.0 + 0.1 * self.random.normal()).to_le_bytes()).collect();
        self.add(name, &[len], TensorType::F32, &data);
    }

    /// A bias, of the size of what it is added to.
    fn bias(&mut self, name: &str, len: usize) {
        let data: Vec<u8> = (0..len).flat_map(|_| self.random.normal().to_le_bytes()).collect();
        self.add(name, &[len], TensorType::F32, &data);
    }

    /// A random matrix whose elements' spread is the inverse root of `fan_in`.
    fn matrix(&mut self, name: &str, rows: usize, columns: usize, fan_in: usize) {
        let kind = match self.weights {
            TinyWeights::F32 => TensorType::F32,
            TinyWeights::Q8_0 => TensorType::Q8_0,
            TinyWeights::Q4_1 => TensorType::Q4_1,
            TinyWeights::Q5_0 => TensorType::Q5_0,
            TinyWeights::Mixed => match name.rsplit('.').nth(1) {
                Some("token_embd" | "output" | "attn_v") => TensorType::Q8_0,
                Some("attn_output") => TensorType::Q4K,
                Some("ffn_down") => TensorType::Q6K,
                _ => TensorType::Q5_0,
            },
        };
        let spread = 1.0 / (fan_in as f32).sqrt();
        let blocks = rows * columns / kind.block_len();
        let mut data = Vec::with_capacity(blocks * kind.block_bytes());
        for _ in 0..blocks {
            random::block(&mut self.random, kind, spread, &mut data);
        }
        if let Some(change) = self.adapter.and_then(|adapter| adapter.change(name)) {
            for (bytes, change) in data.as_chunks_mut::<4>().0.iter_mut().zip(change) {
                *bytes = ((f64::from(f32::from_le_bytes(*bytes)) + change) as f32).to_le_bytes();
            }
        }
        self.add(name, &[columns, rows], kind, &data);
    }

    #[expect(clippy::expect_used, reason = "documented on the functions that lead here")]
    fn add(&mut self, name: &str, dims: &[usize], kind: TensorType, data: &[u8]) {
        self.writer.tensor(name, dims, kind, data).expect("sizes suit the kind of the weights");
    }
}
