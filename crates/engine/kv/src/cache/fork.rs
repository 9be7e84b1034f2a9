//! A second answer to the same prompt.

use crate::call::{AdmitOptions, Call, State};
use crate::ids::{BlockId, CallId, Moment};

use super::{CallError, NoRoom, PrefixCache};

/// What the new call shares, and what it needs a copy of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fork {
    /// Blocks whose content is to be copied, from the first to the second, before anything more is computed: the last
    /// block of each group, where it isn't full.
    pub copies: Vec<(BlockId, BlockId)>,
}

/// Why a call could not be forked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The call isn't admitted.
    #[error(transparent)]
    Call(CallError),
    /// The new call's name is taken.
    #[error("call {} is known already", .0.0)]
    Known(CallId),
    /// There is no room. The new call is known as one that was preempted: admit it later with the same tokens.
    #[error(transparent)]
    NoRoom(NoRoom),
}

impl PrefixCache {
    /// Starts `child` where `parent` is: with its tokens and all that is computed of them. Full blocks are shared,
    /// whether they are stored or not; so a prompt is computed once for several answers even by calls that may neither
    /// read nor store. It is no lookup and counts as none.
    ///
    /// # Errors
    /// When the parent isn't running, the child's name is taken, or there is no room for what the child reserves.
    pub fn fork(
        &mut self,
        parent: CallId,
        child: CallId,
        options: AdmitOptions,
        now: Moment,
    ) -> Result<Fork, ForkError> {
        self.store.set_now(now);
        if self.calls.contains_key(&child) {
            return Err(ForkError::Known(child));
        }
        let parent = self.calls.get(&parent).filter(|call| call.state == State::Running);
        let parent = parent.ok_or(ForkError::Call(CallError::NotRunning(child)))?;
        let size = self.config.block_tokens;
        let owner = self.store.owners.enter(&parent.sequence.keys().root, &self.store.pool);
        let mut call = Call::new(parent.sequence.clone(), options, owner, parent.tables.len(), now);
        call.options.no_read |= !self.config.enabled;
        // What the parent may not leave behind, its child may not either.
        call.options.no_store |= parent.options.no_store || parent.scope.is_none();
        call.options.no_join = true;
        let full = parent.computed / size;
        let begun = parent.computed.div_ceil(size);
        let in_use = |group: usize, from: usize, to: usize| {
            let blocks = parent.tables[group].iter().enumerate().take(to).skip(from);
            blocks.filter(|&(_, &block)| block != 0).count()
        };
        let groups = 0..parent.tables.len();
        let shared: usize = groups.clone().map(|group| in_use(group, 0, full)).sum();
        let copied: usize = groups.map(|group| in_use(group, full, begun)).sum();
        let tokens = options.reserve_tokens.max(call.prompt_tokens);
        let (pool, owners) = (&self.store.pool, &self.store.owners);
        let peak = self.peak_of_all(tokens).min(owners.most(owner, pool));
        let needed = peak.saturating_sub(shared).max(copied);
        let free = pool.free().saturating_sub(self.promised);
        let room = owners.room(owner, pool);
        let share = room.map(|room| room.saturating_sub(owners.promised(owner)));
        if let Err(no_room) = NoRoom::check(needed, free, share) {
            call.preempted = true;
            self.calls.insert(child, call);
            return Err(ForkError::NoRoom(no_room));
        }
        let mut copies = Vec::new();
        for (group, table) in parent.tables.iter().enumerate() {
            // Blocks that were reserved and not begun are reserved anew.
            for (number, &block) in table.iter().enumerate().take(begun) {
                let mut entry = block;
                if block != 0 && number < full {
                    self.store.pool.take(BlockId(block));
                } else if block != 0
                    && let Some(copy) = self.store.allocate(group, owner)
                {
                    copies.push((BlockId(block), copy));
                    entry = copy.0;
                }
                call.tables[group].push(entry);
            }
        }
        debug_assert_eq!(copies.len(), copied, "there was room");
        call.state = State::Running;
        call.kept.clone_from(&parent.kept);
        call.chain.clone_from(&parent.chain);
        call.computed = parent.computed;
        call.hit_blocks = parent.hit_blocks;
        // Its parent has counted them.
        call.written_upto = full;
        for &node in &call.chain {
            self.store.enter(node);
        }
        call.touch(&mut self.store, 0, child);
        if !call.options.no_store
            && let Some(scope) = parent.scope
        {
            self.store.enter(scope);
            call.scope = Some(scope);
            self.tips.insert((call.chain.last().copied().unwrap_or(scope), child));
        }
        self.calls.insert(child, call);
        self.renew_promise(child);
        Ok(Fork { copies })
    }
}
