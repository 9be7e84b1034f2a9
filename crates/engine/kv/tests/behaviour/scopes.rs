//! Whose prefixes are whose.

use proptest::prelude::*;
use tapri_kv::{
    AdapterDigest, AdmitOptions, BlockHash, CacheConfig, GroupSpec, KvEvent, MediaSpan, PrefixHash,
    PromptKeys, Root, RootParts, StopReason,
};

use crate::support::*;

/// Hashes of the blocks that one call stores.
fn hashes(keys: &PromptKeys, prompt: &[u32]) -> Vec<BlockHash> {
    let mut config = CacheConfig::new(20, vec![GroupSpec::Full]);
    config.events = 100;
    let mut cache = cache_with(config);
    run_with(&mut cache, 1, prompt, keys, AdmitOptions::default(), 0);
    let stored = |event: &KvEvent| match event {
        KvEvent::Stored { hash, .. } => Some(*hash),
        _ => None,
    };
    cache.drain_events().0.iter().filter_map(stored).collect()
}

fn media(digest: u8, start: usize) -> PromptKeys {
    PromptKeys { media: vec![MediaSpan { digest: [digest; 32], start, tokens: 20 }], ..keys() }
}

#[test]
fn no_two_scopes_share_a_block() {
    let prompt = tokens(0, 64);
    let all = [
        keys(),
        PromptKeys::new(root(b"other tenant")),
        PromptKeys::new(root(b"")),
        keys().with_salt(b"x"),
        keys().with_salt(b""),
        keys().with_salt(b"tenant"),
        keys().with_adapter(AdapterDigest([b'x'; 32])),
        keys().with_adapter(AdapterDigest([b'x'; 32])).with_salt(b"x"),
        media(b'x', 0),
        media(b'x', 1),
        media(b'y', 0),
    ];
    let mut cache = cache(200);
    let mut seen = Vec::new();
    for (call, keys) in all.iter().enumerate() {
        let ready = run_with(&mut cache, call as u64, &prompt, keys, AdmitOptions::default(), 0);
        assert_eq!(ready.hit, 0, "{keys:?} shares with an earlier one");
        seen.extend(hashes(keys, &prompt));
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(
        (count, seen.len()),
        (all.len() * 4, count),
        "all blocks of all scopes have hashes of their own"
    );
    for (call, keys) in all.iter().enumerate() {
        let ready =
            run_with(&mut cache, 100 + call as u64, &prompt, keys, AdmitOptions::default(), 0);
        assert_eq!(ready.hit, 48, "the same scope finds its own");
    }
}

/// The byte form is fixed: these digests were computed apart from this code, from the description in `hash` and `keys`.
/// If this fails, raise `FORMAT_VERSION`: what was stored outside the process can't be trusted any more.
#[test]
fn hashes_are_the_same_after_a_restart() {
    let root = root(b"tenant");
    let keys = media(5, 10).with_salt(b"salt").with_adapter(AdapterDigest([9; 32]));
    let found = hashes(&keys, &tokens(0, 32));
    assert_eq!(
        BlockHash(*root.as_bytes()).to_string(),
        "ace3327225ead413433f9b7f2f86888ae4f70084555afb6fdd070ef84aa5c803"
    );
    assert_eq!(
        found[0].to_string(),
        "d346fd7b06b4e8e98d5a9824dadd32ff2defe65751929b324a94587375e948db"
    );
    assert_eq!(
        found[1].to_string(),
        "bafc9472bda9df77eed016bd446ec3331b2dcea6a56e06ba186504536bf322a1"
    );
}

#[test]
fn media_counts_from_the_first_block_that_it_overlaps() {
    let mut cache = cache(100);
    let prompt = tokens(0, 65);
    run_with(&mut cache, 1, &prompt, &media(1, 33), AdmitOptions::default(), 0);
    let ready = run_with(&mut cache, 2, &prompt, &media(2, 33), AdmitOptions::default(), 0);
    assert_eq!(
        (ready.hit, ready.stop.reason, ready.stop.token),
        (32, StopReason::FirstDifference, 33)
    );
    assert_eq!(run_with(&mut cache, 3, &prompt, &media(1, 33), AdmitOptions::default(), 0).hit, 64);
    assert_eq!(run_with(&mut cache, 4, &prompt, &keys(), AdmitOptions::default(), 0).hit, 32);
}

#[test]
fn a_client_cannot_tell_that_another_scope_holds_its_prompt() {
    let prompt = tokens(0, 100);
    let stranger = keys().with_salt(b"stranger");
    let reasons = |others_first: bool| {
        let mut cache = cache(100);
        if others_first {
            run(&mut cache, 1, &prompt);
        }
        let first =
            run_with(&mut cache, 2, &prompt[..40], &stranger, AdmitOptions::default(), 0).stop;
        let second = run_with(&mut cache, 3, &prompt, &stranger, AdmitOptions::default(), 0).stop;
        [first, second]
    };
    let (with, without) = (reasons(true), reasons(false));
    assert_eq!(with.map(|stop| stop.reason), [StopReason::OtherScope, StopReason::OtherScope]);
    assert_eq!(with.map(|stop| stop.token), [0, 32]);
    assert_eq!(without.map(|stop| stop.reason), [StopReason::NeverSeen, StopReason::NeverSeen]);
    assert_eq!(
        with.map(tapri_kv::Stop::for_client),
        without,
        "the client sees the same either way"
    );
}

#[test]
fn another_scope_is_named_only_if_it_holds_more() {
    let mut cache = cache(100);
    let (prompt, stranger) = (tokens(0, 100), keys().with_salt(b"stranger"));
    run(&mut cache, 1, &prompt[..40]);
    run_with(&mut cache, 2, &prompt[..40], &stranger, AdmitOptions::default(), 0);
    let stop = run_with(&mut cache, 3, &prompt, &stranger, AdmitOptions::default(), 0).stop;
    assert_eq!((stop.reason, stop.token), (StopReason::NeverSeen, 32));
}

#[test]
fn colliding_hashes_are_misses() {
    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.hash = PrefixHash::Custom(|_| BlockHash([7; 32]));
    assert!(
        !config.hash.is_collision_safe()
            && PrefixHash::Sha256.is_collision_safe()
            && !PrefixHash::Xxh3.is_collision_safe()
    );
    let mut cache = cache_with(config);
    let (a, b) = (tokens(0, 16), tokens(100, 16));
    let (ab, ba) =
        ([a.clone(), b.clone(), vec![1]].concat(), [b.clone(), a.clone(), vec![1]].concat());
    let bb = [b.clone(), b, vec![1]].concat();
    assert_eq!(run(&mut cache, 1, &ab).hit, 0);
    // Every block has the same hash; the second block of `ab` even has the tokens that `bb` has there, behind another first block.
    assert_eq!(run(&mut cache, 2, &bb).hit, 0);
    assert_eq!(run(&mut cache, 3, &ba).hit, 16);
    for (call, prompt) in [ab, bb, ba].iter().enumerate() {
        assert_eq!(run(&mut cache, 10 + call as u64, prompt).hit, 32);
    }
    let stranger = keys().with_salt(b"stranger");
    assert_eq!(
        run_with(&mut cache, 20, &[a, vec![1]].concat(), &stranger, AdmitOptions::default(), 0).hit,
        0
    );
}

proptest! {
    /// Parts can't run into one another: two roots are the same only if every part is.
    #[test]
    fn roots_differ_when_any_part_does(a in parts(), b in parts()) {
        let root = |p: &([String; 3], u32, usize)| {
            let ([model, isa, tenant], numerics, block_tokens) = p;
            Root::new(&RootParts {
                numerics: *numerics,
                isa,
                model: model.as_bytes(),
                rope: b"",
                kv_type: "bf16",
                block_tokens: *block_tokens,
                hash: PrefixHash::Sha256,
                tenant: tenant.as_bytes(),
            })
        };
        prop_assert_eq!(root(&a) == root(&b), a == b);
    }
}

fn parts() -> impl Strategy<Value = ([String; 3], u32, usize)> {
    (prop::array::uniform3("[ab]{0,2}"), 0_u32..2, prop::sample::select(vec![16_usize, 32]))
}
