//! Room, preemption, the next turn, reset.

use tapri_kv::{
    Admission, AdmitError, AdmitOptions, CacheConfig, CallError, CallId, GroupIndex, GroupSpec,
    NoRoom, StopReason, TooLarge,
};

use crate::support::*;

#[test]
fn an_answer_is_reused_in_the_next_turn() {
    let mut cache = cache(100);
    let prompt = tokens(0, 40);
    ready(admit(&mut cache, 1, &prompt));
    compute(&mut cache, 1, 40);
    let mut turn = prompt;
    for at in 40..80 {
        cache.append(CallId(1), &[500 + at]).unwrap();
        turn.push(500 + at);
        compute(&mut cache, 1, at as usize + 1);
    }
    cache.finish(CallId(1), at(0));
    turn.extend(tokens(900, 30));
    assert_eq!(run(&mut cache, 2, &turn).hit, 80);
}

#[test]
fn blocks_can_be_found_when_they_are_computed_not_when_they_are_scheduled() {
    let mut cache = cache(100);
    ready(admit(&mut cache, 1, &tokens(0, 64)));
    cache.reserve(CallId(1), 64, &mut Vec::new()).unwrap();
    let blunt = AdmitOptions { no_join: true, ..AdmitOptions::default() };
    let ask =
        |cache: &mut _, call| ready(admit_with(cache, call, &tokens(0, 64), &keys(), blunt, 0)).hit;
    assert_eq!(ask(&mut cache, 2), 0);
    cache.computed(CallId(1), 40).unwrap();
    assert_eq!(ask(&mut cache, 3), 32);
}

#[test]
fn a_call_without_room_touches_nothing_and_keeps_its_place() {
    let mut cache = cache(11);
    ready(admit(&mut cache, 1, &tokens(0, 100)));
    let before: Vec<_> = cache.free_queue().collect();
    let admission = admit(&mut cache, 2, &tokens(1000, 100));
    assert_eq!(
        admission,
        Admission::NoRoom(NoRoom { needed: 7, free: 3, of_share: false }),
        "what is promised to call 1 is not free"
    );
    assert_eq!(cache.free_queue().collect::<Vec<_>>(), before);
    let large = TooLarge { needed: 11, capacity: 10, of_share: false };
    assert_eq!(admit(&mut cache, 3, &tokens(0, 161)), Admission::TooLarge(large));
    assert_eq!(
        cache.admit(CallId(1), &[1], &keys(), AdmitOptions::default(), at(0)),
        Err(AdmitError::Admitted(CallId(1)))
    );
    assert_eq!(
        cache.admit(CallId(4), &[], &keys(), AdmitOptions::default(), at(0)),
        Err(AdmitError::Empty)
    );
    assert_eq!(cache.poll_waiting(CallId(2), at(0)), Err(AdmitError::NotWaiting(CallId(2))));
    compute(&mut cache, 1, 100);
    cache.finish(CallId(1), at(0));
    assert_eq!(run(&mut cache, 2, &tokens(1000, 100)).hit, 0);
    assert_eq!(cache.stats().counters.queries, 200, "a retry is not counted again");
}

#[test]
fn cached_blocks_that_a_call_finds_are_not_counted_as_room_for_it() {
    let mut cache = cache(11);
    run(&mut cache, 1, &tokens(0, 96));
    ready(admit(&mut cache, 2, &tokens(1000, 48)));
    compute(&mut cache, 2, 48);
    // Seven blocks are free; six of them are the ones that it would use as they are.
    let longer = admit(&mut cache, 3, &tokens(0, 144));
    assert_eq!(longer, Admission::NoRoom(NoRoom { needed: 3, free: 1, of_share: false }));
    assert_eq!(ready(admit(&mut cache, 4, &tokens(0, 112))).hit, 96);
}

#[test]
fn what_a_waiter_leaves_behind_is_room_for_it() {
    let mut config = CacheConfig::new(23, vec![GroupSpec::Full, window(33)]);
    config.step_tokens = 32;
    let mut cache = cache_with(config);
    let prompt = tokens(0, 170);
    ready(admit(&mut cache, 1, &[tokens(0, 64), tokens(5000, 16)].concat()));
    assert!(matches!(admit(&mut cache, 2, &prompt), Admission::Wait(_)));
    compute(&mut cache, 1, 64);
    cache.finish(CallId(1), at(0));
    // Another call computes the whole prompt before the waiter is polled.
    let blind = AdmitOptions { no_read: true, ..AdmitOptions::default() };
    ready(admit_with(&mut cache, 3, &prompt, &keys(), blind, 0));
    for upto in [32, 64, 96, 128, 160, 170] {
        compute(&mut cache, 3, upto);
    }
    cache.finish(CallId(3), at(0));
    ready(admit(&mut cache, 4, &tokens(9000, 48)));
    compute(&mut cache, 4, 48);
    // Six blocks are in use or promised elsewhere, and 16 are what it needs: with the two window blocks of its old place.
    assert_eq!(ready(cache.poll_waiting(CallId(2), at(0)).unwrap()).start(), 160);
}

#[test]
fn growth_without_room_is_an_error_and_preemption_makes_room() {
    let mut cache = cache(11);
    ready(admit(&mut cache, 1, &tokens(0, 80)));
    compute(&mut cache, 1, 80);
    ready(admit(&mut cache, 2, &tokens(1000, 80)));
    compute(&mut cache, 2, 80);
    cache.append(CallId(1), &[7]).unwrap();
    let mut fresh = Vec::new();
    let error = cache.reserve(CallId(1), 81, &mut fresh);
    assert_eq!(error, Err(CallError::NoRoom(NoRoom { needed: 1, free: 0, of_share: false })));
    assert!(fresh.is_empty());
    assert_eq!(
        cache.computed(CallId(1), 81),
        Err(CallError::NotReserved { upto: 81, reserved: 80 })
    );

    assert!(cache.preempt(CallId(2), at(0)));
    assert!(!cache.preempt(CallId(2), at(0)));
    assert_eq!(cache.append(CallId(2), &[1]), Err(CallError::NotRunning(CallId(2))));
    compute(&mut cache, 1, 81);
    cache.finish(CallId(1), at(0));
    // Of its five blocks the last had to go.
    let resumed = ready(admit(&mut cache, 2, &tokens(1000, 80)));
    assert_eq!((resumed.hit, resumed.recovered, resumed.start()), (0, 64, 64));
    let counters = cache.stats().counters;
    assert_eq!(
        (counters.calls, counters.queries, counters.hits),
        (2, 160, 0),
        "recomputation is counted apart"
    );
    assert_eq!(
        (counters.preemptions, counters.resumed_queries, counters.resumed_hits),
        (1, 80, 64)
    );
}

#[test]
fn the_head_of_a_chain_outlives_its_tail() {
    let mut cache = cache(11);
    run(&mut cache, 1, &tokens(0, 96));
    for (call, expected) in [(2, 80), (3, 64), (4, 48)] {
        // Takes the room of one block more each time.
        let size = 16 * (4 + u32::try_from(call).unwrap() - 1);
        ready(admit(&mut cache, 10 * call, &tokens(10_000 * call as u32, size)));
        compute(&mut cache, 10 * call, size as usize);
        let options = AdmitOptions { no_store: true, ..AdmitOptions::default() };
        let mut longer = tokens(0, 96);
        longer.push(1);
        let admission = admit_with(&mut cache, call, &longer, &keys(), options, 0);
        cache.abort(CallId(10 * call), at(0));
        cache.abort(CallId(call), at(0));
        let again = ready(admit_with(&mut cache, call, &longer, &keys(), options, 0));
        assert_eq!(again.hit, expected, "{admission:?}");
        cache.abort(CallId(call), at(0));
    }
}

#[test]
fn a_reset_is_true_even_while_calls_run() {
    let mut cache = cache(100);
    let prompt = tokens(0, 100);
    run(&mut cache, 1, &tokens(5000, 50));
    ready(admit(&mut cache, 2, &prompt));
    assert!(matches!(admit(&mut cache, 3, &prompt), Admission::Wait(_)));
    compute(&mut cache, 2, 50);
    let report = cache.reset();
    assert_eq!((report.dropped, report.in_use, report.running, report.waiting), (3, 4, 1, 1));
    // The running call goes on with its own blocks, but nobody finds them.
    assert_eq!(cache.table(CallId(2), GroupIndex(0)).len(), 4);
    assert_eq!(cache.drain_woken(), [CallId(3)]);
    let third = ready(cache.poll_waiting(CallId(3), at(0)).unwrap());
    assert_eq!((third.start(), third.stop.reason), (0, StopReason::NeverSeen));
    compute(&mut cache, 2, 100);
    cache.finish(CallId(2), at(0));
    assert_eq!(run(&mut cache, 4, &tokens(5000, 50)).hit, 0);
    cache.abort(CallId(3), at(0));
    assert_eq!(cache.stats().counters.evictions.reset, 7);
}
