//! A loaded model.

use tapri_gguf::Gguf;
use tapri_kernels::{Compute, Keep, KvLayout, KvType, RopeTable, TILE_TOKENS};

use crate::config::RopeConfig;
use crate::plan::{self, GroupPlan};
use crate::weights::ModelWeights;
use crate::{KvPlan, LoadError, ModelConfig};

/// Raised when the forward pass itself starts to compute something else for the same file and configuration, so that KV kept on
/// disk is not taken for this version's.
const NUMERICS_VERSION: u32 = 1;

/// Bytes of the file that are hashed at a time, and then let go.
const HASH_BYTES: usize = 4 << 20;

/// A model: its configuration and its packed weights. It holds no state of any sequence.
pub struct Model {
    pub(crate) config: ModelConfig,
    pub(crate) weights: ModelWeights,
    pub(crate) groups: Vec<GroupPlan>,
    pub(crate) windows: Vec<Option<usize>>,
    /// For each layer its group and its place in the group's blocks.
    pub(crate) places: Vec<LayerPlace>,
    /// One table per distinct RoPE configuration.
    pub(crate) ropes: Vec<RopeTable>,
    /// The forms in which the matrices take activations.
    pub(crate) keep: Keep,
    fingerprint: [u8; 32],
}

/// Where a layer's K and V lie, and how it turns positions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerPlace {
    pub(crate) group: usize,
    pub(crate) in_block: usize,
    /// Index into [`Model::ropes`].
    pub(crate) rope: usize,
}

impl Model {
    /// Reads the configuration and the weights of a file, and packs the weights for the kernels.
    ///
    /// The file may be closed afterwards. Packing takes about as long as reading the file's bytes twice. The map's memory goes back to
    /// the system as it is packed, so that no more than a few megabytes are held twice.
    ///
    /// # Errors
    /// When the architecture, the metadata or a tensor is not what the decoder can run exactly: the error names it.
    pub fn load(gguf: &Gguf, compute: &Compute) -> Result<Model, LoadError> {
        let config = ModelConfig::from_gguf(gguf)?;
        let weights = ModelWeights::load(gguf, &config, compute)?;
        let groups = plan::groups(&config);
        let windows = groups.iter().map(|group| group.window).collect();
        let mut distinct: Vec<RopeConfig> = Vec::new();
        let mut places = Vec::with_capacity(config.layers.len());
        for (layer, layer_config) in config.layers.iter().enumerate() {
            let rope = match distinct.iter().position(|rope| *rope == layer_config.rope) {
                Some(index) => index,
                None => {
                    distinct.push(layer_config.rope);
                    distinct.len() - 1
                }
            };
            for (group, plan) in groups.iter().enumerate() {
                if let Some(in_block) = plan.layers.iter().position(|&l| l == layer) {
                    places.push(LayerPlace { group, in_block, rope });
                }
            }
        }
        let factors = weights.rope_factors.as_deref();
        let ropes = distinct.iter().map(|rope| rope_table(&config, *rope, factors)).collect();
        let keep = weights.needed_activations();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&NUMERICS_VERSION.to_le_bytes());
        let identity = config.numeric_identity();
        hasher.update(&(identity.len() as u64).to_le_bytes());
        hasher.update(&identity);
        for part in gguf.file_bytes().chunks(HASH_BYTES) {
            hasher.update(part);
            gguf.release(part);
        }
        let fingerprint = *hasher.finalize().as_bytes();
        Ok(Model { config, weights, groups, windows, places, ropes, keep, fingerprint })
    }

    /// What the model is made of.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// How the layers share blocks of `block_tokens` tokens, in bf16 (see [`KvPlan::stored`]).
    ///
    /// # Panics
    /// If `block_tokens` is not a positive multiple of 16.
    pub fn kv_plan(&self, block_tokens: usize) -> KvPlan {
        assert!(
            block_tokens > 0 && block_tokens.is_multiple_of(TILE_TOKENS),
            "a block of {block_tokens} tokens is not a multiple of {TILE_TOKENS}"
        );
        KvPlan { layout: self.kv_layout(block_tokens), groups: self.groups.clone() }
    }

    pub(crate) fn kv_layout(&self, block_tokens: usize) -> KvLayout {
        KvLayout {
            layers_per_block: self.groups[0].layers.len(),
            kv_heads: self.config.kv_heads,
            head_dim: self.config.head_dim,
            block_tokens,
            kv_type: KvType::Bf16,
        }
    }

    /// BLAKE3 over the file's bytes and everything else that the numbers depend on. (The instruction set and the thread count
    /// are not in it: the first is the caller's to add, the second changes nothing.)
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Memory that the packed weights take, in bytes.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }
}

fn rope_table(config: &ModelConfig, rope: RopeConfig, factors: Option<&[f32]>) -> RopeTable {
    RopeTable::new(&tapri_kernels::RopeConfig {
        dims: config.rope_dims,
        base: f64::from(rope.base),
        frequency_scale: f64::from(rope.scale),
        factors,
        positions: config.context_length,
    })
}
