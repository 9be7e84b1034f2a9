//! What another memory holds: a list of slots of equal size, each with a page or free. Pure bookkeeping; where the bytes are
//! is the owner's business.
//!
//! When all slots are taken, the page that was used longest ago makes room; of pages that were last used together, the tail of a
//! prompt goes before its head. A root may have a limit; one that has as many pages as it may makes room for its own among
//! them, and costs no other a slot.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use hashbrown::HashTable;

use crate::hash::BlockHash;
use crate::ids::GroupIndex;
use crate::keys::Root;

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotPage {
    /// Whose it is.
    pub root: Root,
    /// The block's hash.
    pub hash: BlockHash,
    /// The group of layers.
    pub group: GroupIndex,
    /// Block number in the prompt.
    pub number: u32,
    /// When it was last used, in whatever unit the owner counts.
    pub used: u64,
}

/// A page that was given a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The slot.
    pub slot: u32,
    /// Told of each placing once, so that word about what was in the slot before isn't taken for word about this.
    pub serial: u64,
    /// Whether another page made room.
    pub replaced: bool,
}

struct Entry {
    hash: BlockHash,
    /// Index into the owners: they are few.
    owner: u32,
    number: u32,
    used: u64,
    serial: u64,
    group: u16,
}

/// Oldest use first, then the tail first.
type Rank = (u64, Reverse<u32>, u32);

/// Whose pages they are.
struct Owner {
    root: Root,
    /// The most pages that it may have.
    limit: Option<usize>,
    /// Its pages, the first to go first.
    order: BTreeSet<Rank>,
}

/// The slots.
pub struct Slots {
    entries: Vec<Option<Entry>>,
    capacity: usize,
    by_hash: HashTable<u32>,
    order: BTreeSet<Rank>,
    /// Free slots below `entries.len()`.
    vacant: BTreeSet<u32>,
    owners: Vec<Owner>,
    owner_ids: HashMap<Root, u32>,
    serial: u64,
}

impl Slots {
    /// So many free slots.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            entries: Vec::new(),
            capacity: capacity as usize,
            by_hash: HashTable::new(),
            order: BTreeSet::new(),
            vacant: BTreeSet::new(),
            owners: Vec::new(),
            owner_ids: HashMap::new(),
            serial: 0,
        }
    }

    /// Slots in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Pages held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The slot that holds a block's page.
    #[must_use]
    pub fn find(&self, hash: &BlockHash, group: GroupIndex) -> Option<u32> {
        let is_it = |entry: &Entry| entry.hash == *hash && usize::from(entry.group) == group.0;
        self.by_hash.find(hash.short(), |&slot| self.entry(slot).is_some_and(is_it)).copied()
    }

    fn entry(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    /// What a slot holds.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<SlotPage> {
        self.entry(slot).map(|entry| SlotPage {
            root: self.owners[entry.owner as usize].root,
            hash: entry.hash,
            group: GroupIndex(entry.group.into()),
            number: entry.number,
            used: entry.used,
        })
    }

    /// The serial of what a slot holds.
    #[must_use]
    pub fn serial(&self, slot: u32) -> Option<u64> {
        self.entry(slot).map(|entry| entry.serial)
    }

    /// Sets how many pages a root may have; `None` for no limit. Returns the slots of those that it has too many, the first
    /// to go first: they stay held until they are [removed](Self::remove).
    pub fn set_limit(&mut self, root: &Root, limit: Option<usize>) -> Vec<u32> {
        if limit.is_none() && !self.owner_ids.contains_key(root) {
            return Vec::new();
        }
        let owner = self.owner_id(*root) as usize;
        let owner = &mut self.owners[owner];
        owner.limit = limit;
        let over = limit.map_or(0, |limit| owner.order.len().saturating_sub(limit));
        owner.order.iter().take(over).map(|&(_, _, slot)| slot).collect()
    }

    /// Finds a slot for a page: a free one, or that of the page that goes first, among the root's own where it has as many
    /// as it may. `None` where this one would go before all that may go, or is held already.
    pub fn place(&mut self, page: SlotPage) -> Option<Placed> {
        if self.find(&page.hash, page.group).is_some() {
            return None;
        }
        let owner = self.owner_ids.get(&page.root).map(|&owner| &self.owners[owner as usize]);
        let full = owner.filter(|it| it.limit.is_some_and(|limit| it.order.len() >= limit));
        let (slot, replaced) = if let Some(owner) = full {
            (Self::goes_first(owner.order.first(), &page)?, true)
        } else if let Some(&slot) = self.vacant.first() {
            (slot, false)
        } else if self.entries.len() < self.capacity {
            (self.entries.len() as u32, false)
        } else {
            (Self::goes_first(self.order.first(), &page)?, true)
        };
        if replaced {
            self.remove(slot);
        }
        self.put(slot, page).map(|serial| Placed { slot, serial, replaced })
    }

    /// The slot of the first to go, unless the new page would go before it.
    fn goes_first(first: Option<&Rank>, page: &SlotPage) -> Option<u32> {
        let &(used, number, slot) = first?;
        // A prompt that is longer than all slots keeps its head, however often it comes by.
        ((used, number) < (page.used, Reverse(page.number))).then_some(slot)
    }

    /// Puts a page where it lies already: for what is found at a start. Returns its serial; `None` where there is no such
    /// slot, it is taken, or the page is held already.
    pub fn put(&mut self, slot: u32, page: SlotPage) -> Option<u64> {
        let at = slot as usize;
        let group = u16::try_from(page.group.0).ok()?;
        let taken = self.entry(slot).is_some() || self.find(&page.hash, page.group).is_some();
        if at >= self.capacity || taken {
            return None;
        }
        while self.entries.len() <= at {
            self.vacant.insert(self.entries.len() as u32);
            self.entries.push(None);
        }
        self.vacant.remove(&slot);
        self.serial += 1;
        let owner = self.owner_id(page.root);
        let SlotPage { hash, number, used, .. } = page;
        self.entries[at] = Some(Entry { hash, owner, number, used, serial: self.serial, group });
        self.order.insert((used, Reverse(number), slot));
        self.owners[owner as usize].order.insert((used, Reverse(number), slot));
        let entries = &self.entries;
        let key = |&other: &u32| entries[other as usize].as_ref().map_or(0, |it| it.hash.short());
        self.by_hash.insert_unique(hash.short(), slot, key);
        Some(self.serial)
    }

    fn owner_id(&mut self, root: Root) -> u32 {
        *self.owner_ids.entry(root).or_insert_with(|| {
            self.owners.push(Owner { root, limit: None, order: BTreeSet::new() });
            self.owners.len() as u32 - 1
        })
    }

    /// Notes a later use. `true`: it is later than what was known.
    pub fn touch(&mut self, slot: u32, used: u64) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(slot as usize) else { return false };
        if entry.used >= used {
            return false;
        }
        let (before, after) =
            ((entry.used, Reverse(entry.number), slot), (used, Reverse(entry.number), slot));
        entry.used = used;
        for order in [&mut self.order, &mut self.owners[entry.owner as usize].order] {
            order.remove(&before);
            order.insert(after);
        }
        true
    }

    /// Frees a slot. `false`: it was free.
    pub fn remove(&mut self, slot: u32) -> bool {
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::take) else {
            return false;
        };
        let rank = (entry.used, Reverse(entry.number), slot);
        self.order.remove(&rank);
        self.owners[entry.owner as usize].order.remove(&rank);
        if let Ok(found) = self.by_hash.find_entry(entry.hash.short(), |&other| other == slot) {
            found.remove();
        }
        self.vacant.insert(slot);
        true
    }

    /// The slots with pages under a root.
    #[must_use]
    pub fn of_root(&self, root: &Root) -> Vec<u32> {
        let Some(&owner) = self.owner_ids.get(root) else { return Vec::new() };
        self.owners[owner as usize].order.iter().map(|&(_, _, slot)| slot).collect()
    }

    /// The roots that have pages.
    pub fn roots(&self) -> impl Iterator<Item = Root> + '_ {
        self.owners.iter().filter(|owner| !owner.order.is_empty()).map(|owner| owner.root)
    }

    /// The slots whose pages were last used no later than this.
    #[must_use]
    pub fn used_until(&self, used: u64) -> Vec<u32> {
        self.order.iter().take_while(|rank| rank.0 <= used).map(|&(_, _, slot)| slot).collect()
    }

    /// Frees every slot. Limits stay.
    pub fn clear(&mut self) {
        let new = Self::new(u32::try_from(self.capacity).unwrap_or(u32::MAX));
        let mut before = std::mem::replace(self, new);
        self.serial = before.serial;
        before.owners.iter_mut().for_each(|owner| owner.order.clear());
        (self.owners, self.owner_ids) = (before.owners, before.owner_ids);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(name: u8, number: u32, used: u64) -> SlotPage {
        SlotPage {
            root: Root::from_bytes([name % 3; 32]),
            hash: BlockHash([name; 32]),
            group: GroupIndex(0),
            number,
            used,
        }
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_of_one_prompt_its_tail() {
        let mut slots = Slots::new(3);
        for (name, number, used) in [(1, 0, 5), (2, 1, 5), (3, 7, 9)] {
            assert!(!slots.place(page(name, number, used)).unwrap().replaced);
        }
        assert_eq!(slots.place(page(4, 0, 4)), None, "older than all that is held");
        let placed = slots.place(page(4, 0, 6)).unwrap();
        assert!(placed.replaced);
        let held = |name| slots.find(&BlockHash([name; 32]), GroupIndex(0)).is_some();
        assert_eq!([1, 2, 3, 4].map(held), [true, false, true, true]);
        assert_eq!(slots.place(page(4, 0, 7)), None, "it is held already");
    }

    #[test]
    fn of_a_prompt_that_is_longer_than_all_slots_the_head_stays() {
        let mut slots = Slots::new(3);
        for _ in 0..2 {
            for name in 0..6 {
                let placed = slots.place(page(name, name.into(), 5));
                assert!(name < 3 || placed.is_none());
            }
        }
        assert!((0..3).all(|name| slots.find(&BlockHash([name; 32]), GroupIndex(0)).is_some()));
    }

    #[test]
    fn a_slot_has_another_serial_for_each_page() {
        let mut slots = Slots::new(1);
        let first = slots.place(page(1, 0, 1)).unwrap();
        let second = slots.place(page(2, 0, 2)).unwrap();
        assert_eq!(first.slot, second.slot);
        assert_ne!(first.serial, second.serial);
        slots.clear();
        assert!(slots.place(page(3, 0, 0)).unwrap().serial > second.serial);
    }

    #[test]
    fn who_has_its_limit_makes_room_among_its_own() {
        let mut slots = Slots::new(5);
        let root = Root::from_bytes([1; 32]);
        // The names 1, 4, 7 and 10 are of that root, 2 and 5 of another.
        for (name, used) in [(1, 3), (4, 4), (2, 1), (7, 5)] {
            assert!(!slots.place(page(name, 0, used)).unwrap().replaced);
        }
        let over = slots.set_limit(&root, Some(2));
        assert_eq!(over, [slots.find(&BlockHash([1; 32]), GroupIndex(0)).unwrap()]);
        over.into_iter().for_each(|slot| assert!(slots.remove(slot)));
        let held =
            |slots: &Slots, name| slots.find(&BlockHash([name; 32]), GroupIndex(0)).is_some();
        // There are free slots, and an older page of another's: neither is for it.
        assert!(slots.place(page(10, 0, 6)).unwrap().replaced);
        assert!(!held(&slots, 4) && held(&slots, 7) && held(&slots, 2) && held(&slots, 10));
        assert_eq!(slots.place(page(4, 0, 2)), None, "it would be the first of its own to go");
        assert!(!slots.place(page(5, 0, 0)).unwrap().replaced);
        assert_eq!(slots.roots().count(), 2);
        slots.clear();
        for name in [1, 4, 7] {
            slots.place(page(name, 0, u64::from(name)));
        }
        assert_eq!(slots.of_root(&root).len(), 2, "a limit outlives what it is of");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// Against a plain list that is searched.
        #[test]
        fn slots_are_like_a_list(
            ops in prop::collection::vec((0u8..6, 0u8..12, 0u64..30), 1..120)
        ) {
            let mut slots = Slots::new(5);
            let mut limits = [None::<usize>; 3];
            let mut list: Vec<(u32, SlotPage)> = Vec::new();
            for (op, name, used) in ops {
                match op {
                    0 | 1 => {
                        let new = page(name, u32::from(name), used);
                        let is_held = list.iter().any(|(_, held)| held.hash == new.hash);
                        let rank = |it: &SlotPage| (it.used, Reverse(it.number));
                        let limit = limits[usize::from(name % 3)];
                        let own = list.iter().filter(|(_, held)| held.root == new.root).count();
                        let is_full = limit.is_some_and(|limit| own >= limit);
                        let may_go = list.iter().filter(|(_, held)| !is_full || held.root == new.root);
                        let oldest = may_go.min_by_key(|(slot, it)| (rank(it), *slot));
                        let oldest = oldest.map(|(slot, it)| (*slot, rank(it)));
                        match slots.place(new) {
                            None => prop_assert!(
                                is_held || oldest.is_some_and(|(_, least)| least >= rank(&new))
                            ),
                            Some(placed) => {
                                prop_assert!(!is_held);
                                prop_assert_eq!(placed.replaced, is_full || list.len() == 5);
                                if placed.replaced {
                                    prop_assert_eq!(Some(placed.slot), oldest.map(|(slot, _)| slot));
                                    list.retain(|(slot, _)| *slot != placed.slot);
                                }
                                prop_assert!(list.iter().all(|(slot, _)| *slot != placed.slot));
                                list.push((placed.slot, new));
                            }
                        }
                    }
                    2 => {
                        if let Some((slot, held)) = list.iter_mut().find(|(_, held)| held.number == u32::from(name)) {
                            prop_assert_eq!(slots.touch(*slot, used), held.used < used);
                            held.used = held.used.max(used);
                        }
                    }
                    3 => {
                        if let Some(at) = list.iter().position(|(_, held)| held.number == u32::from(name)) {
                            let (slot, _) = list.remove(at);
                            prop_assert!(slots.remove(slot) && !slots.remove(slot));
                        }
                    }
                    4 => {
                        let (at, root) = (usize::from(name % 3), Root::from_bytes([name % 3; 32]));
                        limits[at] = (used < 20).then_some(1 + used as usize % 4);
                        let over = slots.set_limit(&root, limits[at]);
                        let mut own: Vec<_> =
                            list.iter().filter(|(_, held)| held.root == root).copied().collect();
                        own.sort_by_key(|(slot, it)| (it.used, Reverse(it.number), *slot));
                        let most = limits[at].unwrap_or(usize::MAX);
                        own.truncate(own.len().saturating_sub(most));
                        prop_assert_eq!(&over, &own.iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
                        for slot in over {
                            prop_assert!(slots.remove(slot));
                            list.retain(|(held, _)| *held != slot);
                        }
                    }
                    _ => {
                        let root = Root::from_bytes([name % 3; 32]);
                        let mut mine = slots.of_root(&root);
                        mine.sort_unstable();
                        let mut theirs: Vec<u32> =
                            list.iter().filter(|(_, held)| held.root == root).map(|(slot, _)| *slot).collect();
                        theirs.sort_unstable();
                        prop_assert_eq!(mine, theirs);
                        let old = list.iter().filter(|(_, held)| held.used <= used).count();
                        prop_assert_eq!(slots.used_until(used).len(), old);
                    }
                }
                prop_assert_eq!(slots.len(), list.len());
                for root in slots.roots() {
                    prop_assert!(list.iter().any(|(_, held)| held.root == root));
                }
                for (slot, held) in &list {
                    prop_assert_eq!(slots.find(&held.hash, held.group), Some(*slot));
                    prop_assert_eq!(slots.get(*slot), Some(*held));
                }
            }
        }
    }
}
