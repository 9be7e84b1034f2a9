//! Shares: no history of calls brings an owner above its limit or costs another owner a block that it may keep. Held against
//! counts that are made anew from every block after every step.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tapri_kv::{
    Admission, AdmitOptions, BlockId, CacheConfig, CallError, CallId, GroupIndex, GroupSpec,
    Moment, PrefixCache, PrefixHash, PromptKeys, Root, RootParts,
};

const BLOCKS: u32 = 25;
const SIZE: usize = 16;
/// Of three owners, two have a share; the pool has less than all want together.
const SHARES: [Option<usize>; 3] = [Some(6), Some(10), None];

#[derive(Debug, Clone)]
enum Step {
    /// A call of an owner: one of a few texts, so long, with so long an answer.
    Admit {
        owner: usize,
        text: u32,
        blocks: usize,
        answer: usize,
    },
    /// One more block of a call.
    Grow(usize),
    Finish(usize),
    Preempt(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3usize, 0..4u32, 1..7usize, 0..40usize)
            .prop_map(|(owner, text, blocks, answer)| Step::Admit { owner, text, blocks, answer }),
        8 => any::<usize>().prop_map(Step::Grow),
        2 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Preempt),
    ]
}

fn root(owner: usize) -> Root {
    Root::new(&RootParts {
        numerics: 1,
        isa: "scalar",
        model: b"m",
        rope: b"r",
        kv_type: "bf16",
        block_tokens: SIZE,
        hash: PrefixHash::Xxh3,
        tenant: &[owner as u8],
    })
}

struct Running {
    owner: usize,
    reserve: usize,
    tokens: usize,
    at: usize,
}

struct World {
    cache: PrefixCache,
    running: BTreeMap<u64, Running>,
    next: u64,
}

/// An owner's blocks: used, and free.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Naive {
    used: BTreeSet<u32>,
    cached: BTreeSet<u32>,
}

impl Naive {
    fn all(&self) -> usize {
        self.used.len() + self.cached.len()
    }
}

impl World {
    fn new() -> Self {
        let mut config = CacheConfig::new(BLOCKS as usize, vec![GroupSpec::Full]);
        config.block_tokens = SIZE;
        config.join = false;
        World { cache: PrefixCache::new(config).unwrap(), running: BTreeMap::new(), next: 0 }
    }

    /// Counted block by block.
    fn naive(&self, owner: usize) -> Naive {
        let root = root(owner);
        let mine = |block: &u32| self.cache.is_owned(BlockId(*block), &root);
        let free: BTreeSet<u32> = self.cache.free_queue().map(|block| block.0).collect();
        let (cached, used) = (1..BLOCKS).filter(mine).partition(|block| free.contains(block));
        Naive { used, cached }
    }

    fn promised(&self, owner: usize) -> usize {
        let calls = self.running.iter().filter(|(_, call)| call.owner == owner);
        calls
            .map(|(&id, call)| {
                let limit = SHARES[owner].unwrap_or(usize::MAX).min(BLOCKS as usize - 1);
                let held = self.cache.table(CallId(id), GroupIndex(0)).len();
                call.reserve.div_ceil(SIZE).min(limit).saturating_sub(held)
            })
            .sum()
    }

    /// A step that is one owner's doing: what it costs others is checked.
    fn of<T>(
        &mut self,
        owner: usize,
        step: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, TestCaseError> {
        let before: Vec<Naive> = (0..3).map(|owner| self.naive(owner)).collect();
        let done = step(self);
        let after: Vec<Naive> = (0..3).map(|owner| self.naive(owner)).collect();
        let full = SHARES[owner].is_some_and(|share| before[owner].all() >= share);
        for other in (0..3).filter(|&other| other != owner) {
            prop_assert_eq!(&before[other].used, &after[other].used, "what is in use stays");
            if full {
                prop_assert_eq!(&before[other].cached, &after[other].cached, "its own go first");
            }
        }
        let grew = after[owner].used.len() > before[owner].used.len();
        let found = before[owner].cached.intersection(&after[owner].used).count();
        if full && grew && found == 0 {
            prop_assert!(after[owner].cached.len() < before[owner].cached.len());
        }
        for (owner, share) in SHARES.iter().enumerate() {
            let naive = &after[owner];
            let counted = self.cache.owned(&root(owner));
            prop_assert_eq!(
                (counted.in_use, counted.cached),
                (naive.used.len(), naive.cached.len())
            );
            if let Some(share) = share {
                prop_assert!(naive.all() <= *share, "owner {} has {:?} of {}", owner, naive, share);
            }
        }
        Ok(done)
    }

    fn pick(&self, which: usize) -> Option<u64> {
        let calls: Vec<u64> = self.running.keys().copied().collect();
        (!calls.is_empty()).then(|| calls[which % calls.len()])
    }

    fn end(&mut self, id: u64) {
        self.running.remove(&id);
        self.cache.finish(CallId(id), Moment::START);
    }

    fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Admit { owner, text, blocks, answer } => {
                let tokens: Vec<u32> =
                    (0..(blocks * SIZE) as u32).map(|n| text * 10_000 + n).collect();
                let (id, reserve) = (self.next, tokens.len() + answer);
                self.next += 1;
                let options = AdmitOptions {
                    reserve_tokens: reserve,
                    share: SHARES[owner],
                    ..AdmitOptions::default()
                };
                let keys = PromptKeys::new(root(owner));
                let alone = self.running.is_empty();
                let before = self.naive(owner).used.len() + self.promised(owner);
                let admission = self.of(owner, |world| {
                    let admitted = world
                        .cache
                        .admit(CallId(id), &tokens, &keys, options, Moment::START)
                        .unwrap();
                    if let Admission::Ready(ready) = &admitted {
                        let call =
                            Running { owner, reserve, tokens: tokens.len(), at: ready.start() };
                        world.running.insert(id, call);
                    }
                    admitted
                })?;
                match admission {
                    // A call may grow into what others of its owner were promised, as in the pool; none is admitted to it.
                    Admission::Ready(_) => {
                        let share = SHARES[owner].unwrap_or(usize::MAX);
                        let held = self.naive(owner).used.len() + self.promised(owner);
                        prop_assert!(held <= share.max(before), "{} are used or promised", held);
                    }
                    Admission::Wait(_) => prop_assert!(false, "joining is off"),
                    Admission::NoRoom(no_room) => {
                        prop_assert!(!alone, "with nobody there, what can fit fits: {:?}", no_room);
                        prop_assert!(no_room.needed > no_room.free);
                        if no_room.of_share {
                            let used = self.naive(owner).used.len() + self.promised(owner);
                            prop_assert!(used > 0, "its own calls are in its way, and no others");
                        }
                        self.end(id);
                    }
                    Admission::TooLarge(large) => {
                        prop_assert!(blocks > SHARES[owner].unwrap_or(BLOCKS as usize - 1));
                        prop_assert!(large.of_share);
                    }
                }
            }
            Step::Grow(which) => {
                let Some(id) = self.pick(which) else { return Ok(()) };
                let call = &self.running[&id];
                let (owner, upto) = (call.owner, (call.at / SIZE + 1) * SIZE);
                let tokens = call.tokens;
                let grown = self.of(owner, |world| {
                    let mut fresh = Vec::new();
                    world.cache.reserve(CallId(id), upto, &mut fresh)?;
                    if upto > tokens {
                        let more: Vec<u32> = (0..SIZE as u32).map(|n| n + 7 * id as u32).collect();
                        world.cache.append(CallId(id), &more)?;
                    }
                    world.cache.computed(CallId(id), upto)?;
                    Ok::<_, CallError>(())
                })?;
                match grown {
                    Ok(()) => {
                        if let Some(call) = self.running.get_mut(&id) {
                            call.at = upto;
                        }
                    }
                    Err(CallError::NoRoom(no_room)) => {
                        let (used, share) = (self.naive(owner).used.len(), SHARES[owner]);
                        match no_room.of_share {
                            true => prop_assert_eq!(Some(used), share, "its calls use all of it"),
                            false => prop_assert_eq!(self.cache.free_blocks(), 0),
                        }
                        self.of(owner, |world| world.end(id))?;
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
            }
            Step::Finish(which) => {
                let Some(id) = self.pick(which) else { return Ok(()) };
                let owner = self.running[&id].owner;
                self.of(owner, |world| world.end(id))?;
            }
            Step::Preempt(which) => {
                let Some(id) = self.pick(which) else { return Ok(()) };
                let owner = self.running[&id].owner;
                self.of(owner, |world| {
                    world.cache.preempt(CallId(id), Moment::START);
                    world.end(id);
                })?;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_share_holds_and_costs_nobody_else(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.run(step)?;
        }
    }
}
