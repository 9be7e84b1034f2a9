//! What stands before a page: whose it is, which block, when it was last used, and what its bytes sum up to.
//!
//! ```text
//! 0    magic, "TKVp"               40   root, 32 bytes
//! 4    version                     72   hash, 32 bytes
//! 8    group                       104  hash of the block before, 32 bytes
//! 12   number in the prompt        136  XXH3 (128 bits) of the page
//! 16   tokens in the block         152  the tokens, 4 bytes each
//! 20   bytes of the page           ..   XXH3 (128 bits) of all before
//! 28   family                      ..   zeros up to a multiple of 64
//! 32   last use, ms since 1970
//! ```
//!
//! All numbers are little-endian. XXH3 finds damage; it is no defence against someone who can write to the folder, who
//! could as well replace the model.

use tapri_kv::{BlockHash, GroupIndex, Root, SlotPage};
use xxhash_rust::xxh3::xxh3_128;

const MAGIC: [u8; 4] = *b"TKVp";

/// Raised when the form changes: pages of another version are not read.
const VERSION: u32 = 2;

/// Bytes before the tokens.
const FIXED: usize = 152;

/// Bytes of a checksum.
const SUM: usize = 16;

/// One page's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) root: [u8; 32],
    /// What the root covers besides the tenant's scope, in short: whether a page of a root that is not known could be of
    /// this model.
    pub(super) family: u32,
    pub(super) hash: [u8; 32],
    pub(super) parent: [u8; 32],
    pub(super) group: u32,
    pub(super) number: u32,
    /// Milliseconds since 1970.
    pub(super) used: u64,
    pub(super) tokens: Vec<u32>,
}

/// Bytes of a record with so many tokens.
pub(super) fn record_bytes(block_tokens: usize) -> usize {
    (FIXED + 4 * block_tokens + SUM).next_multiple_of(64)
}

/// The checksum of a page's bytes.
pub(super) fn sum(page: &[u8]) -> u128 {
    xxh3_128(page)
}

impl Record {
    /// The record in its stored form, for a page of so many bytes with this checksum.
    pub(super) fn encode(&self, page_bytes: usize, page_sum: u128) -> Vec<u8> {
        let size = record_bytes(self.tokens.len());
        let mut out = Vec::with_capacity(size);
        out.extend_from_slice(&MAGIC);
        for number in [VERSION, self.group, self.number, self.tokens.len() as u32] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(page_bytes as u64).to_le_bytes());
        out.extend_from_slice(&self.family.to_le_bytes());
        out.extend_from_slice(&self.used.to_le_bytes());
        for digest in [&self.root, &self.hash, &self.parent] {
            out.extend_from_slice(digest);
        }
        out.extend_from_slice(&page_sum.to_le_bytes());
        debug_assert_eq!(out.len(), FIXED);
        for token in &self.tokens {
            out.extend_from_slice(&token.to_le_bytes());
        }
        let own = xxh3_128(&out);
        out.extend_from_slice(&own.to_le_bytes());
        out.resize(size, 0);
        out
    }

    /// Reads a record of a block with so many tokens, and the checksum of its page. `None`: it isn't one, or is damaged.
    pub(super) fn decode(
        bytes: &[u8],
        block_tokens: usize,
        page_bytes: usize,
    ) -> Option<(Record, u128)> {
        let covered = FIXED + 4 * block_tokens;
        let (body, rest) = bytes.split_at_checked(covered)?;
        let own = u128::from_le_bytes(*rest.first_chunk()?);
        if xxh3_128(body) != own {
            return None;
        }
        let mut at = Reader(body);
        let whole = at.take::<4>()? == MAGIC && at.number()? == VERSION;
        let (group, number, tokens) = (at.number()?, at.number()?, at.number()?);
        let bytes = u64::from_le_bytes(at.take()?);
        if !whole || tokens as usize != block_tokens || bytes != page_bytes as u64 {
            return None;
        }
        let family = at.number()?;
        let used = u64::from_le_bytes(at.take()?);
        let (root, hash, parent) = (at.take()?, at.take()?, at.take()?);
        let page_sum = u128::from_le_bytes(at.take()?);
        let tokens = (0..block_tokens).map(|_| at.number()).collect::<Option<Vec<u32>>>()?;
        Some((Record { root, family, hash, parent, group, number, used, tokens }, page_sum))
    }

    /// Whether both say the same of what is in the page; when it was used is no part of that.
    pub(super) fn is_same_page(&self, other: &Record) -> bool {
        let Record { root, family, hash, parent, group, number, used: _, tokens } = self;
        (root, family, hash, parent, group, number, tokens)
            == (
                &other.root,
                &other.family,
                &other.hash,
                &other.parent,
                &other.group,
                &other.number,
                &other.tokens,
            )
    }

    /// As the list of slots has it.
    pub(super) fn held(&self) -> SlotPage {
        SlotPage {
            root: Root::from_bytes(self.root),
            hash: BlockHash(self.hash),
            group: GroupIndex(self.group as usize),
            number: self.number,
            used: self.used,
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> Record {
        Record {
            root: [1; 32],
            family: 0x0807_0605,
            hash: [2; 32],
            parent: [3; 32],
            group: 4,
            number: 5,
            used: 6,
            tokens: (0..16).collect(),
        }
    }

    #[test]
    fn a_record_reads_back_and_a_changed_bit_anywhere_is_seen() {
        let bytes = record().encode(100, 7);
        assert_eq!(bytes.len(), record_bytes(16));
        assert_eq!(Record::decode(&bytes, 16, 100), Some((record(), 7)));
        for bit in 0..(FIXED + 64 + SUM) * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&damaged, 16, 100), None, "bit {bit}");
        }
        assert_eq!(Record::decode(&bytes, 16, 101), None, "another layout");
        assert_eq!(Record::decode(&bytes, 32, 100), None, "another block size");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(Record::decode(&bytes, 16, 100), None);
        }
    }
}
