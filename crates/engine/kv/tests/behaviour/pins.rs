//! Starts that stay: what pins hold, what they leave to others, and how they go.

use std::time::Duration;

use tapri_kv::{
    Admission, AdmitOptions, CacheConfig, CallId, GroupSpec, PinError, PinLimits, PrefixCache,
    PromptKeys,
};

use crate::support::*;

const ANY: PinLimits = PinLimits { all: usize::MAX, own: usize::MAX };

/// A call that ends as a pin.
fn pin(cache: &mut PrefixCache, call: u64, prompt: &[u32]) -> Result<tapri_kv::Pin, PinError> {
    pin_with(cache, call, prompt, &keys(), ANY)
}

fn pin_with(
    cache: &mut PrefixCache,
    call: u64,
    prompt: &[u32],
    keys: &PromptKeys,
    limits: PinLimits,
) -> Result<tapri_kv::Pin, PinError> {
    ready(admit_with(cache, call, prompt, keys, AdmitOptions::default(), 0));
    compute(cache, call, prompt.len());
    let pinned = cache.pin(CallId(call), limits, at(0));
    if pinned.is_err() {
        cache.finish(CallId(call), at(0));
    }
    pinned
}

#[test]
fn what_is_pinned_outlasts_everything_else() {
    for groups in [vec![GroupSpec::Full], vec![GroupSpec::Full, window(40), window(20)]] {
        let mut config = CacheConfig::new(1 + 20 * groups.len(), groups);
        config.ttl = Some(Duration::from_secs(60));
        let mut cache = cache_with(config);
        let kept = pin(&mut cache, 1, &tokens(0, 100)).unwrap();
        assert_eq!(kept.tokens, 96, "whole blocks");
        // Many prompts that fill the rest several times over, and time enough to expire.
        for call in 2..40 {
            let prompt = tokens(call as u32 * 1000, 64);
            assert_eq!(run(&mut cache, call, &prompt).hit, 0);
        }
        cache.expire(at(3600));
        let hit = run_with(&mut cache, 50, &tokens(0, 110), &keys(), AdmitOptions::default(), 3600);
        assert_eq!(hit.hit, 96);
        assert!(cache.unpin(CallId(1), at(3600)));
        assert!(!cache.unpin(CallId(1), at(3600)));
        assert_eq!((cache.stats().pinned, cache.stats().pins), (0, 0));
        // As any other from now on: gone when room is needed.
        for call in 60..100 {
            run_with(
                &mut cache,
                call,
                &tokens(call as u32 * 1000, 64),
                &keys(),
                AdmitOptions::default(),
                3601,
            );
        }
        assert_eq!(
            run_with(&mut cache, 200, &tokens(0, 110), &keys(), AdmitOptions::default(), 3602).hit,
            0
        );
    }
}

#[test]
fn an_unpinned_start_goes_tail_first_and_after_what_was_used_before() {
    let mut cache = cache(12);
    run(&mut cache, 1, &tokens(500, 48));
    pin(&mut cache, 2, &tokens(0, 64)).unwrap();
    let table = cache.table(CallId(2), tapri_kv::GroupIndex(0)).to_vec();
    assert_eq!(table.len(), 4);
    cache.unpin(CallId(2), at(5));
    let queue: Vec<u32> = cache.free_queue().map(|block| block.0).collect();
    let tail_first: Vec<u32> = table.iter().rev().copied().collect();
    assert_eq!(queue[queue.len() - 4..], tail_first, "last in line, its tail before its head");
}

#[test]
fn a_pin_has_a_limit_and_names_the_figures() {
    let mut cache = cache(41);
    let mine = PromptKeys::new(root(b"mine"));
    let theirs = PromptKeys::new(root(b"theirs"));
    let limits = PinLimits { all: 10, own: 6 };
    pin_with(&mut cache, 1, &tokens(0, 80), &mine, limits).unwrap();
    let own = pin_with(&mut cache, 2, &tokens(900, 48), &mine, limits).unwrap_err();
    let PinError::Full(full) = own else { panic!("{own}") };
    assert_eq!((full.needed, full.pinned, full.limit, full.of_owner), (3, 5, 6, true));
    assert_eq!(full.to_string(), "it needs 3 blocks more, 5 are pinned, and 6 may be");
    // The same start, and one that goes on from it by a block, need no more than that.
    pin_with(&mut cache, 3, &tokens(0, 80), &mine, limits).unwrap();
    pin_with(&mut cache, 4, &tokens(0, 96), &mine, limits).unwrap();
    assert_eq!((cache.stats().pinned, cache.stats().pins), (6, 3));
    let all = pin_with(&mut cache, 5, &tokens(0, 80), &theirs, limits).unwrap_err();
    let PinError::Full(full) = all else { panic!("{all}") };
    assert_eq!((full.needed, full.pinned, full.limit, full.of_owner), (5, 6, 10, false));
    // It is known before anything is computed.
    assert_eq!(cache.check_pin(&tokens(0, 80), &theirs, limits), Err(full));
    assert_eq!(cache.check_pin(&tokens(0, 80), &mine, limits), Ok(()));
    assert_eq!(cache.check_pin(&tokens(0, 64), &theirs, limits), Ok(()));
    // Of three that begin alike, each holds its part on its own.
    cache.unpin(CallId(4), at(0));
    assert_eq!(cache.stats().pinned, 5);
    cache.unpin(CallId(1), at(0));
    assert_eq!(cache.stats().pinned, 5);
    cache.unpin(CallId(3), at(0));
    assert_eq!(cache.stats().pinned, 0);
    let short = pin_with(&mut cache, 6, &tokens(0, 15), &mine, limits).unwrap_err();
    assert_eq!(short, PinError::Nothing { block: 16 });
}

#[test]
fn what_does_not_fit_beside_the_pins_is_refused_and_what_shares_them_fits() {
    let mut cache = cache(21);
    pin(&mut cache, 1, &tokens(0, 128)).unwrap();
    let large = admit(&mut cache, 2, &tokens(1000, 13 * 16));
    let Admission::TooLarge(large) = large else { panic!("{large:?}") };
    assert_eq!((large.needed, large.capacity, large.of_share), (13, 12, false));
    run(&mut cache, 3, &tokens(1000, 12 * 16));
    // Its start is the pinned one, so that it may have the whole pool.
    assert_eq!(run(&mut cache, 4, &tokens(0, 20 * 16)).hit, 128);
    // An answer may be reserved that can't be had beside the pins: it starts, as it would with all of the rest.
    let options = AdmitOptions { reserve_tokens: 5000, ..AdmitOptions::default() };
    ready(admit_with(&mut cache, 5, &tokens(2000, 100), &keys(), options, 0));
    cache.finish(CallId(5), at(0));
    // With a share, what is its own and pinned counts.
    let shared = AdmitOptions { share: Some(10), ..AdmitOptions::default() };
    let large = admit_with(&mut cache, 6, &tokens(3000, 3 * 16), &keys(), shared, 0);
    let Admission::TooLarge(large) = large else { panic!("{large:?}") };
    assert_eq!((large.needed, large.capacity, large.of_share), (3, 2, true));
}

#[test]
fn a_pin_leaves_an_admitted_call_what_its_prompt_needs() {
    let mut cache = cache(21);
    // It has computed little, and needs 15 of the 20 blocks in the end.
    ready(admit(&mut cache, 1, &tokens(1000, 15 * 16)));
    compute(&mut cache, 1, 16);
    assert_eq!(pin(&mut cache, 2, &tokens(0, 5 * 16)).unwrap().blocks, 5, "there is room for both");
    compute(&mut cache, 1, 15 * 16);
    cache.finish(CallId(1), at(0));
    cache.unpin(CallId(2), at(0));
    // A call that shares most of another one's prompt was admitted with room for both; pinned, the rest would be too little.
    ready(admit(&mut cache, 4, &tokens(0, 16 * 16)));
    compute(&mut cache, 4, 16 * 16);
    cache.finish(CallId(4), at(0));
    ready(admit(&mut cache, 5, &tokens(0, 10 * 16)));
    compute(&mut cache, 5, 10 * 16);
    ready(admit(&mut cache, 6, &tokens(0, 18 * 16)));
    let PinError::Full(full) = cache.pin(CallId(5), ANY, at(0)).unwrap_err() else { panic!() };
    assert_eq!((full.needed, full.pinned, full.limit, full.of_owner), (10, 0, 2, false));
    assert!(cache.is_running(CallId(5)), "it goes on as it was");
    cache.finish(CallId(6), at(0));
    assert_eq!(cache.pin(CallId(5), ANY, at(0)).unwrap().blocks, 10);
}

#[test]
fn an_erasure_takes_the_pins_of_its_tenant_and_says_so() {
    let mut cache = cache(41);
    let (mine, theirs) = (PromptKeys::new(root(b"mine")), PromptKeys::new(root(b"theirs")));
    pin_with(&mut cache, 1, &tokens(0, 64), &mine, ANY).unwrap();
    pin_with(&mut cache, 2, &tokens(0, 64), &mine.clone().with_salt(b"salt"), ANY).unwrap();
    pin_with(&mut cache, 3, &tokens(0, 64), &theirs, ANY).unwrap();
    let report = cache.forget(&root(b"mine"));
    assert_eq!((report.pins, report.dropped, report.in_use, report.running), (2, 8, 0, 0));
    let left: Vec<u64> = cache.pins().map(|pin| pin.id.0).collect();
    assert_eq!((left, cache.stats().pinned), (vec![3], 4));
    let report = cache.reset();
    assert_eq!((report.pins, report.dropped, report.in_use), (1, 4, 0));
    assert_eq!((cache.free_blocks(), cache.stats().stored, cache.stats().pins), (40, 0, 0));
}

#[test]
fn a_picture_tells_what_is_pinned() {
    let mut cache = cache(41);
    pin(&mut cache, 1, &tokens(0, 32)).unwrap();
    run(&mut cache, 2, &tokens(0, 64));
    let picture = cache.picture(at(1), 10);
    let runs: Vec<_> = picture.runs.iter().map(|run| (run.blocks, run.pinned, run.users)).collect();
    assert!(runs.contains(&(2, true, 1)) && runs.contains(&(2, false, 0)), "{runs:?}");
    assert_eq!(picture.private, 0);
}
