//! Memory that one forward pass works in.

use crate::adapter::AdapterScratch;
use crate::profile::Profile;
use tapri_gguf::TokenId;
use tapri_kernels::{Activations, AttnScratch, Keep};

/// Buffers of a forward pass. Keep one per thread that calls [`Model::forward`](crate::Model::forward): they grow to the largest
/// batch seen and are used again, so a step in the steady state allocates nothing but two short lists of row ranges.
#[derive(Default)]
pub struct Scratch {
    /// `[rows, width]`: the residual stream.
    pub(crate) residual: Vec<f32>,
    /// `[rows, width]`: what a norm or a projection back to the stream leaves.
    pub(crate) normed: Vec<f32>,
    /// `[rows, width]`: a second of those.
    pub(crate) projected: Vec<f32>,
    /// `[rows, query width]`.
    pub(crate) query: Vec<f32>,
    /// `[rows, kv width]`.
    pub(crate) key: Vec<f32>,
    /// `[rows, kv width]`.
    pub(crate) value: Vec<f32>,
    /// `[rows, query width]`: attention's output.
    pub(crate) attended: Vec<f32>,
    /// `[rows, ffn width]`.
    pub(crate) gate: Vec<f32>,
    /// `[rows, ffn width]`.
    pub(crate) up: Vec<f32>,
    /// Tokens of all rows.
    pub(crate) tokens: Vec<TokenId>,
    /// Positions of all rows.
    pub(crate) positions: Vec<u32>,
    /// Positions of the rows whose logits are wanted.
    pub(crate) wanted_positions: Vec<u32>,
    /// The rows whose logits are wanted, ascending.
    pub(crate) wanted: Vec<usize>,
    pub(crate) activations: Activations,
    /// The forms that `activations` keeps.
    keep: Keep,
    /// Times of the passes so far.
    pub(crate) profile: Profile,
    pub(crate) attention: AttnScratch,
    pub(crate) adapters: AdapterScratch,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Where the time of the passes so far went.
    #[cfg(feature = "profile")]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Forgets it.
    #[cfg(feature = "profile")]
    pub fn reset_profile(&mut self) {
        self.profile = Profile::default();
    }

    /// Makes the activations keep the forms that a model needs.
    pub(crate) fn keep(&mut self, keep: Keep) {
        if self.keep != keep {
            self.activations = Activations::keeping(keep);
            self.keep = keep;
        }
    }
}

/// The first `len` elements of a buffer that only grows. Their contents are left over from whoever used it last.
pub(crate) fn sized(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}
