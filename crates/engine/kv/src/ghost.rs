//! Hashes of blocks that are gone, to tell "evicted" from "never seen".

use std::collections::{HashMap, VecDeque};

use crate::hash::BlockHash;

/// Why a block is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    Evicted,
    Expired,
}

/// A bounded list, oldest dropped first. Keeps eight bytes of a hash: a mix-up would only name a wrong reason.
pub(crate) struct Ghosts {
    capacity: usize,
    causes: HashMap<u64, (Gone, u64)>,
    order: VecDeque<(u64, u64)>,
    serial: u64,
    overflowed: bool,
}

impl Ghosts {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            causes: HashMap::new(),
            order: VecDeque::new(),
            serial: 0,
            overflowed: false,
        }
    }

    pub(crate) fn insert(&mut self, hash: &BlockHash, cause: Gone) {
        self.serial += 1;
        self.causes.insert(hash.short(), (cause, self.serial));
        self.order.push_back((hash.short(), self.serial));
        while self.causes.len() > self.capacity {
            if let Some((key, serial)) = self.order.pop_front()
                && self.causes.get(&key).is_some_and(|&(_, newest)| newest == serial)
            {
                self.causes.remove(&key);
                self.overflowed = true;
            }
        }
        // Entries of hashes that came back are stale; dropping them in bulk keeps the queue within twice the list.
        if self.order.len() > self.capacity.saturating_mul(2).max(16) {
            let causes = &self.causes;
            self.order.retain(|(key, serial)| {
                causes.get(key).is_some_and(|(_, newest)| newest == serial)
            });
        }
    }

    /// The block came back.
    pub(crate) fn remove(&mut self, hash: &BlockHash) {
        if !self.causes.is_empty() {
            self.causes.remove(&hash.short());
        }
    }

    pub(crate) fn get(&self, hash: &BlockHash) -> Option<Gone> {
        self.causes.get(&hash.short()).map(|&(cause, _)| cause)
    }

    /// Whether a block made room no more than `evictions` evictions ago.
    pub(crate) fn evicted_within(&self, hash: &BlockHash, evictions: u64) -> bool {
        self.causes.get(&hash.short()).is_some_and(|&(cause, serial)| {
            cause == Gone::Evicted && self.serial - serial < evictions
        })
    }

    /// Whether a hash may have been dropped from the list.
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    pub(crate) fn len(&self) -> usize {
        self.causes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.causes.clear();
        self.order.clear();
        self.overflowed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u8) -> BlockHash {
        BlockHash([number; 32])
    }

    #[test]
    fn what_came_back_is_no_ghost_and_does_not_overflow_the_list() {
        let mut ghosts = Ghosts::new(3);
        for round in 0..100 {
            ghosts.insert(&hash(round % 3), Gone::Evicted);
            assert_eq!(ghosts.get(&hash(round % 3)), Some(Gone::Evicted));
            ghosts.remove(&hash(round % 3));
            assert_eq!(ghosts.get(&hash(round % 3)), None);
        }
        assert!(!ghosts.overflowed() && ghosts.len() == 0 && ghosts.order.len() <= 16);
        for number in 0..4 {
            ghosts.insert(&hash(number), Gone::Expired);
        }
        assert!(ghosts.overflowed());
        assert_eq!(
            [0, 1, 2, 3].map(|number| ghosts.get(&hash(number)).is_some()),
            [false, true, true, true]
        );
    }

    #[test]
    fn an_empty_list_knows_nothing() {
        let mut ghosts = Ghosts::new(0);
        ghosts.insert(&hash(1), Gone::Evicted);
        assert!(ghosts.overflowed() && ghosts.get(&hash(1)).is_none());
    }
}
