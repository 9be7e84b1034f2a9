//! What makes a prefix belong to someone: root, salt, adapter, media.

use crate::hash::{BlockHash, Parts, PrefixHash, Tag};

/// Version of the byte form that is hashed. Raised whenever it changes, so that blocks kept outside the process are never taken for the new form.
const FORMAT_VERSION: u64 = 1;

/// What the root of a chain covers: everything that changes the numbers in a block besides its tokens, and whose they are.
#[derive(Clone, Copy, Debug)]
pub struct RootParts<'a> {
    /// Version of the engine's arithmetic: raised when a build computes other bits than the last.
    pub numerics: u32,
    /// The instruction-set path, for example `avx512`.
    pub isa: &'a str,
    /// Fingerprint of the weights and the tokenizer.
    pub model: &'a [u8],
    /// RoPE settings, in any fixed byte form.
    pub rope: &'a [u8],
    /// Type of the stored keys and values, for example `bf16`.
    pub kv_type: &'a str,
    /// Tokens in a block.
    pub block_tokens: usize,
    /// The block hash.
    pub hash: PrefixHash,
    /// The tenant's scope key, derived by the server and never taken from a client.
    pub tenant: &'a [u8],
}

/// The fingerprint that every chain of one tenant starts from. The same after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Root([u8; 32]);

impl Root {
    /// The root of these parts, always by SHA-256.
    #[must_use]
    pub fn new(parts: &RootParts<'_>) -> Self {
        let mut bytes = Parts::default();
        bytes
            .part(Tag::Domain, b"tapri prefix cache")
            .number(Tag::FormatVersion, FORMAT_VERSION)
            .number(Tag::NumericsVersion, parts.numerics.into())
            .part(Tag::Isa, parts.isa.as_bytes())
            .part(Tag::Model, parts.model)
            .part(Tag::Rope, parts.rope)
            .part(Tag::KvType, parts.kv_type.as_bytes())
            .number(Tag::BlockTokens, parts.block_tokens as u64)
            .part(Tag::HashName, parts.hash.as_str().as_bytes())
            .part(Tag::Tenant, parts.tenant);
        Self(bytes.sha256())
    }

    /// The root of these 32 bytes, which [`as_bytes`](Self::as_bytes) gave.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn as_parent(self) -> BlockHash {
        BlockHash(self.0)
    }
}

/// A client's cache salt, hashed at once: what a client sent never travels further.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Salt([u8; 32]);

impl Salt {
    /// The salt for what the client sent, whatever bytes those are.
    #[must_use]
    pub fn new(client_value: &[u8]) -> Self {
        let mut bytes = Parts::default();
        bytes.part(Tag::Salt, client_value);
        Self(bytes.sha256())
    }
}

/// Digest of an adapter's content. Its name would not do: a reloaded adapter keeps the name and changes the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AdapterDigest(pub [u8; 32]);

/// An image or other media that stands behind placeholder tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MediaSpan {
    /// Digest of the content.
    pub digest: [u8; 32],
    /// First token that it stands behind.
    pub start: usize,
    /// How many tokens.
    pub tokens: usize,
}

/// Everything besides the tokens that a prefix is keyed by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PromptKeys {
    /// Model, numerics and tenant.
    pub root: Root,
    /// The client's own narrowing of its scope.
    pub salt: Option<Salt>,
    /// The adapter, if one is active.
    pub adapter: Option<AdapterDigest>,
    /// Media in the prompt, by ascending start and not overlapping.
    pub media: Vec<MediaSpan>,
}

impl PromptKeys {
    /// Keys of a plain text prompt.
    #[must_use]
    pub fn new(root: Root) -> Self {
        Self { root, salt: None, adapter: None, media: Vec::new() }
    }

    /// The same with a client's salt.
    #[must_use]
    pub fn with_salt(mut self, client_value: &[u8]) -> Self {
        self.salt = Some(Salt::new(client_value));
        self
    }

    /// The same with an adapter.
    #[must_use]
    pub fn with_adapter(mut self, digest: AdapterDigest) -> Self {
        self.adapter = Some(digest);
        self
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope { root: self.root, salt: self.salt, adapter: self.adapter }
    }
}

impl Scope {
    /// Whether it starts from this root, whatever its salt and adapter.
    pub(crate) fn is_of(&self, root: &Root) -> bool {
        self.root == *root
    }

    pub(crate) fn root(&self) -> Root {
        self.root
    }
}

/// Whose prefixes are compared with whose. Compared by value, never by the block hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Scope {
    root: Root,
    salt: Option<Salt>,
    adapter: Option<AdapterDigest>,
}

impl PromptKeys {
    /// Writes one block in hashed form.
    pub(crate) fn write_block(
        &self,
        out: &mut Parts,
        parent: &BlockHash,
        start: usize,
        tokens: &[u32],
    ) {
        out.clear();
        out.part(Tag::Parent, &parent.0).tokens(tokens);
        if let Some(adapter) = &self.adapter {
            out.part(Tag::Adapter, &adapter.0);
        }
        if start == 0
            && let Some(salt) = &self.salt
        {
            out.part(Tag::Salt, &salt.0);
        }
        self.write_media(out, start, tokens.len());
    }

    fn write_media(&self, out: &mut Parts, start: usize, tokens: usize) -> bool {
        let first =
            self.media.partition_point(|span| span.start.saturating_add(span.tokens) <= start);
        let mut any = false;
        for span in self.media[first..].iter().take_while(|span| span.start < start + tokens) {
            any = true;
            // The offset of the media against the block, which is negative when it began in an earlier one.
            let offset = span.start as i64 - start as i64;
            out.part(Tag::MediaDigest, &span.digest).part(Tag::MediaOffset, &offset.to_le_bytes());
        }
        any
    }

    /// Digest of the media in a block, `None` when there is none. Independent of the block hash.
    pub(crate) fn media_digest(&self, start: usize, tokens: usize) -> Option<[u8; 32]> {
        if self.media.is_empty() {
            return None;
        }
        let mut out = Parts::default();
        self.write_media(&mut out, start, tokens).then(|| out.sha256())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vLLM's issue 44701: an adapter named like another caller's salt met it in the first block. Here even the same 32 bytes in both roles stay apart.
    #[test]
    fn an_adapter_is_never_taken_for_a_salt() {
        let root = Root([1; 32]);
        let salted = PromptKeys::new(root).with_salt(b"victim");
        let Salt(bytes) = Salt::new(b"victim");
        let adapted = PromptKeys::new(root).with_adapter(AdapterDigest(bytes));
        let media = PromptKeys {
            media: vec![MediaSpan { digest: bytes, start: 0, tokens: 1 }],
            ..PromptKeys::new(root)
        };
        let form = |keys: &PromptKeys| {
            let mut out = Parts::default();
            keys.write_block(&mut out, &root.as_parent(), 0, &[1, 2, 3, 4]);
            out.bytes().to_vec()
        };
        let forms = [form(&salted), form(&adapted), form(&media), form(&PromptKeys::new(root))];
        for (at, one) in forms.iter().enumerate() {
            assert!(forms[at + 1..].iter().all(|other| other != one));
        }
        assert!(salted.scope() != adapted.scope());
    }
}
