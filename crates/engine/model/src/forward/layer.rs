//! One layer's work on the rows of a batch.

use tapri_kernels::{self as kernels, Compute, KvStore, RopeStyle, SeqRows, Weights};

use super::rows::AdaptedRows;
use crate::adapter::Target;
use crate::config::{Gate, RopePairs};
use crate::model::{LayerPlace, Model};
use crate::profile::Stage;
use crate::scratch::{Scratch, sized};
use crate::weights::LayerWeights;

/// One layer of one forward pass.
pub(super) struct Step<'a> {
    pub(super) model: &'a Model,
    pub(super) compute: &'a Compute,
    pub(super) scratch: &'a mut Scratch,
    pub(super) weights: &'a LayerWeights,
    pub(super) place: LayerPlace,
    /// The layer's number.
    pub(super) layer: usize,
    pub(super) adapted: &'a [AdaptedRows<'a>],
    /// Whether the rows are the wanted ones alone.
    pub(super) only_wanted: bool,
}

impl Step<'_> {
    /// Normalises the residual stream and stores the keys and values that come of it, for all `m` rows.
    pub(super) fn keys_and_values(&mut self, store: &mut KvStore, seqs: &[SeqRows<'_>], m: usize) {
        let (config, compute, s) = (&self.model.config, self.compute, &mut *self.scratch);
        let (width, kv_width) = (config.width, config.kv_width());
        let residual = &s.residual[..m * width];
        let normed = sized(&mut s.normed, m * width);
        let weight = &self.weights.attention_norm;
        kernels::rms_norm(compute, residual, m, width, weight, config.norm_eps, normed);
        s.profile.mark(Stage::Norm);
        s.activations.load(compute, normed, m, width);
        s.profile.mark(Stage::Load);

        let key = sized(&mut s.key, m * kv_width);
        kernels::matmul(compute, &self.weights.key, &s.activations, key);
        add_bias(compute, key, self.weights.key_bias.as_deref());
        let value = sized(&mut s.value, m * kv_width);
        kernels::matmul(compute, &self.weights.value, &s.activations, value);
        add_bias(compute, value, self.weights.value_bias.as_deref());
        s.profile.mark(Stage::Matmul);
        self.adapt(Target::Key);
        self.adapt(Target::Value);
        let s = &mut *self.scratch;
        let key = &mut s.key[..m * kv_width];
        if let Some((_, weight)) = &self.weights.qk_norms {
            kernels::rms_norm_heads(compute, key, config.head_dim, weight, config.norm_eps);
            s.profile.mark(Stage::Norm);
        }
        self.rotate(Rotated::Keys, m);
        let s = &mut *self.scratch;
        let (key, value) = (&s.key[..m * kv_width], &s.value[..m * kv_width]);
        kernels::write_kv(compute, store, self.place.in_block, seqs, key, value);
        s.profile.mark(Stage::Write);
    }

    /// Drops every row whose logits nobody wants: what is left is numbered from 0.
    pub(super) fn keep_wanted(&mut self) {
        self.only_wanted = true;
        let width = self.model.config.width;
        let s = &mut *self.scratch;
        for (to, &from) in s.wanted.iter().enumerate() {
            // Ascending, so no row is overwritten before it has moved.
            s.residual.copy_within(from * width..(from + 1) * width, to * width);
            s.normed.copy_within(from * width..(from + 1) * width, to * width);
        }
        s.positions.clear();
        s.positions.extend_from_slice(&s.wanted_positions);
        let m = s.wanted.len();
        if m > 0 {
            s.activations.load(self.compute, &s.normed[..m * width], m, width);
            s.profile.mark(Stage::Load);
        }
    }

    /// Attention over `m` rows, added to the residual stream. The rows' normalised stream is loaded.
    pub(super) fn attend(&mut self, store: &KvStore, seqs: &[SeqRows<'_>], m: usize) {
        let (config, compute) = (&self.model.config, self.compute);
        let query_width = config.query_width();
        let s = &mut *self.scratch;
        let query = sized(&mut s.query, m * query_width);
        kernels::matmul(compute, &self.weights.query, &s.activations, query);
        add_bias(compute, query, self.weights.query_bias.as_deref());
        s.profile.mark(Stage::Matmul);
        self.adapt(Target::Query);
        let s = &mut *self.scratch;
        let query = &mut s.query[..m * query_width];
        if let Some((weight, _)) = &self.weights.qk_norms {
            kernels::rms_norm_heads(compute, query, config.head_dim, weight, config.norm_eps);
            s.profile.mark(Stage::Norm);
        }
        self.rotate(Rotated::Queries, m);
        let s = &mut *self.scratch;
        let attended = sized(&mut s.attended, m * query_width);
        kernels::attention(
            compute,
            store,
            self.place.in_block,
            seqs,
            &s.query[..m * query_width],
            config.heads,
            self.model.windows[self.place.group],
            config.attention_scale,
            &mut s.attention,
            attended,
        );
        let window = self.model.windows[self.place.group];
        s.profile.mark(window.map_or(Stage::FullAttention, |_| Stage::WindowAttention));
        s.activations.load(compute, attended, m, query_width);
        s.profile.mark(Stage::Load);
        self.add_projection(
            &self.weights.attention_output,
            Target::AttentionOutput,
            self.weights.attention_output_bias.as_deref(),
            self.weights.attention_post_norm.as_deref(),
            m,
        );
    }

    /// The feed-forward network over `m` rows, added to the residual stream.
    pub(super) fn feed_forward(&mut self, m: usize) {
        let (config, compute, s) = (&self.model.config, self.compute, &mut *self.scratch);
        let (width, ffn_width) = (config.width, config.ffn_width);
        let residual = &s.residual[..m * width];
        let normed = sized(&mut s.normed, m * width);
        let weight = &self.weights.ffn_norm;
        kernels::rms_norm(compute, residual, m, width, weight, config.norm_eps, normed);
        s.profile.mark(Stage::Norm);
        s.activations.load(compute, normed, m, width);
        s.profile.mark(Stage::Load);
        let gate = sized(&mut s.gate, m * ffn_width);
        kernels::matmul(compute, &self.weights.gate, &s.activations, gate);
        let up = sized(&mut s.up, m * ffn_width);
        kernels::matmul(compute, &self.weights.up, &s.activations, up);
        s.profile.mark(Stage::Matmul);
        self.adapt(Target::Gate);
        self.adapt(Target::Up);
        let s = &mut *self.scratch;
        let (gate, up) = (&mut s.gate[..m * ffn_width], &s.up[..m * ffn_width]);
        match config.gate {
            Gate::Silu => kernels::silu_mul(compute, gate, up),
            Gate::GeluTanh => kernels::gelu_mul(compute, gate, up),
        }
        s.profile.mark(Stage::Gate);
        s.activations.load(compute, gate, m, ffn_width);
        s.profile.mark(Stage::Load);
        self.add_projection(
            &self.weights.down,
            Target::Down,
            None,
            self.weights.ffn_post_norm.as_deref(),
            m,
        );
    }

    /// Multiplies the loaded activations by `weights`, adds the `bias` and normalises the result where they are there, and adds it
    /// to the residual stream.
    fn add_projection(
        &mut self,
        weights: &Weights,
        target: Target,
        bias: Option<&[f32]>,
        post_norm: Option<&[f32]>,
        m: usize,
    ) {
        let (config, compute, s) = (&self.model.config, self.compute, &mut *self.scratch);
        let width = config.width;
        let projected = sized(&mut s.projected, m * width);
        kernels::matmul(compute, weights, &s.activations, projected);
        add_bias(compute, projected, bias);
        s.profile.mark(Stage::Matmul);
        self.adapt(target);
        let s = &mut *self.scratch;
        let projected = &s.projected[..m * width];
        let residual = &mut s.residual[..m * width];
        match post_norm {
            Some(weight) => {
                let normed = sized(&mut s.normed, m * width);
                kernels::rms_norm(compute, projected, m, width, weight, config.norm_eps, normed);
                kernels::add(compute, residual, normed);
            }
            None => kernels::add(compute, residual, projected),
        }
        s.profile.mark(Stage::Norm);
    }

    /// Adds what the sequences' adapters say to the product with one of the layer's matrices. Its input and its product are
    /// where they were left.
    fn adapt(&mut self, target: Target) {
        for rows in self.adapted {
            let Some(pair) = rows.adapter.pair(self.layer, target) else { continue };
            let ranges = if self.only_wanted { &rows.wanted } else { &rows.all };
            let s = &mut *self.scratch;
            let (input, output) = match target {
                Target::Query => (&s.normed, &mut s.query),
                Target::Key => (&s.normed, &mut s.key),
                Target::Value => (&s.normed, &mut s.value),
                Target::AttentionOutput => (&s.attended, &mut s.projected),
                Target::Gate => (&s.normed, &mut s.gate),
                Target::Up => (&s.normed, &mut s.up),
                Target::Down => (&s.gate, &mut s.projected),
            };
            pair.add(self.compute, ranges, input, output, &mut s.adapters);
            s.profile.mark(Stage::Adapters);
        }
    }

    /// Turns queries or keys to their positions, in place.
    fn rotate(&mut self, which: Rotated, m: usize) {
        let (config, s) = (&self.model.config, &mut *self.scratch);
        let (x, heads) = match which {
            Rotated::Queries => (&mut s.query, config.heads),
            Rotated::Keys => (&mut s.key, config.kv_heads),
        };
        let x = &mut x[..m * heads * config.head_dim];
        let style = match config.rope_pairs {
            RopePairs::Interleaved => RopeStyle::Interleaved,
            RopePairs::Halves => RopeStyle::Neox,
        };
        let table = &self.model.ropes[self.place.rope];
        kernels::rope(
            self.compute,
            x,
            m,
            heads,
            config.head_dim,
            config.rope_dims,
            &s.positions,
            table,
            style,
        );
        s.profile.mark(Stage::Rope);
    }
}

/// Adds a projection's bias, if it has one, to each row of its product.
fn add_bias(compute: &Compute, rows: &mut [f32], bias: Option<&[f32]>) {
    if let Some(bias) = bias {
        kernels::add_to_rows(compute, rows, bias);
    }
}

#[derive(Clone, Copy)]
enum Rotated {
    Queries,
    Keys,
}
