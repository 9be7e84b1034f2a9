//! A bounded cache from a fragment of text to its tokens, shared by threads.
//!
//! Both tokenizers cut text where no token can cross and treat the fragments one by one. Prose repeats its fragments,
//! so most of them are only looked up. An entry never changes what is returned: the tokens of a fragment depend on
//! nothing but the fragment.

use std::{
    hash::BuildHasher,
    sync::{PoisonError, RwLock},
};

use hashbrown::{DefaultHashBuilder, HashTable};
use tapri_gguf::TokenId;

/// Locks that threads rarely meet at.
const SHARDS: usize = 16;

/// Entries of one shard; a full shard is emptied. With fragments of at most `MAX_BYTES` all shards stay below 15 MB.
const SHARD_ENTRIES: usize = 4096;

/// Longer fragments are seldom repeated.
const MAX_BYTES: usize = 64;

#[derive(Debug)]
struct Entry {
    fragment: Box<str>,
    tokens: Box<[TokenId]>,
}

#[derive(Debug)]
pub(crate) struct FragmentCache {
    hasher: DefaultHashBuilder,
    shards: [RwLock<HashTable<Entry>>; SHARDS],
}

impl FragmentCache {
    pub(crate) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: std::array::from_fn(|_| RwLock::default()),
        }
    }

    /// Appends the tokens of `fragment` to `out`, by `compute` if they aren't known yet; they are from then on if `keep`.
    pub(crate) fn tokens(
        &self,
        fragment: &str,
        keep: bool,
        out: &mut Vec<TokenId>,
        compute: impl FnOnce(&str, &mut Vec<TokenId>),
    ) {
        if fragment.len() > MAX_BYTES {
            return compute(fragment, out);
        }
        let hash = self.hasher.hash_one(fragment);
        // The table takes its buckets from the low bits and its tags from the highest seven.
        let shard = &self.shards[(hash >> 48) as usize % SHARDS];
        {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = shard.find(hash, |entry| *entry.fragment == *fragment) {
                return out.extend_from_slice(&entry.tokens);
            }
        }
        let start = out.len();
        compute(fragment, out);
        if !keep {
            return;
        }
        let entry = Entry { fragment: fragment.into(), tokens: out[start..].into() };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= SHARD_ENTRIES {
            shard.clear();
        }
        let hasher = &self.hasher;
        // Another thread may have added it meanwhile.
        shard
            .entry(
                hash,
                |other| *other.fragment == *fragment,
                |entry| hasher.hash_one(&*entry.fragment),
            )
            .or_insert(entry);
    }

    /// Forgets all fragments.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            shard.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner).len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_fragment_is_computed_once_and_the_cache_is_bounded() {
        let cache = FragmentCache::new();
        let ids = |word: &str| {
            let (mut out, mut computed) = (Vec::new(), false);
            cache.tokens(word, true, &mut out, |word, out| {
                computed = true;
                out.extend(word.bytes().map(|byte| TokenId(byte.into())));
            });
            (out.iter().map(|id| id.0 as u8).collect::<Vec<u8>>(), computed)
        };
        assert_eq!(ids("word"), (b"word".to_vec(), true));
        assert_eq!(ids("word"), (b"word".to_vec(), false));
        let long = "x".repeat(MAX_BYTES + 1);
        assert!(ids(&long).1 && ids(&long).1, "a long fragment is not kept");
        for number in 0..3 * SHARDS * SHARD_ENTRIES {
            assert_eq!(ids(&number.to_string()).0, number.to_string().as_bytes());
        }
        assert!(cache.len() <= SHARDS * SHARD_ENTRIES);
    }

    #[test]
    fn what_is_not_to_be_kept_is_not() {
        let cache = FragmentCache::new();
        let mut out = Vec::new();
        cache.tokens("secret", false, &mut out, |_, out| out.push(TokenId(1)));
        assert_eq!((out.len(), cache.len()), (1, 0));
        cache.tokens("word", true, &mut out, |_, out| out.push(TokenId(2)));
        cache.tokens("word", false, &mut out, |_, out| out.push(TokenId(9)));
        assert_eq!(out, [TokenId(1), TokenId(2), TokenId(2)], "what is known may be used");
        cache.clear();
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn threads_share_it() {
        let cache = FragmentCache::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..5000u32 {
                        let mut out = vec![TokenId(7)];
                        cache.tokens(&(number % 900).to_string(), true, &mut out, |_, out| {
                            out.push(TokenId(number % 900))
                        });
                        assert_eq!(out, [TokenId(7), TokenId(number % 900)]);
                    }
                });
            }
        });
        assert_eq!(cache.len(), 900);
    }
}
