//! Hashing and looking up a prompt that is stored: `admit` of a fresh call, and giving it back.
//!
//! Bar: 32,000 tokens in under 2 ms on one core, growth linear from 2,000 to 128,000 tokens.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tapri_kv::{
    Admission, AdmitOptions, CacheConfig, CallId, GroupSpec, Moment, PrefixCache, PrefixHash,
    PromptKeys, Root, RootParts,
};

fn keys(hash: PrefixHash) -> PromptKeys {
    PromptKeys::new(Root::new(&RootParts {
        numerics: 1,
        isa: "scalar",
        model: b"model",
        rope: b"rope",
        kv_type: "bf16",
        block_tokens: 16,
        hash,
        tenant: b"",
    }))
}

/// A cache that holds a prompt of `tokens`, and the prompt.
fn stored(tokens: usize, hash: PrefixHash, groups: Vec<GroupSpec>) -> (PrefixCache, Vec<u32>) {
    let mut config = CacheConfig::new((tokens / 16 + 64) * groups.len(), groups);
    config.hash = hash;
    let mut cache = PrefixCache::new(config).unwrap();
    let prompt: Vec<u32> =
        (0..tokens as u32).map(|at| at.wrapping_mul(2_654_435_761) % 262_144).collect();
    admit(&mut cache, 0, &prompt, hash);
    let mut upto = 0;
    while upto < tokens {
        upto = (upto + 512).min(tokens);
        cache.reserve(CallId(0), upto, &mut Vec::new()).unwrap();
        cache.computed(CallId(0), upto).unwrap();
        cache.slide(CallId(0)).unwrap();
    }
    cache.finish(CallId(0), Moment::START);
    (cache, prompt)
}

fn admit(cache: &mut PrefixCache, call: u64, prompt: &[u32], hash: PrefixHash) -> usize {
    match cache.admit(CallId(call), prompt, &keys(hash), AdmitOptions::default(), Moment::START) {
        Ok(Admission::Ready(ready)) => ready.hit,
        other => panic!("{other:?}"),
    }
}

fn lookup(c: &mut Criterion) {
    let window = GroupSpec::Window { tokens: NonZeroUsize::new(512).unwrap() };
    let hybrid = vec![GroupSpec::Full, window, window, window, window, window];
    let mut group = c.benchmark_group("hash_and_lookup");
    group.sample_size(20);
    for (name, hash, groups) in [
        ("sha256", PrefixHash::Sha256, vec![GroupSpec::Full]),
        ("sha256, full and 5 windows", PrefixHash::Sha256, hybrid),
        ("xxh3", PrefixHash::Xxh3, vec![GroupSpec::Full]),
    ] {
        for tokens in [2_000, 8_000, 32_000, 128_000] {
            let (mut cache, prompt) = stored(tokens, hash, groups.clone());
            let mut call = 0;
            group.throughput(Throughput::Elements(tokens as u64));
            group.bench_function(BenchmarkId::new(name, tokens), |b| {
                b.iter(|| {
                    call += 1;
                    let hit = admit(&mut cache, call, black_box(&prompt), hash);
                    assert_eq!(hit, (tokens - 1) / 16 * 16);
                    cache.abort(CallId(call), Moment::START);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, lookup);
criterion_main!(benches);
