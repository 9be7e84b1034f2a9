//! Which keys the file may hold, so that a call for what isn't there doesn't wait for the file's thread.
//!
//! Most calls are for something new. Handing such a question to the thread and back costs two switches between threads,
//! more than all else that the cache does for it. A key that is missing here though the file has it costs a miss; it
//! happens for what another process stored since the file was last looked at.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::exact::Key;

/// The most keys that are remembered: some 18 MB. With more in the file, the file is asked each time.
pub(super) const MOST: usize = 1 << 20;

/// The keys of a file, by their first eight bytes. Keys are hashes, so that these are as good as any.
#[derive(Debug)]
pub(super) struct Known {
    /// `None`: there are too many, or it isn't known.
    keys: Mutex<Option<HashSet<u64>>>,
}

impl Known {
    /// Nothing is known yet.
    pub(super) fn nothing() -> Self {
        Known { keys: Mutex::new(None) }
    }

    fn keys(&self) -> MutexGuard<'_, Option<HashSet<u64>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are all.
    pub(super) fn begin(&self, keys: HashSet<u64>) {
        *self.keys() = (keys.len() <= MOST).then_some(keys);
    }

    /// These are there as well.
    pub(super) fn add(&self, more: impl IntoIterator<Item = u64>) {
        let mut keys = self.keys();
        if let Some(known) = &mut *keys {
            known.extend(more);
            if known.len() > MOST {
                *keys = None;
            }
        }
    }

    /// It is not known any more what is there.
    pub(super) fn forget(&self) {
        *self.keys() = None;
    }

    /// Whether keys are remembered at all.
    pub(super) fn is_known(&self) -> bool {
        self.keys().is_some()
    }

    /// Whether the file holds nothing under a key.
    pub(super) fn lacks(&self, key: &Key) -> bool {
        self.keys().as_ref().is_some_and(|keys| !keys.contains(&short(key.as_bytes())))
    }
}

/// The part of a key that is remembered.
pub(super) fn short(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    first.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_asked_for() {
        let known = Known::nothing();
        let (a, b) = (Key::from_bytes([1; 32]), Key::from_bytes([2; 32]));
        assert!(!known.lacks(&a), "nothing is known");
        known.begin(HashSet::new());
        assert!(known.lacks(&a));
        known.add([short(a.as_bytes())]);
        assert!(!known.lacks(&a) && known.lacks(&b));
        known.add(0..=MOST as u64);
        assert!(!known.lacks(&b), "too many to remember");
        known.begin(HashSet::new());
        known.forget();
        assert!(!known.lacks(&b));
    }
}
