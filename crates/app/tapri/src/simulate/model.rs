//! What a model's KV cache and prefill take, from its file's metadata.

use anyhow::Result;
use serde::Serialize;
use tapri_engine::KvType;
use tapri_gguf::Gguf;
use tapri_model::ModelConfig;
use tapri_registry::{ModelRef, Recheck};

use crate::failure::Failure;
use crate::pull;

/// Numbers of a key or a value that have a scale together, where they have one: a head has a multiple of them.
const RUN: u64 = 32;

/// Bytes that so many stored numbers take.
const fn run_bytes(kv_type: KvType) -> u64 {
    match kv_type {
        KvType::Bf16 => 2 * RUN,
        // A byte each, and the scale's two.
        KvType::Q8_0 => RUN + 2,
    }
}

/// What one token of a prompt takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Work {
    /// Bytes of its keys and values in all layers.
    pub(super) kv_bytes_per_token: u64,
    /// Multiplications that each token takes wherever it stands.
    per_token: f64,
    /// Multiplications for each token at or before it.
    per_pair: f64,
    /// Layers that look back only so far, which need less than is reckoned with here.
    pub(super) window_layers: usize,
}

impl Work {
    /// Reads a model's file, brought if it is missing.
    pub(super) fn of(model: &ModelRef, kv_type: KvType) -> Result<Self> {
        let path = pull::pulled(model, Recheck::No)?;
        let failed = |error: anyhow::Error| {
            let error = error.context(format!("{} can't be reckoned with", path.display()));
            Failure::new(error, Some("say what a token takes with --kv-bytes-per-token instead"))
        };
        let gguf = Gguf::open(&path).map_err(|error| failed(error.into()))?;
        let config = ModelConfig::from_gguf(&gguf).map_err(|error| failed(error.into()))?;
        Ok(Work::new(&config, kv_type))
    }

    /// The share of prefill work that these tokens and attention pairs are of those.
    pub(super) fn share(self, part: (u64, u64), whole: (u64, u64)) -> f64 {
        let work = |(tokens, pairs): (u64, u64)| {
            self.per_token * tokens as f64 + self.per_pair * pairs as f64
        };
        if work(whole) == 0.0 { 0.0 } else { work(part) / work(whole) }
    }
}

impl Work {
    fn new(config: &ModelConfig, kv_type: KvType) -> Self {
        let layers = config.layers.len() as f64;
        let window_layers = config.layers.iter().filter(|layer| layer.window.is_some()).count();
        let (width, head) = (config.width as f64, config.head_dim as f64);
        let (queries, keys) = (config.heads as f64 * head, config.kv_heads as f64 * head);
        // Q and the output, K and V, and the three matrices of the feed-forward network. The head is for one token of a call.
        let matrices = width * (2.0 * queries + 2.0 * keys + 3.0 * config.ffn_width as f64);
        Work {
            kv_bytes_per_token: 2
                * (config.layers.len() * config.kv_heads * config.head_dim) as u64
                * run_bytes(kv_type)
                / RUN,
            per_token: layers * matrices,
            // The product with each key and with each value.
            per_pair: layers * 2.0 * queries,
            window_layers,
        }
    }
}
