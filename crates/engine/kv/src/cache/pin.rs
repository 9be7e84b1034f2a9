//! Pins: starts that stay, whatever room is needed.
//!
//! A pin is a call that has ended and keeps its hold on what it stored: its blocks are in use, so that they are neither
//! evicted nor expired, and when the pin goes they join the free queue as those of any call that ends. What is pinned
//! counts as used by its owner. It has a limit, since what never goes is room that nobody else has; and what fits
//! beside the pins alone is what a prompt may need.

use std::collections::{HashMap, HashSet};

use crate::call::{Call, State};
use crate::ids::{CallId, Moment};
use crate::keys::Root;
use crate::pool::OwnerId;
use crate::tree::NodeId;

use super::{CallError, PrefixCache};

/// A start that stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The call that it was.
    pub id: CallId,
    /// Whose it is.
    pub root: Root,
    /// Tokens that are pinned: whole blocks.
    pub tokens: usize,
    /// Physical blocks that it holds, some of which other pins may hold as well.
    pub blocks: usize,
}

/// How many physical blocks may be pinned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PinLimits {
    /// By all together.
    pub all: usize,
    /// By the owner of the pin in question.
    pub own: usize,
}

/// There would be more pinned than may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it needs {needed} blocks more, {pinned} are pinned, and {limit} may be")]
pub struct PinsFull {
    /// Blocks that the pin needs, besides those that are pinned already.
    pub needed: usize,
    /// Blocks that are pinned: by all, or by its owner.
    pub pinned: usize,
    /// Blocks that may be.
    pub limit: usize,
    /// Whether it is the owner's limit.
    pub of_owner: bool,
}

/// Why a call was not pinned. It goes on as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The call isn't admitted.
    #[error(transparent)]
    Call(#[from] CallError),
    /// It has stored nothing: it is shorter than a block, may not store, or was erased meanwhile.
    #[error("it has stored no whole block of {block} tokens")]
    Nothing {
        /// Tokens of a block.
        block: usize,
    },
    /// The limit.
    #[error(transparent)]
    Full(#[from] PinsFull),
}

/// Distinct physical blocks that are pinned.
#[derive(Default)]
pub(super) struct Pinned {
    all: usize,
    pins: usize,
    of: HashMap<OwnerId, usize>,
}

impl PrefixCache {
    /// Ends a running call and pins what it has stored so far. The call's name is the pin's until it is
    /// [finished](Self::finish).
    ///
    /// # Errors
    /// When the call isn't running, has stored nothing, or too much would be pinned. Nothing has changed then.
    pub fn pin(&mut self, id: CallId, limits: PinLimits, now: Moment) -> Result<Pin, PinError> {
        self.slide(id)?;
        let Some(call) = self.calls.get(&id) else {
            return Err(CallError::NotRunning(id).into());
        };
        let blocks: HashSet<u32> = stored(call).collect();
        if call.scope.is_none() || blocks.is_empty() {
            return Err(PinError::Nothing { block: self.config.block_tokens });
        }
        let limits = self.beside_calls(id, call.owner, limits);
        let (all, own) = (self.pinned_blocks(None), self.pinned_blocks(Some(call.owner)));
        // Without a share the two are the same, and then it is not the owner's.
        check(blocks.difference(&all).count(), all.len(), limits.all, false)?;
        check(blocks.difference(&own).count(), own.len(), limits.own, true)?;
        let pin = Pin {
            id,
            root: call.sequence.keys().root,
            tokens: call.chain.len() * self.config.block_tokens,
            blocks: blocks.len(),
        };
        self.settle_down(id, now);
        self.count_pinned();
        Ok(pin)
    }

    /// The limits, lowered so that every admitted call can have what its prompt needs: it was admitted on the understanding
    /// that what others use comes back. What a call could share with the pin isn't looked at.
    fn beside_calls(&self, id: CallId, owner: OwnerId, limits: PinLimits) -> PinLimits {
        let mut limits = limits;
        let pool = self.store.pool.capacity();
        let admitted = |call: &Call| matches!(call.state, State::Running | State::Waiting);
        for (_, call) in self.calls.iter().filter(|&(&other, call)| other != id && admitted(call)) {
            let needed = self.peak_of_all(call.prompt_tokens);
            limits.all = limits.all.min(pool.saturating_sub(needed));
            if call.owner == owner
                && let Some(share) = self.store.owners.limit(owner)
            {
                limits.own = limits.own.min(share.saturating_sub(needed));
            }
        }
        limits
    }

    /// Whether a start of these tokens could be pinned, as far as that can be said before it is computed: a window's
    /// blocks are counted as if nobody else had pinned them.
    ///
    /// # Errors
    /// When the limit doesn't allow it.
    pub fn check_pin(
        &self,
        tokens: &[u32],
        keys: &crate::PromptKeys,
        limits: PinLimits,
    ) -> Result<(), PinsFull> {
        let blocks = tokens.len() / self.config.block_tokens;
        let each = |need: &Option<usize>| need.map_or(blocks, |need| need.min(blocks));
        let needed: usize = self.store.needs.iter().map(each).sum();
        let pins = || self.pins_where(|call| call.sequence.keys() == keys);
        let size = self.config.block_tokens;
        let same =
            |call: &Call| crate::sequence::common_tokens(call.sequence.tokens(), tokens) / size;
        let shared = pins().map(|call| same(call).min(call.chain.len())).max().unwrap_or(0);
        let needed = match shared == blocks {
            true => 0,
            false => needed - (shared * self.full_groups()).min(needed),
        };
        let own = self.store.owners.find(&keys.root);
        let own = own.and_then(|owner| self.pinned.of.get(&owner)).copied().unwrap_or(0);
        check(needed, self.pinned.all, limits.all, false)?;
        check(needed, own, limits.own, true)
    }

    /// All pins, in the order in which their calls came.
    pub fn pins(&self) -> impl Iterator<Item = Pin> + '_ {
        let pinned = self.calls.iter().filter(|(_, call)| call.state == State::Pinned);
        pinned.map(|(&id, call)| Pin {
            id,
            root: call.sequence.keys().root,
            tokens: call.chain.len() * self.config.block_tokens,
            blocks: stored(call).count(),
        })
    }

    /// Ends a pin. `false`: there is none of this name.
    pub fn unpin(&mut self, id: CallId, now: Moment) -> bool {
        let is_pin = self.calls.get(&id).is_some_and(|call| call.state == State::Pinned);
        is_pin && self.finish(id, now)
    }

    /// Ends the pins under a root, or all; says how many there were.
    pub(super) fn unpin_all(&mut self, root: Option<&Root>) -> usize {
        let mine = |pin: &Pin| root.is_none_or(|root| pin.root == *root);
        let ids: Vec<CallId> = self.pins().filter(mine).map(|pin| pin.id).collect();
        ids.iter().filter(|&&id| self.finish(id, Moment::START)).count()
    }

    /// Physical blocks that are pinned, and pins.
    pub(super) fn pinned(&self) -> (usize, usize) {
        (self.pinned.all, self.pinned.pins)
    }

    /// The nodes that pins hold.
    pub(super) fn pinned_nodes(&self) -> HashSet<NodeId> {
        self.pins_where(|_| true).flat_map(|call| call.chain.iter().copied()).collect()
    }

    /// Pinned blocks that a call can't share: of all, and of its owner. At most so many: what can be shared for certain
    /// is the part without a window, and where there are windows the whole of a pin, before whose end they are kept.
    pub(super) fn pinned_beside(&self, call: &Call) -> (usize, usize) {
        if self.pinned.all == 0 {
            return (0, 0);
        }
        let keys = call.sequence.keys();
        let pins = self.pins_where(|pin| !call.options.no_read && pin.sequence.keys() == keys);
        let limit = call.sequence.lookup_blocks();
        let same = |pin: &Call| pin.sequence.common_blocks(&call.sequence, 0, limit);
        let has_window = self.store.needs.iter().any(Option::is_some);
        let certain = |pin: &Call| {
            let same = same(pin);
            if has_window && same < pin.chain.len() { 0 } else { same.min(pin.chain.len()) }
        };
        let shared = pins.map(certain).max().unwrap_or(0) * self.full_groups();
        let own = self.pinned.of.get(&call.owner).copied().unwrap_or(0);
        (self.pinned.all.saturating_sub(shared), own.saturating_sub(shared))
    }

    fn full_groups(&self) -> usize {
        self.store.needs.iter().filter(|need| need.is_none()).count()
    }

    fn pins_where<'a>(
        &'a self,
        wanted: impl Fn(&Call) -> bool + 'a,
    ) -> impl Iterator<Item = &'a Call> {
        self.calls.values().filter(move |call| call.state == State::Pinned && wanted(call))
    }

    fn pinned_blocks(&self, owner: Option<OwnerId>) -> HashSet<u32> {
        let pins = self.pins_where(move |call| owner.is_none_or(|owner| call.owner == owner));
        pins.flat_map(stored).collect()
    }

    pub(super) fn count_pinned(&mut self) {
        let owners: HashSet<OwnerId> = self.pins_where(|_| true).map(|call| call.owner).collect();
        let of = owners.into_iter().map(|owner| (owner, self.pinned_blocks(Some(owner)).len()));
        self.pinned = Pinned {
            of: of.collect(),
            pins: self.pins_where(|_| true).count(),
            all: self.pinned_blocks(None).len(),
        };
    }

    /// A running call ends, but for its hold on what it has stored.
    fn settle_down(&mut self, id: CallId, now: Moment) {
        self.store.set_now(now);
        self.let_waiters_go(id);
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some(scope) = call.scope {
            self.tips.remove(&(call.chain.last().copied().unwrap_or(scope), id));
        }
        call.retain_held(&mut self.store);
        call.drop_unstored(&mut self.store);
        call.state = State::Pinned;
        self.renew_promise(id);
    }
}

fn check(needed: usize, pinned: usize, limit: usize, of_owner: bool) -> Result<(), PinsFull> {
    match needed > 0 && pinned + needed > limit {
        true => Err(PinsFull { needed, pinned, limit, of_owner }),
        false => Ok(()),
    }
}

/// The physical blocks of what a call has stored and holds.
fn stored(call: &Call) -> impl Iterator<Item = u32> + '_ {
    let tables = call.tables.iter().flat_map(|table| table.iter().take(call.chain.len()));
    tables.copied().filter(|block| *block != 0)
}
