//! One full-attention group with plain vectors: the order in which blocks go, written as simply as can be.

use std::collections::{BTreeMap, HashMap};

use tapri_kv::{Admission, AdmitOptions, CacheConfig, CallId, GroupIndex, Moment, PrefixCache};

use crate::history::{Op, keys};
use crate::model::Prefix;

/// The naive pool: a queue in a vector, a map from whole prefixes to blocks.
struct Naive {
    size: usize,
    queue: Vec<u32>,
    map: HashMap<Prefix, u32>,
    users: HashMap<u32, usize>,
}

struct Call {
    tokens: Vec<u32>,
    scope: usize,
    table: Vec<u32>,
    computed: usize,
    stored: usize,
    no_store: bool,
}

impl Naive {
    fn prefix(&self, call: &Call, number: usize) -> Prefix {
        (call.scope, call.tokens[..(number + 1) * self.size].to_vec())
    }

    fn find(&self, call: &Call) -> Vec<u32> {
        let limit = (call.tokens.len() - 1) / self.size;
        (0..limit).map_while(|number| self.map.get(&self.prefix(call, number)).copied()).collect()
    }

    fn take(&mut self, block: u32) {
        self.queue.retain(|&other| other != block);
        *self.users.entry(block).or_default() += 1;
    }

    fn allocate(&mut self) -> u32 {
        let block = self.queue[0];
        self.map.retain(|_, other| *other != block);
        self.take(block);
        block
    }

    /// One user less; whether it was the last.
    fn drop(&mut self, block: u32) -> bool {
        let users = self.users.get_mut(&block).unwrap();
        *users -= 1;
        *users == 0
    }

    fn publish(&mut self, call: &mut Call) {
        for number in call.stored..call.computed / self.size {
            let prefix = self.prefix(call, number);
            match self.map.get(&prefix).copied() {
                Some(block) if block != call.table[number] => {
                    self.take(block);
                    if self.drop(call.table[number]) {
                        self.queue.insert(0, call.table[number]);
                    }
                    call.table[number] = block;
                }
                _ => {
                    self.map.insert(prefix, call.table[number]);
                }
            }
            call.stored = number + 1;
        }
    }

    fn free(&mut self, call: &Call) {
        let (stored, private) = call.table.split_at(call.stored);
        for &block in private {
            self.drop(block);
            self.queue.insert(0, block);
        }
        for &block in stored.iter().rev() {
            if self.drop(block) {
                self.queue.push(block);
            }
        }
    }
}

/// Plays the history on both and compares hits, tables and the queue after every step.
pub(crate) fn compare(config: &CacheConfig, ops: &[Op]) {
    let now = Moment::START;
    let mut cache = PrefixCache::new(config.clone()).unwrap();
    let size = config.block_tokens;
    let mut naive = Naive {
        size,
        queue: (1..config.blocks as u32).collect(),
        map: HashMap::new(),
        users: HashMap::new(),
    };
    let mut calls: BTreeMap<u64, Call> = BTreeMap::new();
    for (serial, op) in ops.iter().enumerate() {
        let pick = |pick: usize| {
            (!calls.is_empty()).then(|| *calls.keys().nth(pick % calls.len()).unwrap())
        };
        match *op {
            Op::Admit { ref prompt, scope, no_read, no_store, .. } => {
                let id = serial as u64;
                let options = AdmitOptions { no_read, no_store, ..AdmitOptions::default() };
                let admission =
                    cache.admit(CallId(id), prompt, &keys(scope), options, now).unwrap();
                let mut call = Call {
                    tokens: prompt.clone(),
                    scope,
                    table: Vec::new(),
                    computed: 0,
                    stored: 0,
                    no_store,
                };
                if let Admission::Ready(ready) = admission {
                    call.table = if no_read { Vec::new() } else { naive.find(&call) };
                    call.table.iter().for_each(|&block| naive.take(block));
                    call.stored = call.table.len();
                    call.computed = call.stored * size;
                    assert_eq!(ready.start(), call.computed);
                    calls.insert(id, call);
                } else {
                    cache.abort(CallId(id), now);
                }
            }
            Op::Step { pick: at, tokens } => {
                let Some(id) = pick(at) else { continue };
                let call = calls.get_mut(&id).unwrap();
                if call.computed == call.tokens.len() {
                    call.tokens.push(7);
                    cache.append(CallId(id), &[7]).unwrap();
                }
                let upto = (call.computed + tokens).min(call.tokens.len());
                if cache.reserve(CallId(id), upto, &mut Vec::new()).is_ok() {
                    while call.table.len() * size < upto {
                        call.table.push(naive.allocate());
                    }
                    cache.computed(CallId(id), upto).unwrap();
                    call.computed = upto;
                    if !call.no_store {
                        naive.publish(call);
                    }
                } else {
                    assert!(
                        upto.div_ceil(size) - call.table.len() > naive.queue.len(),
                        "there is room"
                    );
                }
            }
            Op::Finish { pick: at } | Op::Abort { pick: at } | Op::Preempt { pick: at } => {
                let Some(id) = pick(at) else { continue };
                cache.finish(CallId(id), now);
                let call = calls.remove(&id).unwrap();
                naive.free(&call);
            }
            _ => continue,
        }
        let queue: Vec<u32> = cache.free_queue().map(|block| block.0).collect();
        assert_eq!(queue, naive.queue);
        for (&id, call) in &calls {
            assert_eq!(cache.table(CallId(id), GroupIndex(0)), call.table);
        }
    }
}
