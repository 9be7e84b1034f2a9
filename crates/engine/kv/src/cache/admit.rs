//! Admission: what a call finds, whom it waits for, whether there is room.

use crate::call::{AdmitOptions, Call, State};
use crate::ids::{BlockId, CallId, Moment};
use crate::keys::PromptKeys;
use crate::reason::{Stop, StopReason};
use crate::sequence::Sequence;
use crate::tree::NodeId;

use super::PrefixCache;
use super::lookup::Join;

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Admission {
    /// It may start.
    Ready(Ready),
    /// It waits for a prefix that another call is computing, and holds only shared blocks. See [`PrefixCache::poll_waiting`].
    Wait(Wait),
    /// There is no room now; nothing was touched. Admit it again later: its hashes are kept until then (or until [`PrefixCache::abort`]).
    NoRoom(NoRoom),
    /// It can never fit; the call is forgotten.
    TooLarge(TooLarge),
}

/// A call that may start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Tokens that were there.
    pub hit: usize,
    /// Tokens that another call computed while this one waited.
    pub joined: usize,
    /// Tokens of a resumed call that are still there. Not a hit: it is this call's own work.
    pub recovered: usize,
    /// Where the lookup stopped, and why.
    pub stop: Stop,
}

impl Ready {
    /// The first position to compute.
    #[must_use]
    pub fn start(&self) -> usize {
        self.hit + self.joined + self.recovered
    }
}

/// A call that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Whom for.
    pub writer: CallId,
    /// Tokens that are there now.
    pub present: usize,
    /// Tokens that will be there when the writer is done with what they share.
    pub until: usize,
}

/// There is no room now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("needs {needed} more blocks, {free} are free")]
pub struct NoRoom {
    /// Blocks that are needed besides those found.
    pub needed: usize,
    /// Blocks that are free and not promised to others; where the share is used up, that are left of it.
    pub free: usize,
    /// Whether it is the share of the call's owner that has no room: others may find some.
    pub of_share: bool,
}

impl NoRoom {
    /// Whether so many blocks are there: the pool's first, then those that are left of the owner's share.
    pub(super) fn check(needed: usize, free: usize, share: Option<usize>) -> Result<(), NoRoom> {
        let (free, of_share) = match share {
            _ if needed > free => (free, false),
            Some(left) if needed > left => (left, true),
            _ => return Ok(()),
        };
        Err(NoRoom { needed, free, of_share })
    }
}

/// The prompt can never fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the prompt needs {needed} blocks, and there are {capacity}")]
pub struct TooLarge {
    /// Blocks that the prompt needs at once.
    pub needed: usize,
    /// Blocks of the pool, or of the share of the call's owner.
    pub capacity: usize,
    /// Whether it is the share.
    pub of_share: bool,
}

/// A mistake of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// There are no tokens.
    #[error("a call needs at least one token")]
    Empty,
    /// The call is running or waiting.
    #[error("call {} was admitted before and has not ended", .0.0)]
    Admitted(CallId),
    /// The call doesn't wait.
    #[error("call {} isn't waiting", .0.0)]
    NotWaiting(CallId),
}

impl PrefixCache {
    /// Looks a prompt up and admits the call if it can start.
    ///
    /// A call that was preempted comes back through here with its prompt and all it has generated; one that found no room, with the same prompt.
    /// The work is linear in the tokens, and hashing is done once per call.
    ///
    /// # Errors
    /// When there are no tokens, or the call is running or waiting.
    pub fn admit(
        &mut self,
        id: CallId,
        tokens: &[u32],
        keys: &PromptKeys,
        options: AdmitOptions,
        now: Moment,
    ) -> Result<Admission, AdmitError> {
        if tokens.is_empty() {
            return Err(AdmitError::Empty);
        }
        self.store.set_now(now);
        let known = self.calls.remove(&id);
        let mut call = match known {
            Some(call) if call.state != State::Queued => {
                self.calls.insert(id, call);
                return Err(AdmitError::Admitted(id));
            }
            Some(call) if call.sequence.tokens() == tokens && call.sequence.keys() == keys => call,
            other => {
                let mut sequence =
                    Sequence::new(keys.clone(), self.config.hash, self.config.block_tokens);
                sequence.extend(tokens);
                let owner = self.store.owners.enter(&keys.root, &self.store.pool);
                let mut call = Call::new(sequence, options, owner, self.config.groups.len(), now);
                if let Some(known) = other {
                    call.preempted = known.preempted;
                    self.store.owners.leave(known.owner);
                }
                call
            }
        };
        self.store.owners.set_limit(call.owner, options.share);
        call.options = options;
        let needed = self.peak_of_all(tokens.len());
        // What is pinned and can't be shared never makes room.
        let (beside, own) = self.pinned_beside(&call);
        let pool = self.store.pool.capacity() - beside;
        let capacity = options.share.map_or(pool, |share| share.saturating_sub(own).min(pool));
        if needed > capacity {
            self.store.owners.leave(call.owner);
            let of_share = needed <= pool;
            return Ok(Admission::TooLarge(TooLarge { needed, capacity, of_share }));
        }
        call.prompt_tokens = tokens.len();
        call.options.no_read |= !self.config.enabled;
        call.options.no_store |= !self.config.enabled;
        call.options.no_join |= !self.config.join;
        Ok(self.settle(id, call, now))
    }

    /// Whether a waiting call can go on. Cheap while its writer is still at it.
    ///
    /// [`Admission::NoRoom`] means that it waits no longer and holds nothing: admit it again later.
    ///
    /// # Errors
    /// When the call isn't waiting.
    pub fn poll_waiting(&mut self, id: CallId, now: Moment) -> Result<Admission, AdmitError> {
        self.store.set_now(now);
        let call = match self.calls.remove(&id) {
            Some(call) if call.state == State::Waiting => call,
            other => {
                self.calls.extend(other.map(|call| (id, call)));
                return Err(AdmitError::NotWaiting(id));
            }
        };
        if let Some(writer) = call.writer {
            let size = self.config.block_tokens;
            let wait = Wait { writer, present: call.chain.len() * size, until: call.target * size };
            self.calls.insert(id, call);
            return Ok(Admission::Wait(wait));
        }
        Ok(self.settle(id, call, now))
    }

    /// Lets a waiting call go on from what is there now, for owners that bound the wait.
    ///
    /// # Errors
    /// When the call isn't waiting.
    pub fn stop_waiting(&mut self, id: CallId, now: Moment) -> Result<Admission, AdmitError> {
        if self.is_waiting(id) {
            self.leave_writer(id);
            if let Some(call) = self.calls.get_mut(&id) {
                call.options.no_join = true;
            }
        }
        self.poll_waiting(id, now)
    }

    /// Calls whose wait is over, in the order in which they came; each is to be polled.
    pub fn drain_woken(&mut self) -> Vec<CallId> {
        let mut woken = std::mem::take(&mut self.woken);
        woken.retain(|id| {
            self.calls
                .get(id)
                .is_some_and(|call| call.state == State::Waiting && call.writer.is_none())
        });
        woken
    }

    /// Puts a call on the list of those to be polled, once.
    pub(super) fn wake(&mut self, id: CallId) {
        if !self.woken.contains(&id) {
            self.woken.push(id);
        }
    }

    /// Decides about a call that is in no list now. It may hold what it found while it waited.
    fn settle(&mut self, id: CallId, mut call: Call, now: Moment) -> Admission {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        path.extend_from_slice(&call.chain);
        if !call.options.no_read {
            self.extend_path(&mut path, &call);
        }
        let admission = match self.find_writer(&path, &call) {
            Some(join) => self.wait(id, &mut call, &path, join, now),
            None => self.start(id, &mut call, &path, now),
        };
        self.path = path;
        self.calls.insert(id, call);
        self.renew_promise(id);
        admission
    }

    fn wait(
        &mut self,
        id: CallId,
        call: &mut Call,
        path: &[NodeId],
        join: Join,
        now: Moment,
    ) -> Admission {
        let size = self.config.block_tokens;
        if call.state != State::Waiting {
            self.store.counters.waits += 1;
            call.found = Some(path.len());
        }
        call.state = State::Waiting;
        call.started = now;
        call.writer = Some(join.writer);
        call.target = join.until;
        call.parting = join.parting;
        call.hold(&mut self.store, path, id);
        call.touch(&mut self.store, 0, id);
        if let Some(writer) = self.calls.get_mut(&join.writer) {
            writer.waiters.push(id);
        }
        Admission::Wait(Wait {
            writer: join.writer,
            present: path.len() * size,
            until: join.until * size,
        })
    }

    fn start(&mut self, id: CallId, call: &mut Call, path: &[NodeId], now: Moment) -> Admission {
        let boundary = self.boundary(path);
        let stop = self.explain(call, path, boundary);
        let chain = &path[..boundary];
        if let Err(no_room) = self.check_room(call, chain) {
            call.release(&mut self.store);
            call.state = State::Queued;
            call.found = None;
            return Admission::NoRoom(no_room);
        }
        call.started = now;
        call.hold(&mut self.store, chain, id);
        call.touch(&mut self.store, 0, id);
        call.state = State::Running;
        call.hit_blocks = boundary;
        call.computed = boundary * self.config.block_tokens;
        if !call.options.no_store {
            let keys = call.sequence.keys();
            let scope = self.store.tree.scope_or_insert(keys.scope(), keys.root.as_parent());
            self.store.enter(scope);
            call.scope = Some(scope);
            self.tips.insert((call.chain.last().copied().unwrap_or(scope), id));
        }
        let ghosts = if boundary == path.len() { self.ghost_tokens(call, boundary) } else { 0 };
        Admission::Ready(self.count(call, stop, ghosts))
    }

    /// Whether a call that starts with `chain` finds room for the rest.
    fn check_room(&self, call: &Call, chain: &[NodeId]) -> Result<(), NoRoom> {
        let tokens = call.options.reserve_tokens.max(call.prompt_tokens);
        let (pool, owners) = (&self.store.pool, &self.store.owners);
        // A call that may grow beyond the whole pool, or its owner's share, starts when it could have all of it.
        let (beside, own) = self.pinned_beside(call);
        let most = owners.most(call.owner, pool).saturating_sub(own);
        let most = most.min(pool.capacity().saturating_sub(beside));
        let peak = self.peak_of_all(tokens).min(most);
        let (mut found, mut idle, mut left) = (0, 0, 0);
        for group in 0..self.config.groups.len() {
            let first = self.store.needs[group].map_or(0, |need| chain.len().saturating_sub(need));
            found += chain.len() - first;
            idle += chain[first..]
                .iter()
                .filter(|&&node| pool.refs(self.store.tree.blocks(node)[group]) == 0)
                .count();
            // What it held of a window while it waited and has passed since.
            let passed = call.tables[group].iter().take(first);
            left += passed.filter(|&&block| block != 0 && pool.refs(BlockId(block)) == 1).count();
        }
        let needed = peak.saturating_sub(found);
        let free = (pool.free() + left).saturating_sub(idle + self.promised);
        // What is found is its owner's already, and counts as soon as it is used.
        let room = owners.room(call.owner, pool);
        let promised = owners.promised(call.owner);
        let share = room.map(|room| (room + left).saturating_sub(idle + promised));
        NoRoom::check(needed, free, share)
    }

    /// Tokens behind the first `found` blocks that a pool of twice the size would still hold.
    ///
    /// Eviction takes the least recently used, so a block that made room less than a pool's worth of evictions ago lies
    /// within the second half of a pool twice as large: the inclusion property of stack algorithms (Mattson et al. 1970,
    /// "Evaluation techniques for storage hierarchies"), read off a ghost list as ARC does (Megiddo and Modha 2003).
    fn ghost_tokens(&self, call: &Call, found: usize) -> usize {
        // One logical block has a physical one in each group at most.
        let worth = (self.store.pool.capacity() / self.config.groups.len()) as u64;
        let hashes = call.sequence.hashes();
        let ahead = hashes.get(found..call.sequence.lookup_blocks()).unwrap_or_default();
        let near = ahead.iter().take_while(|hash| self.store.ghosts.evicted_within(hash, worth));
        near.count() * self.config.block_tokens
    }

    fn count(&mut self, call: &Call, stop: Stop, ghosts: usize) -> Ready {
        let counters = &mut self.store.counters;
        let size = self.config.block_tokens;
        let found = call.hit_blocks * size;
        if call.preempted {
            counters.resumed_queries += call.prompt_tokens as u64;
            counters.resumed_hits += found as u64;
            return Ready { hit: 0, joined: 0, recovered: found, stop };
        }
        if call.options.no_read {
            counters.bypassed += 1;
            return Ready {
                hit: 0,
                joined: 0,
                recovered: 0,
                stop: Stop::new(StopReason::Bypassed, 0),
            };
        }
        let hit = found.min(call.found.map_or(found, |blocks| blocks * size));
        counters.calls += 1;
        counters.queries += call.prompt_tokens as u64;
        counters.hits += hit as u64;
        counters.joined += (found - hit) as u64;
        counters.ghost_hits += ghosts as u64;
        Ready { hit, joined: found - hit, recovered: 0, stop }
    }
}
