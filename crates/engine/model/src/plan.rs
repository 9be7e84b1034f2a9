//! How a model's layers share KV blocks.

use tapri_kernels::{KvLayout, KvType};

use crate::ModelConfig;

/// Layers whose K and V lie in the same blocks: they see equally far back, so they need the same tokens for the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// How many tokens back the group's layers see; none sees all.
    pub window: Option<usize>,
    /// The model's layers in the group, ascending. A layer's place in this list is its place in a block.
    pub layers: Vec<usize>,
}

/// The groups of a model and the shape of one block.
///
/// As in vLLM's hybrid KV cache manager, every group has the same number of layers (the greatest common divisor of the counts of
/// each kind), so a block of any group has the same size and all come from one pool under one budget.
#[derive(Debug, Clone)]
pub struct KvPlan {
    /// The shape of a block.
    pub layout: KvLayout,
    /// The groups: those that see everything first, then by window.
    pub groups: Vec<GroupPlan>,
}

impl KvPlan {
    /// The same plan over blocks that store their numbers so. A model computes over any of them; its results are exact for each,
    /// and differ between them.
    #[must_use]
    pub fn stored(mut self, kv_type: KvType) -> KvPlan {
        self.layout.kv_type = kv_type;
        self
    }
}

/// Splits a model's layers into groups of equal size. A configuration has at least one layer, so there is at least one group.
pub(crate) fn groups(config: &ModelConfig) -> Vec<GroupPlan> {
    let mut kinds: Vec<GroupPlan> = Vec::new();
    for (layer, layer_config) in config.layers.iter().enumerate() {
        match kinds.iter_mut().find(|kind| kind.window == layer_config.window) {
            Some(kind) => kind.layers.push(layer),
            None => kinds.push(GroupPlan { window: layer_config.window, layers: vec![layer] }),
        }
    }
    kinds.sort_by_key(|kind| kind.window);
    let size = kinds.iter().map(|kind| kind.layers.len()).fold(0, greatest_common_divisor);
    kinds
        .iter()
        .flat_map(|kind| {
            kind.layers
                .chunks(size)
                .map(|layers| GroupPlan { window: kind.window, layers: layers.to_vec() })
        })
        .collect()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
