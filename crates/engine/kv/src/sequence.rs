//! A call's tokens with the hashes of its full blocks, extended as tokens come.

use crate::hash::{BlockHash, Parts, PrefixHash};
use crate::keys::PromptKeys;

/// Tokens and block hashes of one call. Each token is hashed once, however often the call is looked up.
#[derive(Clone)]
pub(crate) struct Sequence {
    keys: PromptKeys,
    hash: PrefixHash,
    block_tokens: usize,
    tokens: Vec<u32>,
    hashes: Vec<BlockHash>,
    buffer: Parts,
}

impl Sequence {
    pub(crate) fn new(keys: PromptKeys, hash: PrefixHash, block_tokens: usize) -> Self {
        Self {
            keys,
            hash,
            block_tokens,
            tokens: Vec::new(),
            hashes: Vec::new(),
            buffer: Parts::default(),
        }
    }

    pub(crate) fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        let blocks = self.tokens.len() / self.block_tokens;
        self.hashes.reserve(blocks - self.hashes.len());
        while self.hashes.len() < blocks {
            let start = self.hashes.len() * self.block_tokens;
            let parent = self.hashes.last().copied().unwrap_or(self.keys.root.as_parent());
            let tokens = &self.tokens[start..start + self.block_tokens];
            self.keys.write_block(&mut self.buffer, &parent, start, tokens);
            self.hashes.push(self.hash.digest(self.buffer.bytes()));
        }
    }

    pub(crate) fn keys(&self) -> &PromptKeys {
        &self.keys
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Hashes of the full blocks.
    pub(crate) fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    /// Blocks that a lookup may cover: the last token is always computed, since its scores are needed.
    pub(crate) fn lookup_blocks(&self) -> usize {
        self.len().saturating_sub(1) / self.block_tokens
    }

    /// The tokens of a block, fewer than a block's worth at the end.
    pub(crate) fn block(&self, number: usize) -> &[u32] {
        let start = (number * self.block_tokens).min(self.len());
        let end = (start + self.block_tokens).min(self.len());
        &self.tokens[start..end]
    }

    pub(crate) fn media(&self, number: usize) -> Option<[u8; 32]> {
        self.keys.media_digest(number * self.block_tokens, self.block_tokens)
    }

    fn same_media(&self, other: &Self, number: usize) -> bool {
        (self.keys.media.is_empty() && other.keys.media.is_empty())
            || self.media(number) == other.media(number)
    }

    /// How many full blocks from `from` on are the same in `other`, looking at no more than `limit` blocks in all.
    /// Tokens and media are compared, not hashes.
    pub(crate) fn common_blocks(&self, other: &Self, from: usize, limit: usize) -> usize {
        let limit = limit.min(self.hashes.len()).min(other.hashes.len());
        (from..limit)
            .take_while(|&n| self.block(n) == other.block(n) && self.same_media(other, n))
            .count()
    }
}

/// Length of the common start of two token runs.
pub(crate) fn common_tokens(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}
