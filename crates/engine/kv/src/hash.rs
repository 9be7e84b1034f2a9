//! Block hashes and the byte form that goes into them.

use std::fmt;

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

/// The hash of a block and of everything before it. 128-bit hashes fill the first half.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub [u8; 32]);

impl BlockHash {
    /// The first eight bytes, for tables that are indexed by hash.
    pub(crate) fn short(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockHash({self})")
    }
}

/// The function that hashes blocks.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum PrefixHash {
    /// SHA-256, the default. Uses the CPU's SHA instructions where it has them.
    Sha256,
    /// XXH3 with 128 bits: faster, but someone who wants two prompts to collide can make them.
    Xxh3,
    /// A function of the caller's own, for tests of what happens on a collision.
    Custom(fn(&[u8]) -> BlockHash),
}

impl PrefixHash {
    /// Whether nobody can make two different prefixes share a hash. Where it is `false`, the owner should warn if tenants share a process.
    ///
    /// A hit compares the tokens as well, so a collision costs a miss, not a wrong answer; what remains is that a tenant could tell by it.
    #[must_use]
    pub fn is_collision_safe(self) -> bool {
        matches!(self, Self::Sha256)
    }

    /// The name used in settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Xxh3 => "xxh3",
            Self::Custom(_) => "custom",
        }
    }

    pub(crate) fn digest(self, bytes: &[u8]) -> BlockHash {
        match self {
            Self::Sha256 => BlockHash(Sha256::digest(bytes).into()),
            Self::Xxh3 => {
                let mut wide = [0; 32];
                wide[..16].copy_from_slice(&xxh3_128(bytes).to_le_bytes());
                BlockHash(wide)
            }
            Self::Custom(function) => function(bytes),
        }
    }
}

impl std::str::FromStr for PrefixHash {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "sha256" => Ok(Self::Sha256),
            "xxh3" => Ok(Self::Xxh3),
            other => Err(UnknownHash(other.to_owned())),
        }
    }
}

/// A hash name that isn't known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown prefix hash {0:?}: it is sha256 or xxh3")]
pub struct UnknownHash(pub String);

/// Tags of the parts. A part is its tag, its length as 4 bytes (little-endian) and its bytes, so that no value of one kind can be taken for another
/// (in vLLM an adapter named like someone's salt could collide with it: issue 44701).
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Tag {
    Domain = 1,
    FormatVersion = 2,
    NumericsVersion = 3,
    Isa = 4,
    Model = 5,
    Rope = 6,
    KvType = 7,
    BlockTokens = 8,
    HashName = 9,
    Tenant = 10,
    Salt = 11,
    Parent = 12,
    Tokens = 13,
    Adapter = 14,
    MediaDigest = 15,
    MediaOffset = 16,
}

/// Writes tagged, length-prefixed parts.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    bytes: Vec<u8>,
}

impl Parts {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn header(&mut self, tag: Tag, length: usize) {
        self.bytes.push(tag as u8);
        // A part is at most a few kilobytes; a longer one would still be unambiguous, since its bytes follow in full.
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
    }

    pub(crate) fn part(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        self.header(tag, value.len());
        self.bytes.extend_from_slice(value);
        self
    }

    pub(crate) fn number(&mut self, tag: Tag, value: u64) -> &mut Self {
        self.part(tag, &value.to_le_bytes())
    }

    pub(crate) fn tokens(&mut self, tokens: &[u32]) -> &mut Self {
        self.header(Tag::Tokens, tokens.len() * 4);
        let start = self.bytes.len();
        self.bytes.resize(start + tokens.len() * 4, 0);
        for (out, token) in self.bytes[start..].chunks_exact_mut(4).zip(tokens) {
            out.copy_from_slice(&token.to_le_bytes());
        }
        self
    }

    /// SHA-256 of the parts: for everything that isn't a block.
    pub(crate) fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.bytes).into()
    }
}
