//! vLLM's own traces (`test_prefill` and the hybrid one of its KV cache manager tests) and the boundary cases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;

use tapri_kv::{
    Admission, AdmitOptions, BlockId, CacheConfig, CallId, GroupIndex, GroupSpec, Moment,
    PrefixCache, PrefixHash, PromptKeys, Ready, Root, RootParts,
};

const NOW: Moment = Moment::START;

fn keys() -> PromptKeys {
    PromptKeys::new(Root::new(&RootParts {
        numerics: 1,
        isa: "scalar",
        model: b"model",
        rope: b"rope",
        kv_type: "bf16",
        block_tokens: 16,
        hash: PrefixHash::Sha256,
        tenant: b"",
    }))
}

fn cache(blocks: usize, groups: Vec<GroupSpec>) -> PrefixCache {
    PrefixCache::new(CacheConfig::new(blocks, groups)).unwrap()
}

/// Admits a prompt and computes all of it; returns what it found and the blocks it was given.
fn run(cache: &mut PrefixCache, call: u64, tokens: &[u32]) -> (Ready, Vec<u32>) {
    let call = CallId(call);
    let Admission::Ready(ready) =
        cache.admit(call, tokens, &keys(), AdmitOptions::default(), NOW).unwrap()
    else {
        panic!("there is room")
    };
    let mut fresh = Vec::new();
    cache.reserve(call, tokens.len(), &mut fresh).unwrap();
    cache.computed(call, tokens.len()).unwrap();
    (ready, fresh.iter().map(|block| block.0).collect())
}

fn queue(cache: &PrefixCache) -> Vec<u32> {
    cache.free_queue().map(|block| block.0).collect()
}

fn prompt(common: usize, rest: usize, mark: u32) -> Vec<u32> {
    (0..common as u32).chain(std::iter::repeat_n(mark, rest)).collect()
}

#[test]
fn the_trace_of_vllms_test_prefill() {
    let mut cache = cache(11, vec![GroupSpec::Full]);
    let (ready, fresh) = run(&mut cache, 0, &prompt(48, 7, 1000));
    assert_eq!((ready.start(), fresh), (0, vec![1, 2, 3, 4]));

    let (ready, fresh) = run(&mut cache, 1, &prompt(48, 5, 1001));
    assert_eq!((ready.hit, fresh), (48, vec![5]));
    assert_eq!(cache.table(CallId(1), GroupIndex(0)), [1, 2, 3, 5]);
    assert_eq!([1, 2, 3].map(|block| cache.references(BlockId(block))), [2, 2, 2]);
    assert_eq!(cache.free_blocks(), 5);

    cache.finish(CallId(0), NOW);
    cache.finish(CallId(1), NOW);
    assert_eq!(queue(&cache), [5, 4, 6, 7, 8, 9, 10, 3, 2, 1]);

    let (ready, fresh) = run(&mut cache, 2, &prompt(48, 6, 1002));
    assert_eq!((ready.hit, fresh), (48, vec![5]));
    assert_eq!(cache.free_blocks(), 6);
    cache.finish(CallId(2), NOW);

    let (ready, fresh) = run(&mut cache, 3, &(5000..5160).collect::<Vec<_>>());
    assert_eq!((ready.hit, fresh), (0, vec![5, 4, 6, 7, 8, 9, 10, 3, 2, 1]));
    assert_eq!(cache.free_blocks(), 0);
}

#[test]
fn the_trace_of_vllms_hybrid_test() {
    let window = GroupSpec::Window { tokens: NonZeroUsize::new(32).unwrap() };
    let mut cache = cache(21, vec![GroupSpec::Full, window, window]);
    let (ready, fresh) = run(&mut cache, 0, &prompt(48, 7, 1000));
    assert_eq!((ready.start(), fresh), (0, (1..=12).collect()));
    let tables = |cache: &PrefixCache, call| {
        [0, 1, 2].map(|group| cache.table(CallId(call), GroupIndex(group)).to_vec())
    };
    assert_eq!(tables(&cache, 0), [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9, 10, 11, 12]]);

    let (ready, fresh) = run(&mut cache, 1, &prompt(48, 5, 1001));
    assert_eq!((ready.hit, fresh), (48, vec![13, 14, 15]));
    assert_eq!(tables(&cache, 1), [vec![1, 2, 3, 13], vec![0, 6, 7, 14], vec![0, 10, 11, 15]]);

    // The order after both are gone differs from vLLM on purpose: a call gives its blocks back by block number over all groups, not group by
    // group, so that a logical block goes as a whole, and blocks that can't be hit (4, 8, 12 to 15) lead. Windows that were passed come next.
    cache.finish(CallId(0), NOW);
    cache.finish(CallId(1), NOW);
    assert_eq!(
        queue(&cache),
        [15, 14, 13, 12, 8, 4, 16, 17, 18, 19, 20, 5, 9, 3, 7, 11, 2, 6, 10, 1]
    );
    let (ready, fresh) = run(&mut cache, 2, &(5000..5080).collect::<Vec<_>>());
    assert_eq!((ready.hit, fresh), (0, vec![15, 14, 13, 12, 8, 4, 16, 17, 18, 19, 20, 5, 9, 3, 7]));
    // A whole logical block went (3 with its windows 7 and 11); its head is still there.
    cache.finish(CallId(2), NOW);
    assert_eq!(cache.stats().counters.evictions.window, 2);
}

#[test]
fn prompts_around_a_block_boundary() {
    for (tokens, expected) in [(15, 0), (16, 0), (17, 16), (31, 16), (32, 16), (33, 32)] {
        for block in
            [GroupSpec::Full, GroupSpec::Window { tokens: NonZeroUsize::new(512).unwrap() }]
        {
            let mut cache = cache(20, vec![block]);
            let prompt: Vec<u32> = (0..tokens).collect();
            let (ready, _) = run(&mut cache, 0, &prompt);
            assert_eq!(ready.hit, 0);
            cache.finish(CallId(0), NOW);
            let (ready, _) = run(&mut cache, 1, &prompt);
            assert_eq!(ready.hit, expected, "a prompt of {tokens} tokens, repeated");
        }
    }
}
