//! What a backend's own prefix cache holds, for a person who looks.

use std::time::Duration;

/// What a prefix cache holds at one moment. Counts are measured; no token and no text is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixMap {
    /// What is stored, the last used first.
    pub runs: Vec<MapRun>,
    /// KV blocks of the runs that were left out, which were used longest ago.
    pub left_out: usize,
    /// KV blocks that calls are filling, and that no other call can find yet.
    pub private: usize,
    /// KV blocks with nothing in them.
    pub empty: usize,
    /// KV blocks of the pool.
    pub capacity: usize,
    /// Tokens of a block.
    pub block_tokens: usize,
}

/// Neighbouring blocks of one prefix that were last used together, by as many calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapRun {
    /// Whose it is: the place in the list of scopes that was asked about, where it is one of them.
    pub scope: Option<usize>,
    /// Fingerprint of whose it is.
    pub owner: u64,
    /// Fingerprint of the prefix up to the run's end. Prefixes of two tenants never have the same.
    pub print: u64,
    /// The number of its first block in the prompt.
    pub first: usize,
    /// Blocks of tokens.
    pub blocks: usize,
    /// KV blocks that hold them: one for each group of layers that still has one.
    pub kv_blocks: usize,
    /// Calls that use it now; with none it is cached.
    pub users: u32,
    /// Calls that have used it since it was stored, the one that stored it included.
    pub uses: u32,
    /// Since the start of the call that last used it.
    pub age: Duration,
}

impl PrefixMap {
    /// From the engine's picture of its cache.
    pub(crate) fn of(shown: tapri_engine::PrefixPicture) -> Self {
        let tapri_engine::PrefixPicture { picture, roots } = shown;
        let runs = picture.runs.iter().map(|run| MapRun {
            scope: roots.iter().position(|root| *root == run.root),
            owner: fingerprint(&run.root),
            print: run.print,
            first: run.first,
            blocks: run.blocks,
            kv_blocks: run.physical,
            users: run.users,
            uses: run.uses,
            age: run.age,
        });
        PrefixMap {
            runs: runs.collect(),
            left_out: picture.left_out,
            private: picture.private,
            empty: picture.empty,
            capacity: picture.capacity,
            block_tokens: picture.block_tokens,
        }
    }
}

/// A root is a SHA-256, so that its first bytes tell owners apart and say nothing of them.
fn fingerprint(root: &tapri_engine::Root) -> u64 {
    root.as_bytes().iter().take(8).fold(0, |print, &byte| print << 8 | u64::from(byte))
}
