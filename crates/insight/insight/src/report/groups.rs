//! Sums by name, for a bounded number of names.

use std::collections::BTreeMap;

use super::{Observation, Totals};

/// Sums by a key. Keys beyond the limit share one sum, so a log with a name of its own on every line costs no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups<K> {
    named: BTreeMap<K, Totals>,
    limit: usize,
    /// Calls whose key came after the limit was reached.
    pub beyond: Option<Totals>,
}

impl<K: Ord + Clone> Groups<K> {
    pub(super) fn new(limit: usize) -> Self {
        Groups { named: BTreeMap::new(), limit, beyond: None }
    }

    pub(super) fn add<Q>(&mut self, key: &Q, call: &Observation)
    where
        K: std::borrow::Borrow<Q>,
        Q: Ord + ?Sized + ToOwned<Owned = K>,
    {
        if let Some(totals) = self.named.get_mut(key) {
            totals.add(call);
        } else if self.named.len() < self.limit {
            self.named.entry(key.to_owned()).or_default().add(call);
        } else {
            self.beyond.get_or_insert_default().add(call);
        }
    }

    /// The sums, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Totals)> {
        self.named.iter()
    }

    /// How many keys have a sum of their own.
    #[must_use]
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The sums, the most prompt tokens first.
    #[must_use]
    pub fn by_size(&self) -> Vec<(&K, &Totals)> {
        let mut all: Vec<_> = self.named.iter().collect();
        all.sort_by_key(|(_, totals)| std::cmp::Reverse((totals.prompt, totals.calls)));
        all
    }
}
