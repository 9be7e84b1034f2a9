//! Why a lookup stopped.

use std::time::Duration;

use tapri_kv::{AdmitOptions, CacheConfig, CallId, GroupSpec, PrefixCache, StopReason};

use crate::support::*;

fn reason(cache: &mut PrefixCache, call: u64, prompt: &[u32]) -> (StopReason, usize) {
    let stop = run(cache, call, prompt).stop;
    (stop.reason, stop.token)
}

#[test]
fn names_are_stable_and_distinct() {
    let names = StopReason::ALL.map(StopReason::as_str);
    assert_eq!(
        names.join(" "),
        "complete last_token_rule below_one_block first_difference never_seen evicted expired window_gone being_written bypassed unknown other_scope"
    );
}

#[test]
fn what_can_be_reused_and_the_rules_that_cut_it() {
    let mut cache = cache(100);
    assert_eq!(reason(&mut cache, 1, &tokens(0, 15)), (StopReason::BelowOneBlock, 0));
    assert_eq!(reason(&mut cache, 2, &tokens(0, 16)), (StopReason::NeverSeen, 0));
    assert_eq!(reason(&mut cache, 3, &tokens(0, 16)), (StopReason::LastTokenRule, 0));
    assert_eq!(reason(&mut cache, 4, &tokens(0, 17)), (StopReason::Complete, 16));
    assert_eq!(reason(&mut cache, 5, &tokens(0, 32)), (StopReason::Complete, 16));
    assert_eq!(reason(&mut cache, 6, &tokens(0, 32)), (StopReason::LastTokenRule, 16));
    assert_eq!(reason(&mut cache, 7, &tokens(0, 64)), (StopReason::NeverSeen, 32));
}

#[test]
fn the_first_difference_is_named_with_the_nearest_call() {
    let mut cache = cache(100);
    let prompt = tokens(0, 100);
    let mut almost = prompt.clone();
    almost[40] = 9999;
    run(&mut cache, 1, &prompt);
    run(&mut cache, 2, &almost);
    let mut other = almost.clone();
    other[45] = 9998;
    let stop = run(&mut cache, 3, &other).stop;
    let nearest = stop.nearest.unwrap();
    // Call 1 differs from it at token 40 already, call 2 not before 45.
    assert_eq!(
        (stop.reason, stop.token, nearest.call, nearest.block),
        (StopReason::FirstDifference, 45, CallId(2), 2)
    );
    // At the very start one common token is enough to speak of a difference, none is not.
    assert_eq!(
        reason(&mut cache, 4, &[tokens(0, 5), tokens(7000, 30)].concat()),
        (StopReason::FirstDifference, 5)
    );
    assert_eq!(reason(&mut cache, 5, &tokens(8000, 40)), (StopReason::NeverSeen, 0));
}

#[test]
fn a_running_call_s_unfinished_block_counts_as_a_neighbour() {
    let mut cache = cache(100);
    ready(admit(&mut cache, 1, &tokens(0, 40)));
    compute(&mut cache, 1, 40);
    let stop = ready(admit(&mut cache, 2, &[tokens(0, 36), tokens(700, 20)].concat())).stop;
    assert_eq!(
        (stop.reason, stop.token, stop.nearest.unwrap().call),
        (StopReason::FirstDifference, 36, CallId(1))
    );
}

#[test]
fn evicted_is_told_from_never_seen_until_the_list_overflows() {
    let mut config = CacheConfig::new(11, vec![GroupSpec::Full]);
    config.ghosts = 10;
    let mut cache = cache_with(config);
    run(&mut cache, 1, &tokens(0, 48));
    run(&mut cache, 2, &tokens(1000, 160));
    assert_eq!(cache.stats().ghosts, 3);
    assert_eq!(reason(&mut cache, 3, &tokens(0, 49)), (StopReason::Evicted, 0));
    // Three blocks came back, and four of the other prompt went for them.
    assert_eq!(cache.stats().ghosts, 4);
    assert_eq!(reason(&mut cache, 4, &tokens(5000, 49)), (StopReason::NeverSeen, 0));
    for call in 5..10 {
        run(&mut cache, call, &tokens(10_000 * call as u32, 160));
    }
    assert_eq!(reason(&mut cache, 20, &tokens(0, 49)), (StopReason::Unknown, 0));
    assert_eq!(cache.stats().ghosts, 10);
    assert!(cache.stats().counters.evictions.capacity > 40);
}

#[test]
fn a_start_expires_that_long_after_the_start_of_the_call_that_used_it() {
    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.ttl = Some(Duration::from_secs(600));
    let mut cache = cache_with(config);
    let prompt = tokens(0, 100);
    let ask = |cache: &mut PrefixCache, call, seconds| {
        run_with(cache, call, &prompt, &keys(), AdmitOptions::default(), seconds)
    };
    ask(&mut cache, 1, 0);
    assert_eq!(ask(&mut cache, 2, 599).hit, 96);
    assert_eq!(ask(&mut cache, 3, 1198).hit, 96, "a use starts the time anew");
    let late = ask(&mut cache, 4, 1798);
    assert_eq!((late.hit, late.stop.reason), (0, StopReason::Expired));
    // A call that runs for long keeps what it uses; when it ends, its start counts.
    ready(admit_with(&mut cache, 5, &prompt, &keys(), AdmitOptions::default(), 1800));
    assert_eq!(ask(&mut cache, 6, 9000).hit, 96);
    cache.finish(CallId(5), at(9000));
    assert_eq!(ask(&mut cache, 7, 9599).hit, 96);
    assert_eq!(cache.stats().counters.evictions.expired, 6);
    assert_eq!((cache.expire(at(10_000)), cache.expire(at(10_199))), (0, 6));
    assert_eq!(cache.stats().groups[0].cached, 0);
}

#[test]
fn looking_and_storing_can_be_turned_off() {
    let prompt = tokens(0, 100);
    let no_store = AdmitOptions { no_store: true, ..AdmitOptions::default() };
    let no_read = AdmitOptions { no_read: true, ..AdmitOptions::default() };
    let mut cache = cache(100);
    run_with(&mut cache, 1, &prompt, &keys(), no_store, 0);
    assert_eq!(
        (cache.stats().stored, cache.stats().ghosts, cache.stats().groups[0].cached),
        (0, 0, 0)
    );
    assert_eq!(run(&mut cache, 2, &prompt).stop.reason, StopReason::NeverSeen);
    assert_eq!(
        run_with(&mut cache, 3, &prompt, &keys(), no_store, 0).hit,
        96,
        "what is there is still used"
    );
    let blind = run_with(&mut cache, 4, &prompt, &keys(), no_read, 0);
    assert_eq!((blind.start(), blind.stop.reason), (0, StopReason::Bypassed));
    let counters = cache.stats().counters;
    assert_eq!((counters.calls, counters.bypassed, counters.queries), (3, 1, 300));

    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.enabled = false;
    let mut off = cache_with(config);
    run(&mut off, 1, &prompt);
    assert_eq!(run(&mut off, 2, &prompt).stop.reason, StopReason::Bypassed);
    assert_eq!(off.stats().stored, 0);
}
