//! A second memory behind the cache: what makes room goes there, what a call lacks comes back, and every block that a call
//! uses holds what the call would have computed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;
use tapri_kv::{
    Admission, AdmitOptions, BlockHash, BlockId, CacheConfig, CallId, GroupIndex, Moment, Page,
    PrefixCache, PromptKeys, Ready, Restorable,
};

use crate::history::keys;

/// What is in a block: whose it is, all tokens up to its end, and of which group.
type Content = (usize, Vec<u32>, usize);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A prompt that goes on from one of a few texts after `shared` tokens.
    Admit {
        text: u32,
        shared: usize,
        own: usize,
        scope: usize,
        no_store: bool,
        restore: u8,
    },
    /// What is being read arrives, or can't be had.
    Arrive {
        pick: usize,
        fails: bool,
    },
    Step {
        pick: usize,
        tokens: usize,
    },
    Finish {
        pick: usize,
    },
    Preempt {
        pick: usize,
    },
    /// Everything in memory is kept elsewhere, and a new cache begins.
    Restart {
        save: bool,
    },
    /// The other memory loses every n-th page.
    Lose {
        every: usize,
    },
    Forget {
        scope: usize,
    },
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0u32..3, 0usize..60, 1usize..12, 0usize..2, prop::bool::weighted(0.1), 0u8..4)
            .prop_map(|(text, shared, own, scope, no_store, restore)| Op::Admit { text, shared, own, scope, no_store, restore }),
        4 => (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(pick, fails)| Op::Arrive { pick, fails }),
        10 => (any::<usize>(), 1usize..9).prop_map(|(pick, tokens)| Op::Step { pick, tokens }),
        5 => any::<usize>().prop_map(|pick| Op::Finish { pick }),
        1 => any::<usize>().prop_map(|pick| Op::Preempt { pick }),
        1 => any::<bool>().prop_map(|save| Op::Restart { save }),
        1 => (2usize..6).prop_map(|every| Op::Lose { every }),
        1 => (0usize..2).prop_map(|scope| Op::Forget { scope }),
    ];
    prop::collection::vec(op, 1..80)
}

struct Call {
    tokens: Vec<u32>,
    scope: usize,
    computed: usize,
    reading: Option<(Restorable, Vec<BlockId>, Ready)>,
}

struct Bench {
    config: CacheConfig,
    cache: PrefixCache,
    memory: HashMap<u32, Content>,
    elsewhere: BTreeMap<(BlockHash, usize), Content>,
    calls: BTreeMap<u64, Call>,
    next: u64,
    now: u64,
    restored: u64,
}

fn keys_of(scope: usize) -> PromptKeys {
    keys(scope)
}

impl Bench {
    fn size(&self) -> usize {
        self.config.block_tokens
    }

    fn moment(&self) -> Moment {
        Moment::after(Duration::from_secs(self.now))
    }

    fn content(&self, call: &Call, number: usize, group: usize) -> Content {
        (call.scope, call.tokens[..(number + 1) * self.size()].to_vec(), group)
    }

    fn keep(&mut self, page: &Page) {
        let content = self.memory[&page.block.0].clone();
        assert_eq!(content.2, page.group.0);
        assert!(content.1.ends_with(&page.tokens), "the tokens of another block");
        assert_eq!(content.1.len(), (page.number + 1) * self.size());
        self.elsewhere.insert((page.hash, page.group.0), content);
    }

    fn spill(&mut self) {
        for page in self.cache.take_leaving() {
            self.keep(&page);
        }
    }

    fn pick(&self, pick: usize, want: impl Fn(&Call) -> bool) -> Option<u64> {
        let ids: Vec<u64> =
            self.calls.iter().filter(|(_, call)| want(call)).map(|(&id, _)| id).collect();
        (!ids.is_empty()).then(|| ids[pick % ids.len()])
    }

    fn admit(&mut self, tokens: Vec<u32>, scope: usize, no_store: bool, restore: u8) {
        let id = self.next;
        self.next += 1;
        let options = AdmitOptions { no_store, no_join: true, ..AdmitOptions::default() };
        let moment = self.moment();
        let admission = self.cache.admit(CallId(id), &tokens, &keys_of(scope), options, moment);
        let Admission::Ready(ready) = admission.unwrap() else {
            self.cache.abort(CallId(id), moment);
            return;
        };
        let call = Call { tokens, scope, computed: ready.start(), reading: None };
        self.calls.insert(id, call);
        if restore > 0 {
            self.begin(id, ready);
        }
    }

    fn begin(&mut self, id: u64, ready: Ready) {
        let there =
            |hash: &BlockHash, group: GroupIndex| self.elsewhere.contains_key(&(*hash, group.0));
        let Some(plan) = self.cache.restorable(CallId(id), there) else { return };
        assert_eq!(plan.from * self.size(), ready.start());
        assert!(plan.upto > plan.from);
        assert!(
            plan.upto * self.size() < self.calls[&id].tokens.len(),
            "the last token is computed"
        );
        let Ok(blocks) = self.cache.begin_restore(CallId(id), &plan) else { return };
        assert_eq!(blocks.len(), plan.pages.len());
        self.spill();
        for block in &blocks {
            self.memory.remove(&block.0);
        }
        self.calls.get_mut(&id).unwrap().reading = Some((plan, blocks, ready));
    }

    fn arrive(&mut self, id: u64, fails: bool) {
        let call = self.calls.get_mut(&id).unwrap();
        let (plan, blocks, ready) = call.reading.take().unwrap();
        let pages: Option<Vec<Content>> = plan
            .pages
            .iter()
            .map(|page| self.elsewhere.get(&(page.hash, page.group.0)).cloned())
            .collect();
        match pages.filter(|_| !fails) {
            Some(pages) => {
                for (block, content) in blocks.iter().zip(pages) {
                    self.memory.insert(block.0, content);
                }
                let after = self.cache.restored(CallId(id), ready).unwrap();
                assert_eq!(after.start(), plan.upto * self.size());
                self.restored += (after.start() - ready.start()) as u64;
                self.calls.get_mut(&id).unwrap().computed = after.start();
            }
            None => {
                // A part of it came, and is of no use.
                for block in blocks.iter().take(blocks.len() / 2) {
                    self.memory.insert(block.0, (9, vec![9], 9));
                }
                self.cache.give_up_restore(CallId(id)).unwrap();
            }
        }
    }

    fn step(&mut self, id: u64, tokens: usize) {
        let call = &self.calls[&id];
        let upto = (call.computed + tokens).min(call.tokens.len());
        let from = call.computed;
        let mut fresh = Vec::new();
        if self.cache.reserve(CallId(id), upto, &mut fresh).is_err() {
            self.finish(id);
            return;
        }
        self.spill();
        for block in &fresh {
            self.memory.remove(&block.0);
        }
        let call = &self.calls[&id];
        for group in 0..self.config.groups.len() {
            let table = self.cache.table(CallId(id), GroupIndex(group));
            let computed = table.iter().enumerate().take(upto / self.size());
            for (number, &block) in computed.skip(from / self.size()) {
                let content = self.content(call, number, group);
                assert_ne!(block, 0);
                self.memory.insert(block, content);
            }
        }
        self.cache.computed(CallId(id), upto).unwrap();
        self.cache.slide(CallId(id)).unwrap();
        self.calls.get_mut(&id).unwrap().computed = upto;
    }

    fn finish(&mut self, id: u64) {
        self.calls.remove(&id);
        let now = self.moment();
        assert!(self.cache.finish(CallId(id), now));
    }

    fn apply(&mut self, op: &Op) {
        self.now += 1;
        match *op {
            Op::Admit { text, shared, own, scope, no_store, restore } => {
                let mut tokens: Vec<u32> = (0..shared as u32).map(|n| text * 1000 + n).collect();
                tokens.extend((0..own as u32).map(|n| 5000 + self.now as u32 * 100 + n));
                self.admit(tokens, scope, no_store, restore);
            }
            Op::Arrive { pick, fails } => {
                let id = self.pick(pick, |call| call.reading.is_some());
                id.into_iter().for_each(|id| self.arrive(id, fails));
            }
            Op::Step { pick, tokens } => {
                let ready =
                    |call: &Call| call.reading.is_none() && call.computed < call.tokens.len();
                self.pick(pick, ready).into_iter().for_each(|id| self.step(id, tokens));
            }
            Op::Finish { pick } => {
                self.pick(pick, |_| true).into_iter().for_each(|id| self.finish(id));
            }
            Op::Preempt { pick } => {
                let Some(id) = self.pick(pick, |_| true) else { return };
                let now = self.moment();
                assert!(self.cache.preempt(CallId(id), now));
                let Call { tokens, scope, .. } = self.calls.remove(&id).unwrap();
                let options = AdmitOptions { no_join: true, ..AdmitOptions::default() };
                let again = self.cache.admit(CallId(id), &tokens, &keys_of(scope), options, now);
                match again.unwrap() {
                    Admission::Ready(ready) => {
                        let computed = ready.start();
                        self.calls.insert(id, Call { tokens, scope, computed, reading: None });
                        self.begin(id, ready);
                    }
                    _ => assert!(self.cache.abort(CallId(id), now)),
                }
            }
            Op::Restart { save } => {
                if save {
                    let there = &self.elsewhere;
                    let pages =
                        self.cache.pages(|hash, group, _| !there.contains_key(&(*hash, group.0)));
                    let used: Vec<_> = pages.iter().map(|page| page.used_at).collect();
                    assert!(used.is_sorted_by(|a, b| a >= b), "the last used first");
                    pages.iter().for_each(|page| self.keep(page));
                }
                self.cache = PrefixCache::new(self.config.clone()).unwrap();
                self.memory.clear();
                self.calls.clear();
            }
            Op::Lose { every } => {
                let lost: Vec<_> = self.elsewhere.keys().copied().step_by(every).collect();
                lost.iter().for_each(|key| drop(self.elsewhere.remove(key)));
            }
            Op::Forget { scope } => {
                self.cache.forget(&keys_of(scope).root);
                self.elsewhere.retain(|_, content| content.0 != scope);
            }
        }
    }

    /// Every block that a call will read holds what belongs there.
    fn check(&self) {
        for (&id, call) in &self.calls {
            let full = call.computed / self.size();
            for (group, spec) in self.config.groups.iter().enumerate() {
                let table = self.cache.table(CallId(id), GroupIndex(group));
                let need = match spec {
                    tapri_kv::GroupSpec::Window { tokens } => {
                        (tokens.get() - 1).div_ceil(self.size())
                    }
                    _ => full,
                };
                assert!(table.len() >= full);
                let needed = table.iter().enumerate().take(full).skip(full.saturating_sub(need));
                for (number, block) in needed {
                    let content = self.memory.get(block);
                    assert_eq!(
                        content,
                        Some(&self.content(call, number, group)),
                        "call {id}, group {group}, block {number}"
                    );
                }
            }
        }
        let stats = self.cache.stats();
        let used: usize = stats.groups.iter().map(|group| group.in_use).sum();
        assert_eq!(used + stats.free, stats.capacity);
        if self.calls.is_empty() {
            assert_eq!((used, stats.promised), (0, 0));
        }
    }
}

/// Plays a history; returns the tokens that came back from elsewhere.
pub(crate) fn play(config: &CacheConfig, ops: &[Op]) -> u64 {
    let mut config = config.clone();
    config.spill = true;
    let mut bench = Bench {
        cache: PrefixCache::new(config.clone()).unwrap(),
        config,
        memory: HashMap::new(),
        elsewhere: BTreeMap::new(),
        calls: BTreeMap::new(),
        next: 1,
        now: 0,
        restored: 0,
    };
    for op in ops {
        bench.apply(op);
        bench.check();
    }
    while let Some(id) = bench.pick(0, |_| true) {
        bench.finish(id);
    }
    bench.check();
    bench.restored
}
