//! A BERT encoder's forward pass on candle tensors (Devlin et al., 2018), as far as sentence encoders need it: no
//! pooler, no dropout, one segment.

use std::collections::HashMap;

use candle_core::{D, Device, Result, Tensor};
use serde::Deserialize;

/// The shape of the encoder, from `config.json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    pub(crate) hidden_size: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) max_position_embeddings: usize,
    pub(crate) layer_norm_eps: f64,
    pub(crate) hidden_act: String,
    pub(crate) model_type: String,
}

struct Linear {
    /// [inputs, outputs], transposed once.
    weight: Tensor,
    bias: Tensor,
}

struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f64,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attended: Linear,
    attended_norm: LayerNorm,
    up: Linear,
    down: Linear,
    down_norm: LayerNorm,
}

/// The weights.
pub(crate) struct Bert {
    words: Tensor,
    /// Positions and the one segment's vector, which every token gets.
    positions: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
    heads: usize,
    hidden: usize,
}

impl Bert {
    /// Takes the weights it needs out of `tensors`.
    pub(crate) fn new(config: &Config, tensors: &HashMap<String, Tensor>) -> Result<Self> {
        let get = |name: &str| {
            tensors
                .get(name)
                .or_else(|| tensors.get(&format!("bert.{name}")))
                .cloned()
                .ok_or_else(|| candle_core::Error::Msg(format!("there is no tensor {name}")))
        };
        let linear = |name: &str| -> Result<Linear> {
            let weight = get(&format!("{name}.weight"))?.t()?.contiguous()?;
            Ok(Linear { weight, bias: get(&format!("{name}.bias"))? })
        };
        let norm = |name: &str| -> Result<LayerNorm> {
            Ok(LayerNorm {
                weight: get(&format!("{name}.weight"))?,
                bias: get(&format!("{name}.bias"))?,
                epsilon: config.layer_norm_eps,
            })
        };
        let segments = get("embeddings.token_type_embeddings.weight")?;
        let positions = get("embeddings.position_embeddings.weight")?
            .broadcast_add(&segments.narrow(0, 0, 1)?)?;
        let layers = (0..config.num_hidden_layers)
            .map(|i| {
                let layer = format!("encoder.layer.{i}");
                Ok(Layer {
                    query: linear(&format!("{layer}.attention.self.query"))?,
                    key: linear(&format!("{layer}.attention.self.key"))?,
                    value: linear(&format!("{layer}.attention.self.value"))?,
                    attended: linear(&format!("{layer}.attention.output.dense"))?,
                    attended_norm: norm(&format!("{layer}.attention.output.LayerNorm"))?,
                    up: linear(&format!("{layer}.intermediate.dense"))?,
                    down: linear(&format!("{layer}.output.dense"))?,
                    down_norm: norm(&format!("{layer}.output.LayerNorm"))?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Bert {
            words: get("embeddings.word_embeddings.weight")?,
            positions,
            norm: norm("embeddings.LayerNorm")?,
            layers,
            heads: config.num_attention_heads,
            hidden: config.hidden_size,
        })
    }

    /// Token ids [batch, tokens] and which of them are real (1) or padding (0) to the mean of the real tokens' last
    /// states, [batch, hidden].
    pub(crate) fn mean_states(&self, ids: &Tensor, real: &Tensor) -> Result<Tensor> {
        let (batch, tokens) = ids.dims2()?;
        let words = self.words.index_select(&ids.flatten_all()?, 0)?;
        let words = words.reshape((batch, tokens, self.hidden))?;
        let mut state =
            self.norm.forward(&words.broadcast_add(&self.positions.narrow(0, 0, tokens)?)?)?;
        // 0 for a real key and a very negative number for padding, [batch, 1, 1, tokens].
        let blocked = ((real - 1.0)? * 1e9)?.reshape((batch, 1, 1, tokens))?;
        for layer in &self.layers {
            state = layer.forward(&state, &blocked, self.heads)?;
        }
        let real = real.unsqueeze(D::Minus1)?;
        state.broadcast_mul(&real)?.sum(1)?.broadcast_div(&real.sum(1)?)
    }
}

impl Layer {
    fn forward(&self, state: &Tensor, blocked: &Tensor, heads: usize) -> Result<Tensor> {
        let (batch, tokens, hidden) = state.dims3()?;
        let width = hidden / heads;
        // [batch, heads, tokens, width]
        let split = |linear: &Linear| {
            linear
                .forward(state)?
                .reshape((batch, tokens, heads, width))?
                .transpose(1, 2)?
                .contiguous()
        };
        let (query, key, value) = (split(&self.query)?, split(&self.key)?, split(&self.value)?);
        let scores = (query.matmul(&key.t()?.contiguous()?)? / (width as f64).sqrt())?;
        let weights = softmax(&scores.broadcast_add(blocked)?)?;
        let mixed = weights.matmul(&value)?.transpose(1, 2)?.contiguous()?;
        let mixed = self.attended.forward(&mixed.reshape((batch, tokens, hidden))?)?;
        let state = self.attended_norm.forward(&(mixed + state)?)?;
        let wide = self.up.forward(&state)?.gelu_erf()?;
        self.down_norm.forward(&(self.down.forward(&wide)? + &state)?)
    }
}

impl Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (batch, tokens, inputs) = x.dims3()?;
        let rows = x.reshape((batch * tokens, inputs))?.matmul(&self.weight)?;
        let outputs = rows.dim(1)?;
        rows.broadcast_add(&self.bias)?.reshape((batch, tokens, outputs))
    }
}

impl LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let scaled = centred.broadcast_div(&(variance + self.epsilon)?.sqrt()?)?;
        scaled.broadcast_mul(&self.weight)?.broadcast_add(&self.bias)
    }
}

fn softmax(x: &Tensor) -> Result<Tensor> {
    let exp = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
    exp.broadcast_div(&exp.sum_keepdim(D::Minus1)?)
}

/// A matrix of rows of the same length.
pub(crate) fn matrix<T: candle_core::WithDType>(rows: Vec<T>, width: usize) -> Result<Tensor> {
    let height = rows.len() / width.max(1);
    Tensor::from_vec(rows, (height, width), &Device::Cpu)
}
