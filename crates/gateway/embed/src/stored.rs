//! Vectors of the latest texts, by a digest of the text, within a budget of bytes.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use crate::embedder::Embedding;

type Key = [u8; 32];

/// What an entry takes beside its vector: key, order, map slots.
const OVERHEAD: usize = 160;

/// Least recently used goes first. The texts themselves are not kept.
pub(crate) struct Stored {
    budget: usize,
    bytes: usize,
    /// Counts uses; an entry's number is that of its last one.
    uses: u64,
    entries: HashMap<Key, (u64, Embedding)>,
    order: BTreeMap<u64, Key>,
}

impl Stored {
    pub(crate) fn new(budget: usize) -> Self {
        Stored { budget, bytes: 0, uses: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    pub(crate) fn get(&mut self, text: &str) -> Option<Embedding> {
        let key = key(text);
        let (last, embedding) = self.entries.get_mut(&key)?;
        self.order.remove(last);
        self.uses += 1;
        *last = self.uses;
        self.order.insert(self.uses, key);
        Some(embedding.clone())
    }

    pub(crate) fn put(&mut self, text: &str, embedding: Embedding) {
        let key = key(text);
        if self.entries.contains_key(&key) || size(&embedding) > self.budget {
            return;
        }
        self.bytes += size(&embedding);
        self.uses += 1;
        self.entries.insert(key, (self.uses, embedding));
        self.order.insert(self.uses, key);
        while self.bytes > self.budget {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            if let Some((_, gone)) = self.entries.remove(&oldest) {
                self.bytes -= size(&gone);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Stored::new(self.budget);
    }
}

fn size(embedding: &Embedding) -> usize {
    embedding.vector.len() * size_of::<f32>() + OVERHEAD
}

fn key(text: &str) -> Key {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn vector(x: f32) -> Embedding {
        Embedding { vector: [x; 4].into(), tokens: 1, truncated: false }
    }

    #[test]
    fn the_least_recently_used_goes_first_and_the_budget_holds() {
        let each = size(&vector(0.0));
        let mut stored = Stored::new(2 * each);
        stored.put("a", vector(1.0));
        stored.put("b", vector(2.0));
        assert_eq!(stored.get("a").unwrap(), vector(1.0));
        stored.put("c", vector(3.0));
        assert!(stored.get("b").is_none());
        assert!(stored.get("a").is_some() && stored.get("c").is_some());
        assert!(stored.bytes <= stored.budget && stored.order.len() == 2);
        stored.clear();
        assert!(stored.get("a").is_none());
    }

    #[test]
    fn what_never_fits_pushes_nothing_out() {
        let mut stored = Stored::new(size(&vector(0.0)));
        stored.put("a", vector(1.0));
        stored.put("b", Embedding { vector: vec![0.0; 100].into(), tokens: 1, truncated: false });
        assert!(stored.get("a").is_some());
    }
}
