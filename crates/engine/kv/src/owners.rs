//! Owners: the tenants whose blocks are counted apart, and how many each may have.
//!
//! An owner is a chain's root, which is a tenant's whatever salts its calls have. Everything that its calls use and all that is
//! stored under its root counts: a block that two of its calls share, once. An owner with a limit evicts its own cached
//! blocks first once it has all that it may have, and a call that can't fit in what its calls leave of the limit waits or is
//! refused, as on the budget itself. (The rule is that of static cache partitioning with a shared pool below the limit; Suh,
//! Devadas and Rudolph, "A new memory monitoring scheme for memory-aware scheduling and partitioning", HPCA 2002.)

use std::collections::HashMap;

use crate::keys::Root;
use crate::pool::{OwnerId, Pool};

#[derive(Clone, Copy, Default)]
struct Owner {
    limit: Option<usize>,
    /// Blocks that are counted on for its running calls and not yet handed out.
    promised: usize,
    /// Calls that are known of it.
    calls: usize,
}

/// All owners.
#[derive(Default)]
pub(crate) struct Owners {
    by_root: HashMap<Root, OwnerId>,
    all: Vec<Owner>,
    /// The root of each.
    roots: Vec<Root>,
    /// Numbers that can be given again.
    left: Vec<OwnerId>,
}

impl Owners {
    /// The owner of a root, for a call that is to be known from now on.
    pub(crate) fn enter(&mut self, root: &Root, pool: &Pool) -> OwnerId {
        if let Some(&owner) = self.by_root.get(root) {
            self.all[owner.0 as usize].calls += 1;
            return owner;
        }
        if self.left.is_empty() {
            self.reclaim(pool);
        }
        let owner = self.left.pop().unwrap_or_else(|| {
            self.all.push(Owner::default());
            self.roots.push(*root);
            OwnerId(self.all.len() as u32 - 1)
        });
        self.all[owner.0 as usize] = Owner { calls: 1, ..Owner::default() };
        self.roots[owner.0 as usize] = *root;
        self.by_root.insert(*root, owner);
        owner
    }

    /// Forgets those who have neither calls nor blocks. Walks over all owners, once for each that is new.
    fn reclaim(&mut self, pool: &Pool) {
        let all = &self.all;
        let left = &mut self.left;
        self.by_root.retain(|_, owner| {
            let stays = all[owner.0 as usize].calls > 0 || pool.owned(*owner) != (0, 0);
            if !stays {
                left.push(*owner);
            }
            stays
        });
    }

    /// A call of it is known no more.
    pub(crate) fn leave(&mut self, owner: OwnerId) {
        self.all[owner.0 as usize].calls -= 1;
    }

    /// The owner of a root, where there is one.
    pub(crate) fn find(&self, root: &Root) -> Option<OwnerId> {
        self.by_root.get(root).copied()
    }

    /// The roots of all who may have calls or blocks.
    pub(crate) fn roots(&self) -> Vec<Root> {
        let mut roots: Vec<Root> = self.by_root.keys().copied().collect();
        // A map's order is another each time, and what goes first is to be seen in tests.
        roots.sort_unstable_by_key(|root| *root.as_bytes());
        roots
    }

    /// An owner's root.
    pub(crate) fn root(&self, owner: OwnerId) -> Root {
        self.roots[owner.0 as usize]
    }

    /// The most blocks that it may have; the latest call's word holds.
    pub(crate) fn set_limit(&mut self, owner: OwnerId, limit: Option<usize>) {
        self.all[owner.0 as usize].limit = limit;
    }

    pub(crate) fn limit(&self, owner: OwnerId) -> Option<usize> {
        self.all[owner.0 as usize].limit
    }

    /// The most blocks that it may come to have: its limit, or the whole pool.
    pub(crate) fn most(&self, owner: OwnerId, pool: &Pool) -> usize {
        self.limit(owner).map_or(pool.capacity(), |limit| limit.min(pool.capacity()))
    }

    /// Whether it has all that it may have.
    pub(crate) fn is_full(&self, owner: OwnerId, pool: &Pool) -> bool {
        let (used, cached) = pool.owned(owner);
        self.limit(owner).is_some_and(|limit| used + cached >= limit)
    }

    /// Blocks that its calls may still come to use, evicting what is its own. `None` where it has no limit.
    pub(crate) fn room(&self, owner: OwnerId, pool: &Pool) -> Option<usize> {
        Some(self.limit(owner)?.saturating_sub(pool.owned(owner).0))
    }

    pub(crate) fn promised(&self, owner: OwnerId) -> usize {
        self.all[owner.0 as usize].promised
    }

    /// Of its promises one is renewed.
    pub(crate) fn promise(&mut self, owner: OwnerId, before: usize, after: usize) {
        let promised = &mut self.all[owner.0 as usize].promised;
        *promised = *promised - before + after;
    }
}
