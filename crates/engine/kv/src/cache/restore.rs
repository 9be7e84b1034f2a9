//! Blocks that another memory holds: what is worth keeping there, and how it comes back.
//!
//! Reading takes time, so it is a stage of an admitted call: it has the blocks that it needs from the start, other calls that
//! go on like it wait for it as for any writer, and if the reading fails it computes what is missing.

use std::cmp::Reverse;

use crate::call::{Call, State};
use crate::hash::BlockHash;
use crate::ids::{BlockId, CallId, GroupIndex, Moment};
use crate::page::Page;
use crate::reason::{Stop, StopReason};
use crate::tree::NodeId;

use super::progress::running;
use super::{CallError, NoRoom, PrefixCache, Ready};

/// What a call could have back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restorable {
    /// The first block number that is not there.
    pub from: usize,
    /// The block number up to which all would be there.
    pub upto: usize,
    /// The pages to read, heads first.
    pub pages: Vec<WantedPage>,
}

/// A page to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WantedPage {
    /// Its hash.
    pub hash: BlockHash,
    /// The hash of the block before it, or the chain's root.
    pub parent: BlockHash,
    /// Block number in the prompt.
    pub number: usize,
    /// The group of layers.
    pub group: GroupIndex,
}

impl PrefixCache {
    /// What made room since the last time, with [`CacheConfig::spill`](crate::CacheConfig::spill). What was in the blocks
    /// lies there until something else is written: ask after every [`reserve`](Self::reserve), [`fork`](Self::fork) and
    /// [`begin_restore`](Self::begin_restore), before anything is.
    pub fn take_leaving(&mut self) -> Vec<Page> {
        std::mem::take(&mut self.store.leaving)
    }

    /// The stored blocks that are worth keeping elsewhere and that `is_wanted`: the last used first, heads before tails.
    /// The work is linear in what is stored.
    pub fn pages(
        &self,
        mut is_wanted: impl FnMut(&BlockHash, GroupIndex, Moment) -> bool,
    ) -> Vec<Page> {
        let store = &self.store;
        let mut pages = Vec::new();
        for node in store.tree.ids() {
            if store.is_expired(node) {
                continue;
            }
            let (hash, used_at) = (store.tree.hash(node), store.tree.node(node).used_at);
            for (group, block) in store.tree.blocks(node).iter().enumerate() {
                if !block.is_null() && is_wanted(&hash, GroupIndex(group), used_at) {
                    pages.extend(store.page(node, group));
                }
            }
        }
        pages.sort_by_key(|page| (Reverse(page.used_at), page.number, page.hash, page.group));
        pages
    }

    /// What a call that was just admitted could have back, where another memory has what `is_there`. A hit needs all of
    /// the full-attention blocks and the windows before its boundary: what would end elsewhere is left out.
    pub fn restorable(
        &self,
        id: CallId,
        mut is_there: impl FnMut(&BlockHash, GroupIndex) -> bool,
    ) -> Option<Restorable> {
        let call = self.calls.get(&id).filter(|call| call.state == State::Running)?;
        let from = call.computed / self.config.block_tokens;
        // A call whose chain was forgotten while it ran looks no further.
        if call.options.no_read || call.restoring.is_some() || call.chain.len() != from {
            return None;
        }
        let needs = &self.store.needs;
        let mut runs: Vec<usize> = needs.iter().map(|need| need.unwrap_or(0).min(from)).collect();
        // Per block number and group, whether memory has it.
        let mut in_memory: Vec<bool> = Vec::new();
        let mut upto = from;
        let mut parent = self.end_of(call);
        for number in from..call.sequence.lookup_blocks() {
            let hash = &call.sequence.hashes()[number];
            let node = self.stored_block(call, parent, number);
            parent = node;
            let mut whole = true;
            let mut broken = false;
            for (group, need) in needs.iter().enumerate() {
                let here = node.is_some_and(|it| !self.store.tree.blocks(it)[group].is_null());
                let present = here || is_there(hash, GroupIndex(group));
                in_memory.push(here);
                match need {
                    None => broken |= !present,
                    Some(need) => {
                        runs[group] = if present { runs[group] + 1 } else { 0 };
                        whole &= runs[group] >= (*need).min(number + 1);
                    }
                }
            }
            if broken {
                break;
            }
            if whole {
                upto = number + 1;
            }
        }
        if upto == from {
            return None;
        }
        let hashes = call.sequence.hashes();
        let mut pages = Vec::new();
        for number in from..upto {
            for group in 0..needs.len() {
                let first = self.first_needed(group, upto);
                if number >= first && !in_memory[(number - from) * needs.len() + group] {
                    let before = number.checked_sub(1).map(|before| hashes[before]);
                    pages.push(WantedPage {
                        hash: hashes[number],
                        parent: before.unwrap_or(call.sequence.keys().root.as_parent()),
                        number,
                        group: GroupIndex(group),
                    });
                }
            }
        }
        Some(Restorable { from, upto, pages })
    }

    /// Finds blocks for the pages to be read: one for each, in their order. The call goes on with
    /// [`restored`](Self::restored) or [`give_up_restore`](Self::give_up_restore). On an error nothing has changed.
    ///
    /// # Errors
    /// When the call isn't running, or too few blocks are free.
    pub fn begin_restore(
        &mut self,
        id: CallId,
        plan: &Restorable,
    ) -> Result<Vec<BlockId>, CallError> {
        let mut call = self.calls.remove(&id).ok_or(CallError::NotRunning(id))?;
        let found = self.take_room(&mut call, id, plan);
        self.calls.insert(id, call);
        self.renew_promise(id);
        found
    }

    fn take_room(
        &mut self,
        call: &mut Call,
        id: CallId,
        plan: &Restorable,
    ) -> Result<Vec<BlockId>, CallError> {
        running(Some(&mut *call), id)?;
        // What memory has is taken first, so that it doesn't go for what it lacks.
        let mut parent = self.end_of(call);
        call.tables.iter_mut().for_each(|table| table.resize(plan.upto, 0));
        for number in plan.from..plan.upto {
            let Some(node) = self.stored_block(call, parent, number) else { break };
            parent = Some(node);
            for group in 0..call.tables.len() {
                let block = self.store.tree.blocks(node)[group];
                if number >= self.first_needed(group, plan.upto) && !block.is_null() {
                    self.store.pool.take(block);
                    call.tables[group][number] = block.0;
                }
            }
        }
        call.restoring = Some((plan.from, plan.upto));
        let share = self.store.owners.room(call.owner, &self.store.pool);
        if let Err(no_room) = NoRoom::check(plan.pages.len(), self.store.pool.free(), share) {
            self.put_back(call);
            return Err(no_room.into());
        }
        let mut blocks = Vec::with_capacity(plan.pages.len());
        for page in &plan.pages {
            // Counted above: there are enough.
            let Some(block) = self.store.allocate(page.group.0, call.owner) else { break };
            call.tables[page.group.0][page.number] = block.0;
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// All pages are in their blocks: they count as found, beside what `ready` had, and others find them.
    ///
    /// # Errors
    /// When nothing is being read for the call.
    pub fn restored(&mut self, id: CallId, ready: Ready) -> Result<Ready, CallError> {
        let mut call = self.calls.remove(&id).ok_or(CallError::NotRunning(id))?;
        let Some((from, upto)) = call.restoring.take() else {
            self.calls.insert(id, call);
            return Err(CallError::NotRunning(id));
        };
        let size = self.config.block_tokens;
        call.computed = upto * size;
        call.hit_blocks = upto;
        // They are found, not written.
        call.written_upto = call.written_upto.max(upto);
        let stop = if let Some(scope) = call.scope {
            let before = call.chain.last().copied().unwrap_or(scope);
            for number in from..upto {
                self.store.publish(&mut call, id, scope, number);
            }
            self.tips.remove(&(before, id));
            self.tips.insert((call.chain.last().copied().unwrap_or(scope), id));
            self.explain(&call, &call.chain, upto)
        } else if upto == call.sequence.lookup_blocks() {
            Stop::new(StopReason::Complete, upto * size)
        } else {
            Stop::new(StopReason::Unknown, upto * size)
        };
        for group in 0..call.tables.len() {
            let first = self.first_needed(group, upto);
            for number in call.kept[group]..first {
                call.drop_block(&mut self.store, group, number);
            }
            call.kept[group] = call.kept[group].max(first);
        }
        let tokens = (upto - from) * size;
        let counters = &mut self.store.counters;
        let mut ready = Ready { stop, ..ready };
        if call.preempted {
            counters.resumed_hits += tokens as u64;
            ready.recovered += tokens;
        } else {
            counters.hits += tokens as u64;
            counters.restored += tokens as u64;
            ready.hit += tokens;
        }
        self.calls.insert(id, call);
        self.lead_waiters(id);
        self.renew_promise(id);
        Ok(ready)
    }

    /// The pages can't be had: the call is where it was before [`begin_restore`](Self::begin_restore).
    ///
    /// # Errors
    /// When nothing is being read for the call.
    pub fn give_up_restore(&mut self, id: CallId) -> Result<(), CallError> {
        let mut call = self.calls.remove(&id).ok_or(CallError::NotRunning(id))?;
        let was = call.restoring.is_some();
        self.put_back(&mut call);
        self.calls.insert(id, call);
        self.renew_promise(id);
        if was { Ok(()) } else { Err(CallError::NotRunning(id)) }
    }

    /// Gives back what was taken for the reading, the tail first in line to go.
    fn put_back(&mut self, call: &mut Call) {
        let Some((from, upto)) = call.restoring.take() else { return };
        for number in (from..upto).rev() {
            for group in 0..call.tables.len() {
                call.drop_block(&mut self.store, group, number);
            }
        }
        call.tables.iter_mut().for_each(|table| table.truncate(from));
    }

    /// The node that a call's chain ends with, or its scope's.
    fn end_of(&self, call: &Call) -> Option<NodeId> {
        let last = call.chain.last().copied();
        last.or_else(|| self.store.tree.scope(&call.sequence.keys().scope()))
    }

    /// The stored node for a block of a call, unless its time ran out.
    fn stored_block(&self, call: &Call, parent: Option<NodeId>, number: usize) -> Option<NodeId> {
        let node = self.find_block(call, parent?, number)?;
        (!self.store.is_expired(node)).then_some(node)
    }

    /// The first block number that a group needs before a boundary.
    fn first_needed(&self, group: usize, boundary: usize) -> usize {
        self.store.needs[group].map_or(0, |need| boundary.saturating_sub(need))
    }
}
