//! What one forward pass is asked to compute.

use tapri_gguf::TokenId;

use crate::{Adapter, ModelConfig};

/// Which rows of a sequence's tokens go through the output head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitsWanted {
    /// None: a chunk of a prompt that is not its last.
    None,
    /// The last token's.
    Last,
    /// Every token's.
    All,
}

impl LogitsWanted {
    /// How many of `tokens` rows that is.
    pub fn rows(self, tokens: usize) -> usize {
        match self {
            LogitsWanted::None => 0,
            LogitsWanted::Last => tokens.min(1),
            LogitsWanted::All => tokens,
        }
    }
}

/// Tokens of one sequence that a forward pass computes.
#[derive(Debug, Clone, Copy)]
pub struct SequenceBatch<'a> {
    /// The tokens.
    pub tokens: &'a [TokenId],
    /// The first one's position in the sequence. Everything before it must have been computed into `blocks`.
    pub start: usize,
    /// For each group of the [`KvPlan`](crate::KvPlan) the physical block of each block of the sequence, from its first token on.
    /// 0 stands for a block that a windowed group has let go; the blocks of the new tokens are there.
    pub blocks: &'a [&'a [u32]],
    /// Which logits to compute.
    pub logits: LogitsWanted,
    /// What is added to the model for this sequence. All of a sequence's tokens must have been computed with the same one.
    pub adapter: Option<&'a Adapter>,
}

/// Why a forward pass refused its input. Nothing was computed or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// A token is outside the vocabulary.
    #[error("token {token} is outside the vocabulary of {vocab_size}")]
    Token {
        /// The token.
        token: u32,
        /// How many there are.
        vocab_size: usize,
    },
    /// A sequence would grow beyond the context.
    #[error("a sequence of {length} tokens exceeds the context of {context_length}")]
    Context {
        /// The sequence's length with the new tokens.
        length: usize,
        /// The most there may be.
        context_length: usize,
    },
    /// A block table has no block for a token.
    #[error("sequence {sequence} of the batch, group {group}: no block holds position {position}")]
    Blocks {
        /// The sequence's index in the batch.
        sequence: usize,
        /// The group.
        group: usize,
        /// A position without a block.
        position: usize,
    },
    /// The number of block tables is not the number of groups.
    #[error("sequence {sequence} of the batch has {found} block tables for {expected} groups")]
    Groups {
        /// The sequence's index in the batch.
        sequence: usize,
        /// Tables given.
        found: usize,
        /// Groups of the model.
        expected: usize,
    },
    /// An adapter was made for a model of another shape.
    #[error("sequence {sequence} of the batch has an adapter that does not fit the model")]
    Adapter {
        /// The sequence's index in the batch.
        sequence: usize,
    },
    /// The KV store was not made for this model.
    #[error("the KV store's layout is not this model's")]
    Layout,
}

/// Checks a batch against the model and the store: afterwards no kernel can meet an index out of range.
pub(crate) fn check(
    config: &ModelConfig,
    windows: &[Option<usize>],
    block_tokens: usize,
    store_blocks: usize,
    batch: &[SequenceBatch<'_>],
) -> Result<(), ForwardError> {
    for (sequence, part) in batch.iter().enumerate() {
        let vocab_size = config.vocab_size;
        if let Some(token) = part.tokens.iter().find(|token| token.0 as usize >= vocab_size) {
            return Err(ForwardError::Token { token: token.0, vocab_size });
        }
        let end = part.start.saturating_add(part.tokens.len());
        if end > config.context_length {
            return Err(ForwardError::Context {
                length: end,
                context_length: config.context_length,
            });
        }
        if part.adapter.is_some_and(|adapter| !adapter.fits(config)) {
            return Err(ForwardError::Adapter { sequence });
        }
        if part.blocks.len() != windows.len() {
            return Err(ForwardError::Groups {
                sequence,
                found: part.blocks.len(),
                expected: windows.len(),
            });
        }
        if part.tokens.is_empty() {
            continue;
        }
        for (group, (blocks, window)) in part.blocks.iter().zip(windows).enumerate() {
            // The first position that the first new token sees.
            let first = window.map_or(0, |window| (part.start + 1).saturating_sub(window));
            let needed = first / block_tokens..end.div_ceil(block_tokens);
            for index in needed {
                let there =
                    blocks.get(index).is_some_and(|&id| id != 0 && (id as usize) < store_blocks);
                if !there {
                    return Err(ForwardError::Blocks {
                        sequence,
                        group,
                        position: (index * block_tokens).max(first),
                    });
                }
            }
        }
    }
    Ok(())
}
