//! The forward pass.
//!
//! All sequences of a batch go through a layer together, as rows of one matrix; only attention knows which row belongs to whom.
//! No kernel lets a row's result depend on how many rows there are, so a token's logits are the same bits however it is batched.

mod layer;
mod rows;

use tapri_kernels::{self as kernels, Compute, KvLayout, KvStore};

use crate::batch::{self, ForwardError, SequenceBatch};
use crate::model::Model;
use crate::profile::Stage;
use crate::scratch::{Scratch, sized};
use layer::Step;
use rows::Rows;

/// Rows that go through the head together, so that many wanted rows take no more memory than they must.
const HEAD_ROWS: usize = 16;

/// Embeddings that a thread reads at a time.
const EMBED_ROWS: usize = 16;

impl Model {
    /// Computes a batch: writes the K and V of its tokens into `store` and leaves the wanted logits in `logits`,
    /// `[wanted rows, vocabulary]`, sequence by sequence, token by token.
    ///
    /// The sequences may have any lengths and starts. They may share blocks of tokens that were computed before, but none that
    /// is written now.
    ///
    /// # Errors
    /// When a token, a position or a block table is out of range. Nothing was computed then, and `logits` is empty.
    ///
    /// # Panics
    /// If two sequences would write the same block.
    pub fn forward(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        store: &mut KvStore,
        batch: &[SequenceBatch<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), ForwardError> {
        // Cleared only where none are wanted: the next step's overwrite those of the last, and need no zeros before.
        let computed = self.compute(compute, scratch, store, batch, logits);
        if !matches!(computed, Ok(true)) {
            logits.clear();
        }
        computed.map(|_| ())
    }

    /// As [`Model::forward`]; whether any logits were wanted. If not, `logits` means nothing.
    fn compute(
        &self,
        compute: &Compute,
        scratch: &mut Scratch,
        store: &mut KvStore,
        batch: &[SequenceBatch<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<bool, ForwardError> {
        scratch.profile.begin();
        let layout = *store.layout();
        // However the numbers are stored: the kernels see to that.
        let KvLayout { kv_type, block_tokens, .. } = layout;
        if layout != (KvLayout { kv_type, ..self.kv_layout(block_tokens) }) {
            return Err(ForwardError::Layout);
        }
        batch::check(&self.config, &self.windows, layout.block_tokens, store.blocks(), batch)?;
        let rows = Rows::new(batch, self.groups.len(), scratch);
        if rows.all() == 0 {
            return Ok(false);
        }
        scratch.keep(self.keep);
        self.embed(compute, scratch, batch);
        scratch.profile.mark(Stage::Embed);
        let last = self.places.len() - 1;
        for (index, (place, weights)) in self.places.iter().zip(&self.weights.layers).enumerate() {
            let mut step = Step {
                model: self,
                compute,
                scratch: &mut *scratch,
                weights,
                place: *place,
                layer: index,
                adapted: rows.adapted(),
                only_wanted: false,
            };
            step.keys_and_values(store, rows.group(place.group), rows.all());
            let (seqs, m) = if index < last || rows.wanted() == rows.all() {
                (rows.group(place.group), rows.all())
            } else {
                // Nobody reads the other rows after this.
                step.keep_wanted();
                (rows.wanted_group(place.group), rows.wanted())
            };
            if m == 0 {
                return Ok(false);
            }
            step.attend(store, seqs, m);
            step.feed_forward(m);
        }
        self.output(compute, scratch, rows.wanted(), logits);
        scratch.profile.mark(Stage::Head);
        for rows in rows.adapted() {
            let Some(pair) = rows.adapter.head() else { continue };
            pair.add(compute, &rows.wanted, &scratch.normed, logits, &mut scratch.adapters);
            scratch.profile.mark(Stage::Adapters);
        }
        Ok(true)
    }

    /// Fills the residual stream with the tokens' embeddings.
    fn embed(&self, compute: &Compute, scratch: &mut Scratch, batch: &[SequenceBatch<'_>]) {
        let width = self.config.width;
        let scale = self.config.embedding_scale;
        let rows = scratch.positions.len();
        scratch.tokens.clear();
        scratch.tokens.extend(batch.iter().flat_map(|part| part.tokens));
        let (tokens, embedding) = (&scratch.tokens, &self.weights.embedding);
        let residual = sized(&mut scratch.residual, rows * width);
        compute.run_pieces(residual, EMBED_ROWS * width, |piece, residual| {
            let tokens = &tokens[piece * EMBED_ROWS..];
            for (row, token) in residual.chunks_exact_mut(width).zip(tokens) {
                embedding.row(token.index(), row);
                if scale != 1.0 {
                    row.iter_mut().for_each(|value| *value *= scale);
                }
            }
        });
    }

    /// Reads the logits off the first `m` rows of the residual stream.
    ///
    /// Rounding to 8 bits here would go straight into the logits: a third of the error that all the layers' rounding makes
    /// together. 16 bits cost next to nothing, as the head's time goes into reading it.
    fn output(&self, compute: &Compute, scratch: &mut Scratch, m: usize, logits: &mut Vec<f32>) {
        let width = self.config.width;
        let residual = &scratch.residual[..m * width];
        let normed = sized(&mut scratch.normed, m * width);
        let eps = self.config.norm_eps;
        kernels::rms_norm(compute, residual, m, width, &self.weights.output_norm, eps, normed);
        let (head, vocab) = (self.weights.head(), self.config.vocab_size);
        logits.truncate(m * vocab);
        logits.resize(m * vocab, 0.0);
        let chunks = normed.chunks(HEAD_ROWS * width).zip(logits.chunks_mut(HEAD_ROWS * vocab));
        for (rows, logits) in chunks {
            let m = rows.len() / width;
            scratch.activations.load_refined(compute, rows, m, width);
            kernels::matmul_pairs(compute, head, &scratch.activations, logits);
        }
    }
}
