//! Blocks that are kept elsewhere and come back.

use std::collections::HashSet;

use tapri_kv::{
    AdmitOptions, BlockHash, CacheConfig, CallId, GroupIndex, GroupSpec, Page, PrefixCache,
    StopReason,
};

use crate::support::*;

type Elsewhere = HashSet<(BlockHash, GroupIndex)>;

fn spilling(blocks: usize, groups: Vec<GroupSpec>) -> PrefixCache {
    let mut config = CacheConfig::new(blocks, groups);
    config.spill = true;
    config.step_tokens = 64;
    config.retention_tokens = 128;
    cache_with(config)
}

fn read(cache: &mut PrefixCache, call: u64, prompt: &[u32]) {
    let ready = ready(admit(cache, call, prompt));
    for upto in (ready.start()..prompt.len()).skip(64).step_by(64).chain([prompt.len()]) {
        compute(cache, call, upto);
    }
    cache.finish(CallId(call), at(call));
}

fn names(pages: &[Page]) -> Elsewhere {
    pages.iter().map(|page| (page.hash, page.group)).collect()
}

#[test]
fn what_makes_room_is_named_tail_first_with_all_that_it_is() {
    let mut cache = spilling(11, vec![GroupSpec::Full]);
    let prompt = tokens(0, 160);
    read(&mut cache, 1, &prompt);
    assert!(cache.take_leaving().is_empty());
    read(&mut cache, 2, &tokens(1000, 48));
    let left = cache.take_leaving();
    let numbers: Vec<usize> = left.iter().map(|page| page.number).collect();
    assert_eq!(numbers, [9, 8, 7]);
    assert_eq!(left[0].tokens, prompt[144..]);
    assert_eq!(left[0].parent, left[1].hash);
    assert_eq!(left[0].root, root(b"tenant"));
    assert!(cache.take_leaving().is_empty());
}

#[test]
fn what_was_not_to_be_kept_or_is_erased_or_expired_never_leaves() {
    let mut config = CacheConfig::new(11, vec![GroupSpec::Full]);
    config.spill = true;
    config.ttl = Some(std::time::Duration::from_secs(5));
    let mut cache = cache_with(config);
    let secret = AdmitOptions { no_store: true, ..AdmitOptions::default() };
    ready(admit_with(&mut cache, 1, &tokens(0, 160), &keys(), secret, 0));
    compute(&mut cache, 1, 160);
    cache.finish(CallId(1), at(0));
    for (call, first) in [(2, 1000), (3, 2000), (4, 3000)] {
        let seconds = if call == 4 { 60 } else { 0 };
        let options = AdmitOptions::default();
        ready(admit_with(&mut cache, call, &tokens(first, 160), &keys(), options, seconds));
        compute(&mut cache, call, 160);
        if call == 3 {
            // Only what call 2 left was somebody's to find.
            assert!(cache.take_leaving().iter().all(|page| page.tokens[0] >= 1000));
        }
        cache.finish(CallId(call), at(seconds));
        if call == 2 {
            assert!(cache.take_leaving().is_empty(), "of call 1 nothing was stored");
        }
    }
    assert!(cache.take_leaving().is_empty(), "what call 3 left had expired");
    cache.forget(&root(b"tenant"));
    cache.reset();
    assert!(cache.take_leaving().is_empty());
    assert!(cache.pages(|_, _, _| true).is_empty());
}

#[test]
fn a_call_has_back_what_it_lacks_as_hits() {
    let mut cache = spilling(40, vec![GroupSpec::Full]);
    read(&mut cache, 1, &tokens(0, 160));
    let pages = cache.pages(|_, _, _| true);
    let heads_first: Vec<usize> = pages.iter().map(|page| page.number).collect();
    assert_eq!(heads_first, (0..10).collect::<Vec<_>>());
    let mut elsewhere = names(&pages);

    let mut cache = spilling(40, vec![GroupSpec::Full]);
    let prompt = [tokens(0, 160), tokens(500, 20)].concat();
    let first = ready(admit(&mut cache, 1, &prompt));
    assert_eq!((first.hit, first.stop.reason), (0, StopReason::NeverSeen));
    let plan = cache.restorable(CallId(1), |hash, group| elsewhere.contains(&(*hash, group)));
    let plan = plan.unwrap();
    assert_eq!((plan.from, plan.upto, plan.pages.len()), (0, 10, 10));
    cache.begin_restore(CallId(1), &plan).unwrap();
    // Someone who goes on like it waits for it.
    assert!(matches!(admit(&mut cache, 2, &prompt), tapri_kv::Admission::Wait(_)));
    let after = cache.restored(CallId(1), first).unwrap();
    assert_eq!((after.hit, after.start(), after.stop.token), (160, 160, 160));
    let counters = cache.stats().counters;
    assert_eq!((counters.hits, counters.restored, counters.queries), (160, 160, 180));
    compute(&mut cache, 1, 180);
    assert_eq!(cache.written(CallId(1)), 16, "what was read back was not written anew");
    cache.finish(CallId(1), at(1));

    // A page that is missing is where it ends.
    elsewhere.remove(&(pages[4].hash, pages[4].group));
    let mut cache = spilling(40, vec![GroupSpec::Full]);
    ready(admit(&mut cache, 1, &prompt));
    let there = |hash: &BlockHash, group| elsewhere.contains(&(*hash, group));
    assert_eq!(cache.restorable(CallId(1), there).unwrap().upto, 4);
}

#[test]
fn a_window_comes_back_whole_or_the_hit_is_shorter() {
    let groups = vec![GroupSpec::Full, window(49)];
    let mut cache = spilling(200, groups.clone());
    read(&mut cache, 1, &tokens(0, 640));
    let pages = cache.pages(|_, _, _| true);
    // All of the full group, and of the windows those before 128, 256, 384 and 512, and all of the last 128 tokens.
    let windows = pages.iter().filter(|page| page.group == GroupIndex(1)).count();
    assert_eq!(pages.len() - windows, 40);
    assert!(windows < 24, "{windows}");
    let elsewhere = names(&pages);
    for (parting, expected) in
        [(640, 40), (630, 39), (600, 37), (520, 32), (470, 24), (300, 16), (100, 0)]
    {
        let mut cache = spilling(200, groups.clone());
        let prompt = [tokens(0, parting), tokens(5000, 20)].concat();
        let first = ready(admit(&mut cache, 1, &prompt));
        let there = |hash: &BlockHash, group| elsewhere.contains(&(*hash, group));
        let Some(plan) = cache.restorable(CallId(1), there) else {
            assert_eq!(expected, 0);
            continue;
        };
        assert_eq!(plan.upto, expected, "parting at {parting}");
        assert_eq!(plan.pages.len(), expected + 3, "the window alone");
        cache.begin_restore(CallId(1), &plan).unwrap();
        let after = cache.restored(CallId(1), first).unwrap();
        assert_eq!(after.hit, expected * 16);
        compute(&mut cache, 1, prompt.len());
    }
}

#[test]
fn a_reading_that_fails_leaves_the_call_where_it_was() {
    let groups = vec![GroupSpec::Full, window(49)];
    let mut cache = spilling(200, groups);
    read(&mut cache, 1, &tokens(0, 320));
    let free = cache.free_blocks();
    let prompt = [tokens(0, 320), tokens(700, 320)].concat();
    let first = ready(admit(&mut cache, 2, &prompt));
    assert_eq!(first.hit, 320);
    let table = cache.table(CallId(2), GroupIndex(1)).to_vec();
    let plan = cache.restorable(CallId(2), |_, _| true).unwrap();
    assert_eq!((plan.from, plan.upto), (20, 39));
    cache.begin_restore(CallId(2), &plan).unwrap();
    assert!(cache.restorable(CallId(2), |_, _| true).is_none(), "it reads already");
    cache.give_up_restore(CallId(2)).unwrap();
    assert_eq!(cache.table(CallId(2), GroupIndex(1)), table);
    compute(&mut cache, 2, 640);
    cache.finish(CallId(2), at(9));
    assert_eq!(cache.free_blocks(), free);
    assert_eq!(cache.stats().promised, 0);
}
