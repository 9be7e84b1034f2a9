//! What the owner decides about the cache.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::hash::PrefixHash;

/// What a group of layers needs from earlier positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupSpec {
    /// Every earlier position.
    Full,
    /// The position itself and the `tokens - 1` before it.
    Window {
        /// Window length in tokens, the current one included.
        tokens: NonZeroUsize,
    },
}

impl GroupSpec {
    /// A group from the model's optional window; a window of 0 tokens is treated as none.
    #[must_use]
    pub fn from_window(window: Option<usize>) -> Self {
        match window.and_then(NonZeroUsize::new) {
            Some(tokens) => Self::Window { tokens },
            None => Self::Full,
        }
    }

    /// Blocks that must be present before a block boundary for a hit there, `None` when all of them.
    pub(crate) fn blocks_needed(self, block_tokens: usize) -> Option<usize> {
        match self {
            Self::Full => None,
            Self::Window { tokens } => Some((tokens.get() - 1).div_ceil(block_tokens)),
        }
    }
}

/// Settings of a [`PrefixCache`](crate::PrefixCache).
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Physical blocks in the pool, the null block included.
    pub blocks: usize,
    /// Tokens in a block.
    pub block_tokens: usize,
    /// The groups of layers. A block of any group has the same size in bytes, so they draw on one pool.
    pub groups: Vec<GroupSpec>,
    /// The block hash.
    pub hash: PrefixHash,
    /// `false` keeps nothing and finds nothing: the pool alone works.
    pub enabled: bool,
    /// Whether a call waits for a prefix that another one is computing.
    pub join: bool,
    /// A start that was not used for this long is not found any more. `None`: no timer.
    pub ttl: Option<Duration>,
    /// The most positions that one call computes between two [`slide`](crate::PrefixCache::slide)s; with the window it bounds what a window group needs.
    pub step_tokens: usize,
    /// Window blocks before each multiple of this many tokens outlast the others under pressure.
    pub retention_tokens: usize,
    /// Hashes of blocks that are gone, kept to tell "evicted" from "never seen".
    pub ghosts: usize,
    /// KV events kept for the owner between two drains; 0 records none.
    pub events: usize,
    /// Whether what makes room is named to the owner, who keeps its content elsewhere: see
    /// [`take_leaving`](crate::PrefixCache::take_leaving).
    pub spill: bool,
}

impl CacheConfig {
    /// Default tokens of a block.
    pub const BLOCK_TOKENS: usize = 16;

    /// The defaults for a pool of `blocks` (the null block included) and these groups.
    #[must_use]
    pub fn new(blocks: usize, groups: Vec<GroupSpec>) -> Self {
        Self {
            blocks,
            block_tokens: Self::BLOCK_TOKENS,
            groups,
            hash: PrefixHash::Sha256,
            enabled: true,
            join: true,
            ttl: None,
            step_tokens: 512,
            retention_tokens: 2048,
            // Four pools' worth of lost blocks at about 40 bytes each stays far below one percent of the pool.
            ghosts: blocks.saturating_mul(4).max(1024),
            events: 0,
            spill: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.block_tokens == 0 {
            return Err(ConfigError::BlockTokens);
        }
        if self.groups.is_empty() || self.groups.len() > usize::from(u16::MAX) {
            return Err(ConfigError::Groups(self.groups.len()));
        }
        if self.blocks < 2 || self.blocks >= u32::MAX as usize {
            return Err(ConfigError::Blocks(self.blocks));
        }
        if self.step_tokens == 0 {
            return Err(ConfigError::StepTokens);
        }
        Ok(())
    }
}

/// Why a cache could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The block size is zero.
    #[error("a block must hold at least one token")]
    BlockTokens,
    /// There is no group, or too many.
    #[error("the cache needs between 1 and 65535 groups of layers, not {0}")]
    Groups(usize),
    /// The pool is too small or too large.
    #[error(
        "the pool needs between 2 and 4294967294 blocks (one of them is the null block), not {0}"
    )]
    Blocks(usize),
    /// The step is zero.
    #[error("a step must compute at least one token")]
    StepTokens,
}
