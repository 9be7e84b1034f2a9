//! What is shown of the pool, and what twice the memory would have found.

use std::time::Duration;

use proptest::prelude::*;
use tapri_kv::{AdmitOptions, CacheConfig, GroupSpec, PromptKeys};

use crate::support::*;

#[test]
fn runs_come_by_last_use_and_say_whose_they_are_and_how_many_use_them() {
    let mut cache = cache(41);
    let (mine, theirs) = (keys(), PromptKeys::new(root(b"another")));
    let with = AdmitOptions::default();
    // A file of four blocks, and two questions about it; then another tenant's prompt.
    let question = |first| [tokens(0, 64), tokens(first, 32)].concat();
    run_with(&mut cache, 1, &question(1000), &mine, with, 10);
    run_with(&mut cache, 2, &question(2000), &mine, with, 20);
    run_with(&mut cache, 3, &tokens(0, 48), &theirs, with, 30);

    let picture = cache.picture(at(60), 10);
    let shown: Vec<_> = picture
        .runs
        .iter()
        .map(|run| (run.root, run.first, run.blocks, run.users, run.uses, run.age.as_secs()))
        .collect();
    assert_eq!(
        shown,
        [
            (theirs.root, 0, 3, 0, 1, 30),
            (mine.root, 0, 4, 0, 2, 40),
            (mine.root, 4, 2, 0, 1, 40),
            (mine.root, 4, 2, 0, 1, 50),
        ]
    );
    assert_eq!((picture.private, picture.empty, picture.left_out), (0, 40 - 11, 0));

    // Shared by two that run: each holds its own end, of which the part of a block is nobody else's.
    assert_eq!(ready(admit_with(&mut cache, 4, &question(3000), &mine, with, 61)).hit, 64);
    assert_eq!(ready(admit_with(&mut cache, 5, &question(4000), &mine, with, 61)).hit, 64);
    compute(&mut cache, 4, 72);
    let picture = cache.picture(at(62), 1);
    let run = picture.runs[0];
    assert_eq!((run.blocks, run.users, run.uses, run.age), (4, 2, 4, Duration::from_secs(1)));
    assert_eq!((picture.runs.len(), picture.left_out, picture.private), (1, 7, 1));
    let stats = cache.stats();
    let held: usize = stats.groups.iter().map(|group| group.in_use + group.cached).sum();
    assert_eq!(run.physical + picture.left_out + picture.private, held);
    assert_eq!(held + picture.empty, picture.capacity);
}

#[test]
fn two_prompts_that_push_each_other_out_would_fit_twice_the_memory() {
    let play = |blocks| {
        let mut cache = cache(blocks);
        for call in 0..10 {
            run(&mut cache, call, &tokens(10_000 * (call as u32 % 2), 161));
        }
        cache.stats().counters
    };
    let (small, large) = (play(13), play(25));
    assert_eq!((small.hits + small.ghost_hits, large.hits), (8 * 160, 8 * 160));
    assert!(small.ghost_hits > 0 && large.ghost_hits == 0);
}

#[test]
fn what_expired_would_not_have_been_saved_by_memory() {
    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.ttl = Some(Duration::from_secs(10));
    let mut cache = cache_with(config);
    for (call, seconds) in [(1, 0), (2, 60)] {
        let with = AdmitOptions::default();
        assert_eq!(run_with(&mut cache, call, &tokens(0, 100), &keys(), with, seconds).hit, 0);
    }
    assert_eq!(cache.stats().counters.ghost_hits, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is said of twice the memory is held against twice the memory: never more than that would have found.
    #[test]
    fn twice_the_memory_finds_at_least_what_was_said(
        blocks in 6_usize..30,
        calls in prop::collection::vec((0_u32..6, 1_u32..6, 0_u32..4), 1..60),
    ) {
        let play = |capacity: usize| {
            let mut cache = cache(capacity + 1);
            for (call, &(file, length, question)) in calls.iter().enumerate() {
                let end = tokens(100_000 + 1000 * question, 20);
                run(&mut cache, call as u64, &[tokens(1000 * file, 16 * length), end].concat());
            }
            cache.stats().counters
        };
        let (small, large) = (play(blocks + 2), play(2 * (blocks + 2)));
        prop_assert!(small.hits + small.ghost_hits <= large.hits);
        prop_assert!(small.hits + small.ghost_hits <= small.queries);
    }
}
