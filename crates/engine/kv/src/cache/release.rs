//! The end of a call, and of everything.

use crate::call::{Call, State};
use crate::events::KvEvent;
use crate::ids::{CallId, Moment};
use crate::keys::Root;

use super::PrefixCache;

/// What a reset did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetReport {
    /// Blocks that nobody used: their content is forgotten.
    pub dropped: usize,
    /// Blocks that running calls use: no other call will find them, and they go when those calls end.
    pub in_use: usize,
    /// Admitted calls, which go on undisturbed and store nothing more.
    pub running: usize,
    /// Calls that waited for another one's prefix: they are woken to look anew.
    pub waiting: usize,
    /// Pins, which have gone with what they held.
    pub pins: usize,
}

impl PrefixCache {
    /// The call has ended. Its blocks stay cached, the tail of the prompt first in line to go. `false`: there was no such call.
    pub fn finish(&mut self, id: CallId, now: Moment) -> bool {
        let was_pin = self.calls.get(&id).is_some_and(|call| call.state == State::Pinned);
        self.end(id, now);
        let ended = self.calls.remove(&id);
        if let Some(call) = &ended {
            self.store.owners.leave(call.owner);
        }
        if was_pin {
            self.count_pinned();
        }
        ended.is_some()
    }

    /// The call is not wanted any more, in whatever state it is. What it computed stays cached. `false`: there was no such call.
    pub fn abort(&mut self, id: CallId, now: Moment) -> bool {
        self.finish(id, now)
    }

    /// Takes everything from a call that will come back through [`admit`](Self::admit). What it computed stays cached;
    /// what it finds of that on its return is counted as recovered, not as a hit. `false`: it held nothing.
    pub fn preempt(&mut self, id: CallId, now: Moment) -> bool {
        let was = self.calls.get(&id).map(|call| call.state);
        if !matches!(was, Some(State::Running | State::Waiting)) {
            return false;
        }
        self.end(id, now);
        if let Some(call) = self.calls.get_mut(&id)
            && was == Some(State::Running)
        {
            call.preempted = true;
            self.store.counters.preemptions += 1;
        }
        true
    }

    /// Gives back all that a call holds, and lets go of those that wait for it.
    fn end(&mut self, id: CallId, now: Moment) {
        self.store.set_now(now);
        self.leave_writer(id);
        // A window passes what was computed in the last step, too. The call may be in any state: then there is nothing to pass.
        let _ = self.slide(id);
        self.let_waiters_go(id);
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some(scope) = call.scope {
            self.tips.remove(&(call.chain.last().copied().unwrap_or(scope), id));
        }
        if call.scope.is_some() {
            call.retain_held(&mut self.store);
        }
        call.release(&mut self.store);
        call.state = State::Queued;
        call.found = None;
        self.renew_promise(id);
    }

    /// Those that wait for a call are to look anew.
    pub(super) fn let_waiters_go(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        for waiter in std::mem::take(&mut call.waiters) {
            if let Some(call) = self.calls.get_mut(&waiter) {
                call.writer = None;
            }
            self.wake(waiter);
        }
    }

    /// Takes a waiting call off its writer's list.
    pub(super) fn leave_writer(&mut self, id: CallId) {
        let writer = self.calls.get_mut(&id).and_then(|call| call.writer.take());
        if let Some(writer) = writer.and_then(|writer| self.calls.get_mut(&writer)) {
            writer.waiters.retain(|&waiter| waiter != id);
        }
    }

    /// Sends calls on that wait for what is about to be forgotten: they compute it themselves.
    fn wait_no_more(&mut self, waiting: &[CallId]) {
        for &id in waiting {
            self.leave_writer(id);
            if let Some(call) = self.calls.get_mut(&id) {
                call.release(&mut self.store);
                call.found = Some(0);
            }
            self.wake(id);
        }
    }

    /// Forgets everything that is stored under a root, which is a tenant's, whatever its calls' salts, its pins included. Blocks in use
    /// serve their calls to the end and are found by no one else; those calls store nothing more. Blocks in use that
    /// were never stored are not counted.
    pub fn forget(&mut self, root: &Root) -> ResetReport {
        let pins = self.unpin_all(Some(root));
        let mine = |call: &Call| call.sequence.keys().root == *root;
        let of_state = |cache: &Self, state| -> Vec<CallId> {
            let calls = cache.calls.iter().filter(|(_, call)| call.state == state && mine(call));
            calls.map(|(&id, _)| id).collect()
        };
        let waiting = of_state(self, State::Waiting);
        self.wait_no_more(&waiting);
        let running = of_state(self, State::Running);
        self.tips.retain(|(_, id)| !running.contains(id));
        for id in &running {
            if let Some(call) = self.calls.get_mut(id) {
                call.chain.clear();
                call.scope = None;
                call.options.no_store = true;
            }
        }
        let (mut dropped, mut in_use) = (0, 0);
        for start in self.store.tree.starts_of(root) {
            let erased = self.store.erase(start);
            dropped += erased.0;
            in_use += erased.1;
        }
        ResetReport { dropped, in_use, running: running.len(), waiting: waiting.len(), pins }
    }

    /// Forgets everything that is stored under other roots than these, as [`forget`](Self::forget) does: what nobody can find
    /// any more, since the scope of its tenant is another now.
    pub fn retain(&mut self, is_kept: impl Fn(&Root) -> bool) -> ResetReport {
        let mut report = ResetReport { dropped: 0, in_use: 0, running: 0, waiting: 0, pins: 0 };
        for root in self.store.owners.roots().into_iter().filter(|root| !is_kept(root)) {
            let ResetReport { dropped, in_use, running, waiting, pins } = self.forget(&root);
            report.dropped += dropped;
            report.in_use += in_use;
            report.running += running;
            report.waiting += waiting;
            report.pins += pins;
        }
        report
    }

    /// Forgets everything that is stored, pinned or not. Always succeeds: blocks in use serve their calls to the end and are found by no one else.
    pub fn reset(&mut self) -> ResetReport {
        let pins = self.unpin_all(None);
        let groups = 0..self.config.groups.len();
        let waiting: Vec<CallId> = self
            .calls
            .iter()
            .filter(|(_, call)| call.state == State::Waiting)
            .map(|(&id, _)| id)
            .collect();
        self.wait_no_more(&waiting);
        let dropped = groups.clone().map(|group| self.store.pool.cached(group)).sum();
        let in_use = groups.map(|group| self.store.pool.used(group)).sum();
        let mut running = 0;
        for call in self.calls.values_mut().filter(|call| call.state == State::Running) {
            running += 1;
            call.chain.clear();
            call.scope = None;
            call.options.no_store = true;
        }
        self.tips.clear();
        self.store.pool.detach_all();
        self.store.tree.clear();
        self.store.ghosts.clear();
        self.store.counters.evictions.reset += (dropped + in_use) as u64;
        self.store.events.push(KvEvent::Cleared);
        ResetReport { dropped, in_use, running, waiting: waiting.len(), pins }
    }
}
