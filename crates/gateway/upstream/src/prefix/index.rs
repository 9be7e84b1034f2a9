//! Which replica has seen which start of a prompt, and when: in bounded memory.
//!
//! Entries are kept in two generations. What is used goes into the young one; when that is full the old one is
//! dropped and the young one grows old. So what wasn't used for a whole generation is forgotten, in constant time
//! and without a list to keep in order (the clock-like scheme of two-space caches).

use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// A block of a start, and a replica.
type Key = (u64, u32);

/// The index.
#[derive(Debug)]
pub struct Index {
    young: HashMap<Key, Instant>,
    old: HashMap<Key, Instant>,
    /// Entries of a generation.
    half: usize,
}

impl Index {
    /// With room for so many blocks.
    pub fn new(most: usize) -> Self {
        Index { young: HashMap::new(), old: HashMap::new(), half: (most / 2).max(1) }
    }

    /// How many of the first blocks a replica has seen within its lifetime.
    pub fn seen(
        &self,
        blocks: &[u64],
        replica: u32,
        life: Option<Duration>,
        now: Instant,
    ) -> usize {
        let fresh = |used: &Instant| life.is_none_or(|life| now.duration_since(*used) < life);
        blocks
            .iter()
            .take_while(|block| {
                let key = (**block, replica);
                self.young.get(&key).or_else(|| self.old.get(&key)).is_some_and(fresh)
            })
            .count()
    }

    /// A replica reads a prompt now: it has its start from now on.
    pub fn reads(&mut self, blocks: &[u64], replica: u32, now: Instant) {
        // Tail first, as caches forget tail first: what is left of a start that was cut down is its head.
        for &block in blocks.iter().rev() {
            if self.young.len() >= self.half {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert((block, replica), now);
        }
    }

    /// A replica has not read it after all: what it had not seen before is taken back.
    pub fn forget(&mut self, blocks: &[u64], replica: u32) {
        for &block in blocks {
            self.young.remove(&(block, replica));
            self.old.remove(&(block, replica));
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lives_as_long_as_the_providers_cache() {
        let (start, life) = (Instant::now(), Some(Duration::from_secs(300)));
        let mut index = Index::new(100);
        index.reads(&[1, 2, 3], 0, start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(index.seen(&[1, 2, 4], 0, life, at(299)), 2);
        assert_eq!(index.seen(&[1, 2, 3], 1, life, at(1)), 0, "another replica");
        index.reads(&[1, 2], 0, at(299));
        assert_eq!(index.seen(&[1, 2, 3], 0, life, at(301)), 2, "the rest was not used again");
        index.forget(&[2], 0);
        assert_eq!(index.seen(&[1, 2, 3], 0, None, at(301)), 1);
    }

    proptest! {
        /// Memory is bounded, and what was read last is there.
        #[test]
        fn bounded(prompts in prop::collection::vec((0u64..50, 1u64..20, 0u32..3), 1..200)) {
            let mut index = Index::new(60);
            for (first, length, replica) in prompts {
                let blocks: Vec<u64> = (0..length).map(|n| first * 1000 + n).collect();
                index.reads(&blocks, replica, Instant::now());
                prop_assert!(index.len() <= 60);
                prop_assert_eq!(index.seen(&blocks, replica, None, Instant::now()), blocks.len());
            }
        }
    }
}
