//! A running call's progress: blocks for new positions, what is computed, what the window has passed.

use crate::call::{Call, State};
use crate::ids::{BlockId, CallId};
use crate::tree::{NewNode, NodeId};

use super::{NoRoom, PrefixCache};

/// A mistake of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call isn't admitted.
    #[error("call {} isn't running", .0.0)]
    NotRunning(CallId),
    /// No blocks were reserved for these positions.
    #[error("positions up to {upto} were named as computed, {reserved} have blocks")]
    NotReserved {
        /// Positions that the caller named.
        upto: usize,
        /// Positions with blocks.
        reserved: usize,
    },
    /// There is no room.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

impl PrefixCache {
    /// Finds blocks, in every group, for all positions below `upto`, and adds the newly handed-out ones to `fresh` (their content is stale: clear it).
    /// What is cached goes from the front of the free queue when it must. On an error nothing has changed.
    ///
    /// # Errors
    /// When the call isn't running, or too few blocks are free: then preempt a call and try again.
    pub fn reserve(
        &mut self,
        id: CallId,
        upto: usize,
        fresh: &mut Vec<BlockId>,
    ) -> Result<(), CallError> {
        let call = running(self.calls.get_mut(&id), id)?;
        let blocks = upto.div_ceil(self.config.block_tokens);
        let needed: usize =
            call.tables.iter().map(|table| blocks.saturating_sub(table.len())).sum();
        if needed == 0 {
            return Ok(());
        }
        let share = self.store.owners.room(call.owner, &self.store.pool);
        NoRoom::check(needed, self.store.pool.free(), share)?;
        for group in 0..call.tables.len() {
            while call.tables[group].len() < blocks {
                // Counted above: there are enough.
                let Some(block) = self.store.allocate(group, call.owner) else { break };
                call.tables[group].push(block.0);
                fresh.push(block);
            }
        }
        self.renew_promise(id);
        Ok(())
    }

    /// Adds generated tokens: they extend the hash chain, so that the answer can be reused in the next turn.
    ///
    /// # Errors
    /// When the call isn't running.
    pub fn append(&mut self, id: CallId, tokens: &[u32]) -> Result<(), CallError> {
        running(self.calls.get_mut(&id), id)?.sequence.extend(tokens);
        Ok(())
    }

    /// The keys and values of all positions below `upto` are in their blocks now. Full blocks can be found from here on, and calls that wait for them go on.
    ///
    /// A block whose content is stored already is replaced in the table by the stored one (the same bits), so that there is one copy.
    ///
    /// # Errors
    /// When the call isn't running, or the positions have no blocks.
    pub fn computed(&mut self, id: CallId, upto: usize) -> Result<(), CallError> {
        let call = running(self.calls.get_mut(&id), id)?;
        let reserved = call.tables.first().map_or(0, Vec::len) * self.config.block_tokens;
        if upto > reserved {
            return Err(CallError::NotReserved { upto, reserved });
        }
        call.computed = call.computed.max(upto);
        let Some(scope) = call.scope else { return Ok(()) };
        let full = call.computed.min(call.sequence.len()) / self.config.block_tokens;
        let before = call.chain.last().copied().unwrap_or(scope);
        for number in call.chain.len()..full {
            self.store.publish(call, id, scope, number);
        }
        let after = call.chain.last().copied().unwrap_or(scope);
        if after != before {
            self.tips.remove(&(before, id));
            self.tips.insert((after, id));
            self.lead_waiters(id);
        }
        Ok(())
    }

    /// Tokens of a call's prompt that it has stored and nobody had before. 0 for a call that isn't known.
    pub fn written(&self, id: CallId) -> usize {
        self.calls.get(&id).map_or(0, |call| call.written * self.config.block_tokens)
    }

    /// Lets the calls that wait for `id` hold what they share of its chain; those that have all of it wait no longer.
    pub(super) fn lead_waiters(&mut self, id: CallId) {
        let Some(writer) = self.calls.get_mut(&id) else { return };
        if writer.waiters.is_empty() {
            return;
        }
        let waiters = std::mem::take(&mut writer.waiters);
        let chain = std::mem::take(&mut writer.chain);
        let mut left = Vec::new();
        for waiter in waiters {
            let Some(call) = self.calls.get_mut(&waiter) else { continue };
            let have = call.target.min(chain.len());
            call.hold(&mut self.store, &chain[..have], waiter);
            if have == call.target {
                call.writer = None;
                self.wake(waiter);
            } else {
                left.push(waiter);
            }
        }
        if let Some(writer) = self.calls.get_mut(&id) {
            (writer.chain, writer.waiters) = (chain, left);
        }
    }

    /// Gives back the blocks of window groups that no later position needs. They stay cached while there is room;
    /// under pressure those away from a retained boundary go first.
    ///
    /// The window is kept for the last block boundary, not for the last token, so that a call which waits can always go on from there.
    ///
    /// # Errors
    /// When the call isn't running.
    pub fn slide(&mut self, id: CallId) -> Result<(), CallError> {
        let call = running(self.calls.get_mut(&id), id)?;
        let boundary = call.computed / self.config.block_tokens;
        let every = (self.config.retention_tokens / self.config.block_tokens).max(1);
        let mut slid = false;
        for group in 0..call.tables.len() {
            let Some(need) = self.store.needs[group] else { continue };
            let first = boundary.saturating_sub(need).min(call.tables[group].len());
            for number in call.kept[group]..first {
                let block = BlockId(call.tables[group][number]);
                if is_retained(call, number, need, every, self.config.block_tokens) {
                    self.store.pool.retain(block);
                } else if number + every + need >= call.prompt_tokens / self.config.block_tokens {
                    // A text ends there and a question follows; the next one parts from this prompt where the text ends.
                    self.store.pool.mark_near_end(block);
                }
                call.drop_block(&mut self.store, group, number);
                slid = true;
            }
            call.kept[group] = call.kept[group].max(first);
        }
        if slid {
            self.renew_promise(id);
        }
        Ok(())
    }
}

/// Whether a window block is needed before a boundary where other prompts are likely to leave this one:
/// the end of the prompt (also one block earlier, if a repeat can't have the last block), the end of the hit, every so many blocks.
fn is_retained(call: &Call, number: usize, need: usize, every: usize, size: usize) -> bool {
    let before = |boundary: usize| number < boundary && boundary <= number + need;
    let end = call.prompt_tokens;
    before(end / size)
        || before((end - 1) / size)
        || before(call.hit_blocks)
        || (number + need) / every > number / every
}

pub(super) fn running(call: Option<&mut Call>, id: CallId) -> Result<&mut Call, CallError> {
    call.filter(|call| call.state == State::Running).ok_or(CallError::NotRunning(id))
}

impl crate::store::Store {
    /// Stores one computed block of a call, or replaces it by the stored one.
    pub(super) fn publish(&mut self, call: &mut Call, id: CallId, scope: NodeId, number: usize) {
        let parent = call.chain.last().copied().unwrap_or(scope);
        let hash = call.sequence.hashes()[number];
        let (tokens, media) = (call.sequence.block(number), call.sequence.media(number));
        let found = self.tree.find(&hash, parent, tokens, media.as_ref());
        if number >= call.written_upto {
            call.written_upto = number + 1;
            let in_prompt = (number + 1) * tokens.len() <= call.prompt_tokens;
            call.written += usize::from(found.is_none() && in_prompt);
        }
        let node = found.unwrap_or_else(|| {
            self.insert(&NewNode {
                hash,
                parent,
                number,
                tokens,
                media,
                used_at: call.started,
                call: id,
            })
        });
        self.enter(node);
        for group in 0..call.tables.len() {
            let mine = BlockId(call.tables[group][number]);
            let stored = self.tree.blocks(node)[group];
            if mine.is_null() || mine == stored {
                continue;
            }
            if stored.is_null() {
                self.attach(node, group, mine);
            } else {
                self.pool.take(stored);
                self.pool.give_back(mine);
                call.tables[group][number] = stored.0;
            }
        }
        call.chain.push(node);
        call.touch(self, number, id);
    }
}
