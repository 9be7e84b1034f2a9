//! What is forgotten of one tenant, and nothing else.

use tapri_kv::{AdapterDigest, AdmitOptions, CacheConfig, GroupSpec, KvEvent, PromptKeys};

use crate::support::*;

fn read(cache: &mut tapri_kv::PrefixCache, call: u64, keys: &PromptKeys) -> usize {
    run_with(cache, call, &tokens(0, 64), keys, AdmitOptions::default(), 0).hit
}

#[test]
fn all_of_one_tenant_goes_and_nothing_of_others() {
    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.events = 1000;
    let mut cache = cache_with(config);
    let mine = root(b"mine");
    let keys_of_mine = [
        PromptKeys::new(mine),
        PromptKeys::new(mine).with_salt(b"a client's own"),
        PromptKeys::new(mine).with_adapter(AdapterDigest([1; 32])),
    ];
    let theirs = PromptKeys::new(root(b"theirs"));
    for (call, keys) in keys_of_mine.iter().chain([&theirs]).enumerate() {
        assert_eq!(read(&mut cache, call as u64, keys), 0);
    }
    assert_eq!(cache.stats().stored, 16);
    cache.drain_events();

    let report = cache.forget(&mine);
    assert_eq!((report.dropped, report.in_use, report.running), (12, 0, 0));
    assert_eq!(cache.stats().stored, 4, "the index holds the other tenant's alone");
    assert_eq!(cache.stats().counters.evictions.reset, 12);
    let removed = |event: &KvEvent| matches!(event, KvEvent::Removed { .. });
    assert_eq!(cache.drain_events().0.iter().filter(|event| removed(event)).count(), 12);
    for (call, keys) in keys_of_mine.iter().enumerate() {
        assert_eq!(read(&mut cache, 10 + call as u64, keys), 0, "{keys:?}");
    }
    assert!(read(&mut cache, 20, &theirs) > 0);
    let again = cache.forget(&root(b"nobody"));
    assert_eq!((again.dropped, again.in_use), (0, 0));
}

#[test]
fn blocks_in_use_serve_their_call_and_are_found_by_nobody() {
    let mut cache = cache(100);
    let mine = root(b"mine");
    let keys = PromptKeys::new(mine);
    ready(admit_with(&mut cache, 1, &tokens(0, 64), &keys, AdmitOptions::default(), 0));
    compute(&mut cache, 1, 64);
    let free = cache.free_blocks();
    let report = cache.forget(&mine);
    assert_eq!((report.dropped, report.in_use, report.running), (0, 4, 1));
    assert_eq!(cache.free_blocks(), free, "they are still the call's");
    assert_eq!(cache.stats().stored, 0);
    assert_eq!(read(&mut cache, 2, &keys), 0, "computed anew");
    assert!(cache.finish(tapri_kv::CallId(1), at(1)));
    let report = cache.forget(&mine);
    assert_eq!(report.dropped, 4, "what the later call left; the first one left nothing");
}
