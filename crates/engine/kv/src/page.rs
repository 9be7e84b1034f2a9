//! A block on its way to another memory, a disk's for example.

use crate::hash::BlockHash;
use crate::ids::{BlockId, GroupIndex, Moment};
use crate::keys::Root;

/// A stored block of one group: all that says what it is. What is in it lies in the owner's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Where its content lies.
    pub block: BlockId,
    /// The group of layers.
    pub group: GroupIndex,
    /// Whose it is.
    pub root: Root,
    /// Its hash.
    pub hash: BlockHash,
    /// The hash of the block before it, or the chain's root.
    pub parent: BlockHash,
    /// Block number in the prompt.
    pub number: usize,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// Start of the call that last used it.
    pub used_at: Moment,
}
