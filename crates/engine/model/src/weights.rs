//! A model's tensors, checked against its configuration and packed for the kernels.

use std::collections::HashSet;

use tapri_gguf::{Gguf, TensorInfo, TensorType};
use tapri_kernels::{Compute, Keep, Quant, Weights};

use crate::config::AttentionBias;
use crate::{LoadError, ModelConfig};

/// Everything a forward pass multiplies by.
pub(crate) struct ModelWeights {
    /// `[vocabulary, width]`; also the output head where the file has none of its own.
    pub(crate) embedding: Weights,
    pub(crate) output_norm: Vec<f32>,
    /// What RoPE's frequencies are divided by, one number a pair.
    pub(crate) rope_factors: Option<Vec<f32>>,
    /// `[vocabulary, width]`, absent where it is tied to the embedding.
    head: Option<Weights>,
    pub(crate) layers: Vec<LayerWeights>,
}

/// One layer's tensors; the norms and biases that an architecture lacks are absent.
pub(crate) struct LayerWeights {
    pub(crate) attention_norm: Vec<f32>,
    pub(crate) query: Weights,
    pub(crate) key: Weights,
    pub(crate) value: Weights,
    pub(crate) query_bias: Option<Vec<f32>>,
    pub(crate) key_bias: Option<Vec<f32>>,
    pub(crate) value_bias: Option<Vec<f32>>,
    /// Norms over the elements of a head, of queries and of keys.
    pub(crate) qk_norms: Option<(Vec<f32>, Vec<f32>)>,
    pub(crate) attention_output: Weights,
    pub(crate) attention_output_bias: Option<Vec<f32>>,
    pub(crate) attention_post_norm: Option<Vec<f32>>,
    pub(crate) ffn_norm: Vec<f32>,
    pub(crate) gate: Weights,
    pub(crate) up: Weights,
    pub(crate) down: Weights,
    pub(crate) ffn_post_norm: Option<Vec<f32>>,
}

impl ModelWeights {
    pub(crate) fn load(
        gguf: &Gguf,
        config: &ModelConfig,
        compute: &Compute,
    ) -> Result<ModelWeights, LoadError> {
        let mut loader = Loader { gguf, compute, used: HashSet::new() };
        let embedding =
            loader.matrix("token_embd.weight".to_owned(), config.vocab_size, config.width)?;
        let output_norm = loader.vector("output_norm.weight".to_owned(), config.width)?;
        let head = match gguf.find_tensor("output.weight")? {
            Some(_) => {
                Some(loader.matrix("output.weight".to_owned(), config.vocab_size, config.width)?)
            }
            None => None,
        };
        let rope_factors = loader.rope_factors(config)?;
        let layers = (0..config.layers.len())
            .map(|layer| LayerWeights::load(&mut loader, config, layer))
            .collect::<Result<Vec<_>, _>>()?;
        loader.refuse_unused(config)?;
        Ok(ModelWeights { embedding, output_norm, rope_factors, head, layers })
    }

    /// The output head, `[vocabulary, width]`.
    pub(crate) fn head(&self) -> &Weights {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Whether the head is a matrix of its own.
    pub(crate) fn has_own_head(&self) -> bool {
        self.head.is_some()
    }

    /// Every matrix.
    fn matrices(&self) -> impl Iterator<Item = &Weights> {
        let layers = self.layers.iter().flat_map(|l| {
            [&l.query, &l.key, &l.value, &l.attention_output, &l.gate, &l.up, &l.down]
        });
        layers.chain([&self.embedding]).chain(&self.head)
    }

    /// Bytes of all packed matrices.
    pub(crate) fn bytes(&self) -> usize {
        self.matrices().map(Weights::bytes).sum()
    }

    /// The forms in which the matrices take activations.
    pub(crate) fn needed_activations(&self) -> Keep {
        let floats = self.matrices().filter(|matrix| matrix.quant().is_float()).count();
        match (floats, self.matrices().count() - floats) {
            (_, 0) => Keep::Float,
            (0, _) => Keep::Int8,
            _ => Keep::Both,
        }
    }
}

impl LayerWeights {
    fn load(
        loader: &mut Loader<'_>,
        config: &ModelConfig,
        layer: usize,
    ) -> Result<LayerWeights, LoadError> {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let (width, ffn_width) = (config.width, config.ffn_width);
        let qk_norms = if config.qk_norm {
            let query = loader.vector(name("attn_q_norm"), config.head_dim)?;
            Some((query, loader.vector(name("attn_k_norm"), config.head_dim)?))
        } else {
            None
        };
        let (attention_post_norm, ffn_post_norm) = if config.post_norms {
            let attention = loader.vector(name("post_attention_norm"), width)?;
            (Some(attention), Some(loader.vector(name("post_ffw_norm"), width)?))
        } else {
            (None, None)
        };
        Ok(LayerWeights {
            attention_norm: loader.vector(name("attn_norm"), width)?,
            query: loader.matrix(name("attn_q"), config.query_width(), width)?,
            key: loader.matrix(name("attn_k"), config.kv_width(), width)?,
            value: loader.matrix(name("attn_v"), config.kv_width(), width)?,
            query_bias: loader.bias(config, layer, Projection::Query)?,
            key_bias: loader.bias(config, layer, Projection::Key)?,
            value_bias: loader.bias(config, layer, Projection::Value)?,
            qk_norms,
            attention_output_bias: loader.bias(config, layer, Projection::Output)?,
            attention_output: loader.matrix(name("attn_output"), width, config.query_width())?,
            attention_post_norm,
            ffn_norm: loader.vector(name("ffn_norm"), width)?,
            gate: loader.matrix(name("ffn_gate"), ffn_width, width)?,
            up: loader.matrix(name("ffn_up"), ffn_width, width)?,
            down: loader.matrix(name("ffn_down"), width, ffn_width)?,
            ffn_post_norm,
        })
    }
}

/// A projection of attention that may have a bias.
#[derive(Clone, Copy, PartialEq)]
enum Projection {
    Query,
    Key,
    Value,
    Output,
}

/// Takes tensors out of a file and remembers which.
struct Loader<'a> {
    gguf: &'a Gguf,
    compute: &'a Compute,
    used: HashSet<String>,
}

impl<'a> Loader<'a> {
    /// A vector of `len` floats.
    fn vector(&mut self, name: String, len: usize) -> Result<Vec<f32>, LoadError> {
        let tensor = self.tensor(&name, &[len])?;
        if tensor.kind != TensorType::F32 {
            return Err(unsupported(name, tensor.kind, "F32"));
        }
        let values =
            tensor.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        self.used.insert(name);
        Ok(values)
    }

    /// The bias of a projection of a layer's attention, where the architecture has one.
    fn bias(
        &mut self,
        config: &ModelConfig,
        layer: usize,
        projection: Projection,
    ) -> Result<Option<Vec<f32>>, LoadError> {
        let (part, len) = match projection {
            Projection::Query => ("attn_q", config.query_width()),
            Projection::Key => ("attn_k", config.kv_width()),
            Projection::Value => ("attn_v", config.kv_width()),
            Projection::Output => ("attn_output", config.width),
        };
        let name = format!("blk.{layer}.{part}.bias");
        let wanted = match config.attention_bias {
            AttentionBias::None => false,
            AttentionBias::AsInFile => self.gguf.find_tensor(&name)?.is_some(),
            AttentionBias::QueryKeyValue => projection != Projection::Output,
        };
        if wanted { self.vector(name, len).map(Some) } else { Ok(None) }
    }

    /// The factors of RoPE's frequencies, where the file has some and the architecture knows them.
    fn rope_factors(&mut self, config: &ModelConfig) -> Result<Option<Vec<f32>>, LoadError> {
        let name = "rope_freqs.weight";
        if !config.rope_factors || self.gguf.find_tensor(name)?.is_none() {
            return Ok(None);
        }
        let factors = self.vector(name.to_owned(), config.rope_dims / 2)?;
        match factors.iter().find(|factor| !(factor.is_finite() && **factor > 0.0)) {
            Some(factor) => Err(LoadError::RopeFactor { name: name.to_owned(), factor: *factor }),
            None => Ok(Some(factors)),
        }
    }

    /// A matrix of `rows` rows of `columns` elements, packed.
    fn matrix(&mut self, name: String, rows: usize, columns: usize) -> Result<Weights, LoadError> {
        let tensor = self.tensor(&name, &[columns, rows])?;
        let quant = quant(tensor.kind)
            .ok_or_else(|| unsupported(name.clone(), tensor.kind, SUPPORTED_KINDS))?;
        let (compute, gguf) = (self.compute, self.gguf);
        let release = |part: &[u8]| gguf.release(part);
        let weights = Weights::pack_in_parts(compute, quant, rows, columns, tensor.data, release)
            .map_err(|source| LoadError::Pack { name: name.clone(), source })?;
        self.used.insert(name);
        Ok(weights)
    }

    /// Finds a tensor and checks its shape, fastest-running dimension first.
    fn tensor(&self, name: &str, expected: &[usize]) -> Result<TensorInfo<'a>, LoadError> {
        let tensor = self.gguf.tensor(name)?;
        // Trailing dimensions of 1 say nothing.
        let found = tensor.dims.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        if tensor.dims.get(..found) != Some(expected) {
            return Err(LoadError::TensorShape {
                name: name.to_owned(),
                found: tensor.dims.to_vec(),
                expected: expected.to_vec(),
            });
        }
        Ok(tensor)
    }

    /// A tensor that nothing asked for (a bias of the feed-forward network, say) would change the results if it were used.
    fn refuse_unused(&self, config: &ModelConfig) -> Result<(), LoadError> {
        match self.gguf.tensor_names().find(|name| !self.used.contains(*name)) {
            Some(name) => Err(LoadError::UnexpectedTensor {
                name: name.to_owned(),
                architecture: config.architecture.name(),
            }),
            None => Ok(()),
        }
    }
}

const SUPPORTED_KINDS: &str = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";

fn quant(kind: TensorType) -> Option<Quant> {
    Some(match kind {
        TensorType::F32 => Quant::F32,
        TensorType::F16 => Quant::F16,
        TensorType::Bf16 => Quant::Bf16,
        TensorType::Q4_0 => Quant::Q4_0,
        TensorType::Q4_1 => Quant::Q4_1,
        TensorType::Q5_0 => Quant::Q5_0,
        TensorType::Q5_1 => Quant::Q5_1,
        TensorType::Q8_0 => Quant::Q8_0,
        TensorType::Q4K => Quant::Q4K,
        TensorType::Q5K => Quant::Q5K,
        TensorType::Q6K => Quant::Q6K,
        _ => return None,
    })
}

fn unsupported(name: String, kind: TensorType, supported: &'static str) -> LoadError {
    LoadError::TensorKind { name, kind, supported }
}
