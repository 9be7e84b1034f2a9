//! Plays the engine over a memory that knows what was written where, and holds the cache against the model.

mod checks;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use tapri_kv::{
    Admission, AdmitOptions, BlockId, CacheConfig, CallError, CallId, ForkError, GroupIndex,
    Moment, PinError, PinLimits, PrefixCache,
};

use crate::history::{Op, keys};
use crate::model::{Model, Prefix};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Queued,
    Waiting { writer: u64, until: usize },
    Running,
    Pinned,
}

struct Call {
    tokens: Vec<u32>,
    scope: usize,
    options: AdmitOptions,
    answer: usize,
    state: State,
    started: Duration,
    computed: usize,
    /// Stored blocks that it holds from the start on.
    chain: usize,
    resumed: bool,
    /// Tokens that it was admitted with.
    admitted: usize,
}

/// What a slot of a block holds: whose token, after which whole prefix.
type Slot = Option<(usize, Prefix)>;

pub(crate) struct Harness {
    cache: PrefixCache,
    config: CacheConfig,
    model: Model,
    memory: Vec<Vec<Slot>>,
    calls: BTreeMap<u64, Call>,
    /// Tokens and scope of every call there ever was.
    past: BTreeMap<u64, (usize, Vec<u32>)>,
    /// Every prefix that was stored since the last reset.
    ever: HashSet<Prefix>,
    next: u64,
    now: Duration,
    log: Vec<String>,
}

impl Harness {
    pub(crate) fn new(config: CacheConfig) -> Self {
        Self {
            cache: PrefixCache::new(config.clone()).unwrap(),
            model: Model::new(&config),
            memory: vec![vec![None; config.block_tokens]; config.blocks],
            calls: BTreeMap::new(),
            past: BTreeMap::new(),
            ever: HashSet::new(),
            next: 1,
            now: Duration::ZERO,
            log: Vec::new(),
            config,
        }
    }

    pub(crate) fn into_log(self) -> Vec<String> {
        self.log
    }

    fn moment(&self) -> Moment {
        Moment::after(self.now)
    }

    fn pick(&self, pick: usize, want: impl Fn(&State) -> bool) -> Option<u64> {
        let ids: Vec<u64> =
            self.calls.iter().filter(|(_, call)| want(&call.state)).map(|(&id, _)| id).collect();
        (!ids.is_empty()).then(|| ids[pick % ids.len()])
    }

    fn pick_running(&self, pick: usize) -> Option<u64> {
        self.pick(pick, |state| *state == State::Running)
    }

    fn pick_waiting(&self, pick: usize) -> Option<u64> {
        self.pick(pick, |state| matches!(state, State::Waiting { .. }))
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match *op {
            Op::Admit { ref prompt, scope, no_read, no_store, no_join, answer } => {
                let options = AdmitOptions {
                    no_read,
                    no_store,
                    no_join,
                    reserve_tokens: prompt.len() + answer / 2,
                    share: None,
                };
                let (state, started, tokens) = (State::Queued, self.now, prompt.clone());
                let call = Call {
                    tokens,
                    scope,
                    options,
                    answer,
                    state,
                    started,
                    computed: 0,
                    chain: 0,
                    resumed: false,
                    admitted: prompt.len(),
                };
                self.calls.insert(self.next, call);
                self.next += 1;
                self.admit(self.next - 1);
            }
            Op::Step { pick, tokens } => {
                self.pick_running(pick).into_iter().for_each(|id| self.step(id, tokens));
            }
            Op::Fork { pick, answer } => {
                self.pick_running(pick).into_iter().for_each(|id| self.fork(id, answer));
            }
            Op::Finish { pick } => {
                self.pick_running(pick).into_iter().for_each(|id| self.finish(id));
            }
            Op::Abort { pick } => {
                if let Some(id) = self.pick(pick, |_| true) {
                    assert!(self.cache.abort(CallId(id), self.moment()));
                    self.forget(id);
                }
            }
            Op::Preempt { pick } => {
                self.pick(pick, |state| holds_for_now(*state))
                    .into_iter()
                    .for_each(|id| self.preempt(id));
            }
            Op::Retry { pick } => {
                self.pick(pick, |state| *state == State::Queued)
                    .into_iter()
                    .for_each(|id| self.admit(id));
            }
            Op::Poll { pick } => {
                self.pick_waiting(pick).into_iter().for_each(|id| self.poll(id, false));
            }
            Op::Wake => self.wake(),
            Op::StopWaiting { pick } => {
                self.pick_waiting(pick).into_iter().for_each(|id| self.poll(id, true));
            }
            Op::Pass { seconds } => self.now += Duration::from_secs(seconds),
            Op::Expire => {
                let dropped = self.cache.expire(self.moment());
                self.expire_model();
                self.log.push(format!("expired {dropped}"));
            }
            Op::Reset => self.reset(),
            Op::Pin { pick } => self.pick_running(pick).into_iter().for_each(|id| self.pin(id)),
            Op::Unpin { pick } => {
                if let Some(id) = self.pick(pick, |state| *state == State::Pinned) {
                    assert!(self.cache.unpin(CallId(id), self.moment()));
                    self.calls.remove(&id);
                }
            }
        }
    }

    fn expire_model(&mut self) {
        let (calls, size) = (&self.calls, self.config.block_tokens);
        let in_use = |prefix: &Prefix| {
            calls.values().any(|call| {
                call.scope == prefix.0
                    && prefix.1.len() <= call.chain * size
                    && call.tokens.starts_with(&prefix.1)
            })
        };
        self.model.expire(self.now, in_use);
    }

    fn admit(&mut self, id: u64) {
        let before = self.picture();
        let call = &self.calls[&id];
        let admission = self
            .cache
            .admit(CallId(id), &call.tokens, &keys(call.scope), call.options, self.moment())
            .unwrap();
        if matches!(admission, Admission::NoRoom(_)) && self.config.ttl.is_none() {
            assert_eq!(before, self.picture(), "a call without room touched something");
        }
        self.admitted(id, admission);
    }

    fn poll(&mut self, id: u64, give_up: bool) {
        let now = self.moment();
        if give_up {
            self.calls.get_mut(&id).unwrap().options.no_join = true;
        }
        let admission = if give_up {
            self.cache.stop_waiting(CallId(id), now)
        } else {
            self.cache.poll_waiting(CallId(id), now)
        };
        assert!(!(give_up && matches!(admission, Ok(Admission::Wait(_)))));
        self.admitted(id, admission.unwrap());
    }

    fn wake(&mut self) {
        for CallId(id) in self.cache.drain_woken() {
            self.poll(id, false);
        }
    }

    fn admitted(&mut self, id: u64, admission: Admission) {
        self.log.push(format!("{id}: {admission:?}"));
        self.past.insert(id, (self.calls[&id].scope, self.calls[&id].tokens.clone()));
        let size = self.config.block_tokens;
        match admission {
            Admission::Ready(ready) => {
                self.expire_model();
                self.check_ready(id, &ready);
                let call = self.calls.get_mut(&id).unwrap();
                call.admitted = call.tokens.len();
                (call.state, call.started, call.computed, call.chain) =
                    (State::Running, self.now, ready.start(), ready.start() / size);
                self.model.touch(call.scope, &call.tokens, call.chain, self.now);
            }
            Admission::Wait(wait) => {
                let CallId(writer) = wait.writer;
                let other = &self.calls[&writer];
                let call = &self.calls[&id];
                assert_eq!(
                    (other.state, other.options.no_store, other.scope),
                    (State::Running, false, call.scope)
                );
                assert!(
                    wait.present < wait.until
                        && wait.until < call.tokens.len()
                        && other.computed < wait.until
                );
                assert!(
                    call.tokens[..wait.until] == other.tokens[..wait.until],
                    "waits for another prefix"
                );
                let chain = wait.present / size;
                let first = call.state == State::Queued;
                let call = self.calls.get_mut(&id).unwrap();
                if first || call.state != (State::Waiting { writer, until: wait.until / size }) {
                    call.started = self.now;
                }
                (call.state, call.chain) =
                    (State::Waiting { writer, until: wait.until / size }, chain);
                let (scope, tokens, started) = (call.scope, call.tokens.clone(), call.started);
                self.model.touch(scope, &tokens, chain, started);
                self.expire_model();
            }
            Admission::NoRoom(_) => {
                let others = self
                    .calls
                    .iter()
                    .any(|(&other, call)| other != id && holds_for_now(call.state));
                assert!(others, "a call that has all but the pins to itself finds room");
                let call = self.calls.get_mut(&id).unwrap();
                (call.state, call.chain) = (State::Queued, 0);
                self.expire_model();
            }
            Admission::TooLarge(large) => {
                assert!(large.needed > large.capacity);
                self.calls.remove(&id);
                self.expire_model();
            }
        }
    }

    fn step(&mut self, id: u64, tokens: usize) {
        let call = &self.calls[&id];
        let upto = (call.computed + tokens.min(self.config.step_tokens)).min(call.tokens.len());
        let mut fresh = Vec::new();
        match self.cache.reserve(CallId(id), upto, &mut fresh) {
            Ok(()) => {}
            Err(CallError::NoRoom(_)) => {
                let victim = self
                    .calls
                    .iter()
                    .rev()
                    .find(|&(&other, call)| other != id && holds_for_now(call.state))
                    .map(|(&id, _)| id);
                let Some(victim) = victim else {
                    assert!(
                        upto > self.calls[&id].admitted,
                        "a call that is alone finds room for its prompt"
                    );
                    // The answer has filled the whole pool.
                    return self.finish(id);
                };
                return self.preempt(victim);
            }
            Err(other) => panic!("{other}"),
        }
        for BlockId(block) in fresh {
            self.model.lose(block);
            self.memory[block as usize].fill(None);
        }
        self.write(id, upto);
        self.cache.computed(CallId(id), upto).unwrap();
        self.calls.get_mut(&id).unwrap().computed = upto;
        self.stored(id);
        self.cache.slide(CallId(id)).unwrap();
        let call = self.calls.get_mut(&id).unwrap();
        if call.computed == call.tokens.len() && call.answer > 0 {
            call.answer -= 1;
            let token = 300 + call.tokens.len() as u32 % 7;
            call.tokens.push(token);
            self.past.get_mut(&id).unwrap().1.push(token);
            self.cache.append(CallId(id), &[token]).unwrap();
        }
    }

    fn fork(&mut self, parent: u64, answer: usize) {
        let id = self.next;
        self.next += 1;
        let before = self.picture();
        let of = &self.calls[&parent];
        let options = AdmitOptions { reserve_tokens: of.tokens.len() + answer / 2, ..of.options };
        let mut call = Call {
            tokens: of.tokens.clone(),
            scope: of.scope,
            options,
            answer,
            state: State::Running,
            started: self.now,
            computed: of.computed,
            chain: of.chain,
            resumed: false,
            admitted: of.tokens.len(),
        };
        self.past.insert(id, (call.scope, call.tokens.clone()));
        match self.cache.fork(CallId(parent), CallId(id), options, self.moment()) {
            Ok(fork) => {
                for (BlockId(from), BlockId(to)) in fork.copies {
                    self.model.lose(to);
                    self.memory[to as usize] = self.memory[from as usize].clone();
                }
                self.model.touch(call.scope, &call.tokens, call.chain, self.now);
            }
            Err(ForkError::NoRoom(_)) => {
                assert_eq!(before, self.picture(), "a fork without room touched something");
                (call.state, call.chain, call.computed, call.resumed) = (State::Queued, 0, 0, true);
            }
            Err(other) => panic!("{other}"),
        }
        self.log.push(format!("{id}: forked from {parent}"));
        self.calls.insert(id, call);
    }

    /// What the model would do: keys and values go to the call's own blocks.
    fn write(&mut self, id: u64, upto: usize) {
        let (call, size) = (&self.calls[&id], self.config.block_tokens);
        for group in 0..self.config.groups.len() {
            let table = self.cache.table(CallId(id), GroupIndex(group));
            for at in call.computed..upto {
                let block = table[at / size];
                assert_eq!(
                    self.cache.references(BlockId(block)),
                    1,
                    "writes to a block that others use"
                );
                self.memory[block as usize][at % size] =
                    Some((group, (call.scope, call.tokens[..=at].to_vec())));
            }
        }
    }

    /// Brings the model up to date with what a call has stored.
    fn stored(&mut self, id: u64) {
        let size = self.config.block_tokens;
        let call = self.calls.get_mut(&id).unwrap();
        if call.options.no_store {
            return;
        }
        let before = call.chain;
        call.chain = call.computed / size;
        let (scope, tokens, chain, started) =
            (call.scope, call.tokens.clone(), call.chain, call.started);
        for group in 0..self.config.groups.len() {
            let table = self.cache.table(CallId(id), GroupIndex(group));
            for (number, &own) in table.iter().enumerate().take(chain).skip(before) {
                if let Some(block) = self.model.block(group, scope, &tokens, number + 1)
                    && self.cache.references(BlockId(block)) > 0
                {
                    assert_eq!(block, own, "there is one copy");
                }
                self.model.store(group, scope, &tokens, number + 1, own);
            }
        }
        self.ever.extend((1..=chain).map(|blocks| (scope, tokens[..blocks * size].to_vec())));
        self.model.touch(scope, &tokens, chain, started);
        for call in self.calls.values_mut() {
            if let State::Waiting { writer, until } = call.state
                && writer == id
            {
                call.chain = call.chain.max(until.min(chain));
                self.model.touch(call.scope, &call.tokens, call.chain, call.started);
            }
        }
    }

    fn pin(&mut self, id: u64) {
        let before = self.picture();
        let pinned = self.cache.stats().pinned;
        let limits = PinLimits { all: self.config.blocks / 2, own: self.config.blocks / 3 };
        let result = self.cache.pin(CallId(id), limits, self.moment());
        self.log.push(format!("{id}: pinned {result:?}"));
        let size = self.config.block_tokens;
        let call = self.calls.get_mut(&id).unwrap();
        match result {
            Ok(pin) => {
                assert_eq!(pin.tokens, call.chain * size);
                assert!(pin.tokens > 0 && !call.options.no_store);
                (call.state, call.computed) = (State::Pinned, pin.tokens);
                let all = self.cache.stats().pinned;
                assert!(all <= limits.all && (pinned..=pinned + pin.blocks).contains(&all));
                self.orphan(id);
            }
            Err(PinError::Nothing { .. }) => {
                assert!(
                    call.options.no_store
                        || call.chain == 0
                        || self.model.needs.iter().all(Option::is_some)
                );
            }
            Err(PinError::Full(full)) => {
                assert!(full.needed > 0 && full.needed + full.pinned > full.limit);
            }
            Err(other) => panic!("{other}"),
        }
        if result.is_err() {
            assert_eq!(before, self.picture(), "a pin that is refused changes nothing");
        }
    }

    fn finish(&mut self, id: u64) {
        assert!(self.cache.finish(CallId(id), self.moment()));
        assert!(!self.cache.finish(CallId(id), self.moment()));
        self.forget(id);
    }

    fn forget(&mut self, id: u64) {
        self.calls.remove(&id);
        self.orphan(id);
    }

    /// Those that waited for a call that stopped wait for nobody, until they are polled.
    fn orphan(&mut self, id: u64) {
        for call in self.calls.values_mut() {
            if let State::Waiting { writer, .. } = &mut call.state
                && *writer == id
            {
                *writer = 0;
            }
        }
    }

    fn preempt(&mut self, id: u64) {
        assert!(self.cache.preempt(CallId(id), self.moment()));
        let call = self.calls.get_mut(&id).unwrap();
        call.resumed |= call.state == State::Running;
        (call.state, call.chain, call.computed) = (State::Queued, 0, 0);
        self.orphan(id);
    }

    fn reset(&mut self) {
        let used: usize = self.cache.stats().groups.iter().map(|group| group.in_use).sum();
        let waiting =
            self.calls.values().filter(|call| matches!(call.state, State::Waiting { .. })).count();
        let pins = self.calls.values().filter(|call| call.state == State::Pinned).count();
        let report = self.cache.reset();
        assert!(report.in_use <= used && report.waiting == waiting && report.pins == pins);
        self.calls.retain(|_, call| call.state != State::Pinned);
        self.model.clear();
        self.ever.clear();
        for call in self.calls.values_mut() {
            call.options.no_store |= call.state == State::Running;
            call.chain = 0;
            if let State::Waiting { writer, .. } = &mut call.state {
                *writer = 0;
            }
        }
        assert_eq!(self.cache.stats().stored, 0);
    }

    /// Lets everything run to its end: no call is stuck, and nothing is held.
    pub(crate) fn end(&mut self) {
        for _ in 0..8 * (self.calls.len() + 2) {
            self.wake();
            while let Some(id) = self.pick_running(0) {
                let before = self.calls[&id].computed;
                self.step(id, self.config.step_tokens);
                if self.calls.get(&id).is_some_and(|call| call.computed == before) {
                    self.finish(id);
                }
                self.wake();
                self.check();
            }
            if let Some(id) = self.pick_waiting(0) {
                panic!("call {id} waits for nobody");
            }
            match self.pick(0, |state| *state == State::Queued) {
                Some(id) => self.admit(id),
                None => break,
            }
        }
        // Everything came to its end beside the pins.
        while let Some(id) = self.pick(0, |state| *state == State::Pinned) {
            assert!(self.cache.unpin(CallId(id), self.moment()));
            assert!(!self.cache.unpin(CallId(id), self.moment()));
            self.calls.remove(&id);
            self.check();
        }
        assert!(self.calls.is_empty(), "calls are left");
        let (queue, references) = self.picture();
        assert_eq!((queue.len(), references.iter().sum::<u32>()), (self.config.blocks - 1, 0));
        assert_eq!(self.cache.stats().promised, 0);
    }
}

/// Whether it holds blocks that it will give back by itself.
fn holds_for_now(state: State) -> bool {
    matches!(state, State::Waiting { .. } | State::Running)
}
