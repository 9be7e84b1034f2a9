//! A cache driven by short words.

use std::num::NonZeroUsize;
use std::time::Duration;

use tapri_kv::{
    Admission, AdmitOptions, BlockId, CacheConfig, CallId, GroupSpec, Moment, PrefixCache,
    PrefixHash, PromptKeys, Ready, Root, RootParts,
};

pub(crate) fn root(tenant: &[u8]) -> Root {
    Root::new(&RootParts {
        numerics: 1,
        isa: "scalar",
        model: b"model",
        rope: b"rope",
        kv_type: "bf16",
        block_tokens: 16,
        hash: PrefixHash::Sha256,
        tenant,
    })
}

pub(crate) fn keys() -> PromptKeys {
    PromptKeys::new(root(b"tenant"))
}

pub(crate) fn window(tokens: usize) -> GroupSpec {
    GroupSpec::Window { tokens: NonZeroUsize::new(tokens).unwrap() }
}

pub(crate) fn cache(blocks: usize) -> PrefixCache {
    cache_with(CacheConfig::new(blocks, vec![GroupSpec::Full]))
}

pub(crate) fn cache_with(config: CacheConfig) -> PrefixCache {
    PrefixCache::new(config).unwrap()
}

pub(crate) fn at(seconds: u64) -> Moment {
    Moment::after(Duration::from_secs(seconds))
}

/// `count` tokens from `first` on.
pub(crate) fn tokens(first: u32, count: u32) -> Vec<u32> {
    (first..first + count).collect()
}

pub(crate) fn admit(cache: &mut PrefixCache, call: u64, prompt: &[u32]) -> Admission {
    admit_with(cache, call, prompt, &keys(), AdmitOptions::default(), 0)
}

pub(crate) fn admit_with(
    cache: &mut PrefixCache,
    call: u64,
    prompt: &[u32],
    keys: &PromptKeys,
    options: AdmitOptions,
    seconds: u64,
) -> Admission {
    cache.admit(CallId(call), prompt, keys, options, at(seconds)).unwrap()
}

pub(crate) fn ready(admission: Admission) -> Ready {
    match admission {
        Admission::Ready(ready) => ready,
        other => panic!("not ready: {other:?}"),
    }
}

/// Computes up to a position; returns the fresh blocks.
pub(crate) fn compute(cache: &mut PrefixCache, call: u64, upto: usize) -> Vec<BlockId> {
    let mut fresh = Vec::new();
    cache.reserve(CallId(call), upto, &mut fresh).unwrap();
    cache.computed(CallId(call), upto).unwrap();
    cache.slide(CallId(call)).unwrap();
    fresh
}

/// A whole call, from the prompt to its end.
pub(crate) fn run(cache: &mut PrefixCache, call: u64, prompt: &[u32]) -> Ready {
    run_with(cache, call, prompt, &keys(), AdmitOptions::default(), 0)
}

pub(crate) fn run_with(
    cache: &mut PrefixCache,
    call: u64,
    prompt: &[u32],
    keys: &PromptKeys,
    options: AdmitOptions,
    seconds: u64,
) -> Ready {
    let ready = ready(admit_with(cache, call, prompt, keys, options, seconds));
    compute(cache, call, prompt.len());
    cache.finish(CallId(call), at(seconds));
    ready
}
