//! Answers in memory, bounded by bytes; the least recently used goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Filter, StoreStats};
use crate::exact::{Entry, Key};

/// What an entry takes besides its text: its place in the maps, its key, its tags.
const OVERHEAD: usize = 512;

/// Sessions that are remembered for an answer. One more, and the answer goes: it could not be found by that name when
/// the session is erased.
pub(crate) const MAX_SESSIONS: usize = 256;

/// Answers in memory. Plain data: its owner locks it.
#[derive(Debug)]
pub struct Memory {
    limit: usize,
    bytes: usize,
    entries: u64,
    slots: HashMap<Key, Slot>,
    /// Keys by their last use.
    order: BTreeMap<u64, Key>,
    uses: u64,
}

#[derive(Debug)]
struct Slot {
    used: u64,
    bytes: usize,
    /// By slot; the bytes of each.
    variants: BTreeMap<usize, (Arc<Entry>, usize)>,
    /// How often it answered, for taking turns.
    served: usize,
}

impl Memory {
    /// An empty one with room for so many bytes.
    pub fn new(limit: usize) -> Self {
        Memory {
            limit,
            bytes: 0,
            entries: 0,
            slots: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
        }
    }

    /// The answers under a key, with the slot of each.
    pub fn get(&mut self, key: &Key) -> Vec<(usize, Arc<Entry>)> {
        let Some(slot) = self.slots.get_mut(key) else { return Vec::new() };
        self.order.remove(&slot.used);
        self.uses += 1;
        slot.used = self.uses;
        self.order.insert(self.uses, *key);
        slot.variants.iter().map(|(&at, (entry, _))| (at, Arc::clone(entry))).collect()
    }

    /// The number of times that a key answered before, for taking turns.
    pub fn turn(&mut self, key: &Key) -> usize {
        let Some(slot) = self.slots.get_mut(key) else { return 0 };
        slot.served = slot.served.wrapping_add(1);
        slot.served.wrapping_sub(1)
    }

    /// Keeps an answer of so many bytes. One that is larger than all the room is not kept.
    pub fn put(&mut self, key: Key, at: usize, entry: Arc<Entry>, bytes: usize) {
        let bytes = bytes + OVERHEAD;
        if bytes > self.limit {
            return;
        }
        self.uses += 1;
        let slot = self.slots.entry(key).or_insert_with(|| Slot {
            used: 0,
            bytes: 0,
            variants: BTreeMap::new(),
            served: 0,
        });
        self.order.remove(&slot.used);
        slot.used = self.uses;
        self.order.insert(self.uses, key);
        if let Some((_, old)) = slot.variants.insert(at, (entry, bytes)) {
            slot.bytes -= old;
            self.bytes -= old;
            self.entries -= 1;
        }
        slot.bytes += bytes;
        self.bytes += bytes;
        self.entries += 1;
        while self.bytes > self.limit
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            let oldest = *oldest;
            self.delete(&oldest);
        }
    }

    /// Notes that a session got the answers under a key. `None`: it was known, or there are none. `Some(false)`: there
    /// is no room for another name, so that the answers should go.
    pub fn tag(&mut self, key: &Key, session: &str) -> Option<bool> {
        let slot = self.slots.get_mut(key)?;
        let mut added = None;
        for (entry, bytes) in slot.variants.values_mut() {
            if !entry.tags.sessions.iter().any(|known| known == session) {
                if entry.tags.sessions.len() >= MAX_SESSIONS {
                    return Some(false);
                }
                let entry = Arc::make_mut(entry);
                entry.tags.sessions.push(session.to_owned());
                let more = session.len() + 24;
                *bytes += more;
                slot.bytes += more;
                self.bytes += more;
                added = Some(true);
            }
        }
        added
    }

    /// Forgets what is under a key.
    pub fn delete(&mut self, key: &Key) {
        if let Some(slot) = self.slots.remove(key) {
            self.order.remove(&slot.used);
            self.bytes -= slot.bytes;
            self.entries -= slot.variants.len() as u64;
        }
    }

    /// Erases what a filter matches; returns how many answers went.
    pub fn purge(&mut self, filter: &Filter, now: u64) -> u64 {
        let before = self.entries;
        for slot in self.slots.values_mut() {
            let gone = slot.variants.extract_if(.., |_, (entry, _)| {
                filter.matches(&entry.tags, entry.created_millis(), now)
            });
            let (count, bytes) = gone.fold((0, 0), |(n, sum), (_, (_, b))| (n + 1, sum + b));
            slot.bytes -= bytes;
            self.bytes -= bytes;
            self.entries -= count;
        }
        let order = &mut self.order;
        self.slots.retain(|_, slot| {
            let keep = !slot.variants.is_empty();
            if !keep {
                order.remove(&slot.used);
            }
            keep
        });
        before - self.entries
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Memory { uses: self.uses, ..Memory::new(self.limit) };
    }

    /// What it holds. Never more bytes than its limit. Looks at every entry, some 50 ns each.
    pub fn stats(&self) -> StoreStats {
        let entries = self.slots.values().flat_map(|slot| slot.variants.values());
        let oldest = entries.map(|(entry, _)| entry.created_millis()).min();
        StoreStats { entries: self.entries, bytes: self.bytes as u64, oldest }
    }
}
