//! The one pass, the replay through blocks of one token, and the engine's cache with real blocks give the same.

use std::time::Duration;

use proptest::prelude::*;
use tapri_insight::simulate::{Counting, Curve, Settings, Trace, replay};
use tapri_kv::{
    Admission, AdmitOptions, CacheConfig, CallId, GroupSpec, Moment, PrefixCache, PrefixHash,
    PromptKeys, Root, RootParts,
};

use crate::random::{BLOCK, steps, trace};

fn check_every_capacity(trace: &Trace, counting: Counting) {
    let curve = Curve::new(trace, counting, |_| {});
    // A call as large as the cache is refused where it still needs a block for what comes after.
    let first = curve.smallest() + usize::from(counting == Counting::Listed);
    for capacity in first.max(1)..=curve.largest() + 2 {
        let settings = Settings { capacity: Some(capacity), ttl: None, counting };
        let replayed = replay(trace, settings, |_| {}).unwrap();
        assert_eq!(replayed.too_large, 0);
        assert_eq!(curve.at(capacity), Some(replayed.hits), "capacity {capacity}, {counting:?}");
    }
    let endless = replay(trace, Settings { capacity: None, ttl: None, counting }, |_| {}).unwrap();
    assert_eq!(curve.endless(), endless.hits);
    assert_eq!(endless.evicted, 0);
}

/// The calls with all their tokens through blocks of the trace's own size.
fn with_real_blocks(calls: &[(u32, Vec<u64>, u64)], capacity: usize, ttl: Option<Duration>) -> u64 {
    let config = CacheConfig {
        block_tokens: BLOCK as usize,
        ttl,
        ..CacheConfig::new(capacity + 1, vec![GroupSpec::Full])
    };
    let mut cache = PrefixCache::new(config).unwrap();
    let root = Root::new(&RootParts {
        numerics: 1,
        isa: "x",
        model: b"m",
        rope: b"",
        kv_type: "bf16",
        block_tokens: BLOCK as usize,
        hash: PrefixHash::Sha256,
        tenant: b"",
    });
    let mut hits = 0;
    for (number, (scope, ids, tokens)) in calls.iter().enumerate() {
        let mut prompt: Vec<u32> =
            ids.iter().flat_map(|id| (0..BLOCK).map(move |t| (*id * BLOCK + t) as u32)).collect();
        prompt.extend((prompt.len() as u64..*tokens).map(|t| 1_000_000 + t as u32));
        let keys = PromptKeys::new(root).with_salt(&scope.to_le_bytes());
        let (id, now) =
            (CallId(number as u64), Moment::after(Duration::from_secs(10 * number as u64)));
        let Admission::Ready(ready) =
            cache.admit(id, &prompt, &keys, AdmitOptions::default(), now).unwrap()
        else {
            panic!("no room");
        };
        hits += ready.hit as u64;
        cache.reserve(id, prompt.len(), &mut Vec::new()).unwrap();
        cache.computed(id, prompt.len()).unwrap();
        cache.finish(id, now);
    }
    hits
}

proptest! {
    #[test]
    fn one_pass_and_exact_replay(steps in steps(40, 6)) {
        let (trace, _) = trace(&steps);
        check_every_capacity(&trace, Counting::Engine);
        check_every_capacity(&trace, Counting::Listed);
    }

    /// A block of one token stands for a whole one: the engine's own block size gives the same hits.
    #[test]
    fn a_token_for_a_block(steps in steps(30, 5), seconds in prop::option::of(5u64..300)) {
        let (trace, calls) = trace(&steps);
        let ttl = seconds.map(Duration::from_secs);
        let smallest = trace.longest(Counting::Engine);
        for capacity in [smallest, smallest + 1, smallest + 5, smallest + 1000] {
            let settings = Settings { capacity: Some(capacity), ttl, counting: Counting::Engine };
            let replayed = replay(&trace, settings, |_| {}).unwrap();
            prop_assert_eq!(replayed.hits.tokens, with_real_blocks(&calls, capacity, ttl));
        }
    }
}
