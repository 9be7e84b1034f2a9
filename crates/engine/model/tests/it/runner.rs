//! Drives a model over sequences of its own.

use tapri_gguf::TokenId;
use tapri_kernels::{Compute, Isa, KvStore, KvType};
use tapri_model::{Adapter, LogitsWanted, Model, Scratch, SequenceBatch};

/// A model with a store, and one block table per group for each sequence.
pub(crate) struct Runner<'a> {
    pub(crate) model: &'a Model,
    pub(crate) compute: &'a Compute,
    pub(crate) store: KvStore,
    pub(crate) sequences: Vec<Sequence<'a>>,
    scratch: Scratch,
}

/// A sequence's block tables.
pub(crate) struct Sequence<'a> {
    pub(crate) blocks: Vec<Vec<u32>>,
    pub(crate) adapter: Option<&'a Adapter>,
}

/// Part of a sequence for one forward pass.
pub(crate) struct Part<'a> {
    pub(crate) sequence: usize,
    pub(crate) tokens: &'a [TokenId],
    pub(crate) start: usize,
    pub(crate) logits: LogitsWanted,
}

/// The order in which physical blocks are handed out.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Blocks {
    InOrder,
    Shuffled,
}

impl<'a> Runner<'a> {
    /// Room for sequences of `lengths` tokens.
    pub(crate) fn new(
        model: &'a Model,
        compute: &'a Compute,
        block_tokens: usize,
        lengths: &[usize],
        order: Blocks,
    ) -> Runner<'a> {
        Self::stored(model, compute, block_tokens, lengths, order, KvType::Bf16)
    }

    /// The same over keys and values that are stored so.
    pub(crate) fn stored(
        model: &'a Model,
        compute: &'a Compute,
        block_tokens: usize,
        lengths: &[usize],
        order: Blocks,
        kv_type: KvType,
    ) -> Runner<'a> {
        let plan = model.kv_plan(block_tokens).stored(kv_type);
        let needed: usize =
            lengths.iter().map(|len| len.div_ceil(block_tokens) * plan.groups.len()).sum();
        let mut free: Vec<u32> = (1..=needed as u32).collect();
        if order == Blocks::Shuffled {
            let mut state = 12345_u64;
            for i in (1..free.len()).rev() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                free.swap(i, (state >> 33) as usize % (i + 1));
            }
        }
        let mut free = free.into_iter();
        let sequences = lengths
            .iter()
            .map(|len| Sequence {
                blocks: (plan.groups.iter())
                    .map(|_| free.by_ref().take(len.div_ceil(block_tokens)).collect())
                    .collect(),
                adapter: None,
            })
            .collect();
        let store = KvStore::new(plan.layout, needed + 1).unwrap();
        Runner { model, compute, store, sequences, scratch: Scratch::new() }
    }

    /// One forward pass.
    pub(crate) fn forward(&mut self, parts: &[Part<'_>]) -> Vec<f32> {
        let tables: Vec<Vec<&[u32]>> = parts
            .iter()
            .map(|part| self.sequences[part.sequence].blocks.iter().map(Vec::as_slice).collect())
            .collect();
        let batch: Vec<SequenceBatch<'_>> = (parts.iter().zip(&tables))
            .map(|(part, blocks)| SequenceBatch {
                tokens: part.tokens,
                start: part.start,
                blocks,
                logits: part.logits,
                adapter: self.sequences[part.sequence].adapter,
            })
            .collect();
        let mut logits = Vec::new();
        self.model
            .forward(self.compute, &mut self.scratch, &mut self.store, &batch, &mut logits)
            .unwrap();
        logits
    }

    /// Computes `tokens[start..]` of a sequence in chunks; the logits of all of them.
    pub(crate) fn chunked(
        &mut self,
        sequence: usize,
        tokens: &[TokenId],
        start: usize,
        chunk: usize,
    ) -> Vec<f32> {
        let mut logits = Vec::new();
        let mut at = start;
        for tokens in tokens[start..].chunks(chunk) {
            let part = Part { sequence, tokens, start: at, logits: LogitsWanted::All };
            logits.extend(self.forward(&[part]));
            at += tokens.len();
        }
        logits
    }

    /// Computes `tokens[start..]` of a sequence in chunks; the logits of the last.
    pub(crate) fn prefill(
        &mut self,
        sequence: usize,
        tokens: &[TokenId],
        start: usize,
        chunk: usize,
    ) -> Vec<f32> {
        let mut logits = Vec::new();
        let mut at = start;
        for piece in tokens[start..].chunks(chunk) {
            let last = at + piece.len() == tokens.len();
            let wanted = if last { LogitsWanted::Last } else { LogitsWanted::None };
            logits = self.forward(&[Part { sequence, tokens: piece, start: at, logits: wanted }]);
            at += piece.len();
        }
        logits
    }
}

/// Tokens that look random, always the same for a seed.
pub(crate) fn tokens(count: usize, vocab_size: usize, seed: u64) -> Vec<TokenId> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            TokenId(((state >> 33) % vocab_size as u64) as u32)
        })
        .collect()
}

/// Every instruction-set path of this CPU.
pub(crate) fn isas() -> Vec<Isa> {
    Isa::available()
}

/// Where two rows of floats differ in a bit, if anywhere.
pub(crate) fn first_difference(a: &[f32], b: &[f32]) -> Option<usize> {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits())
}
