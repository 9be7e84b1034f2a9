//! Waiting for a prefix that another call is computing.

use std::time::Duration;

use tapri_kv::{
    Admission, AdmitOptions, CacheConfig, CallId, GroupIndex, GroupSpec, StopReason, Wait,
};

use crate::support::*;

/// The case file and one of its questions.
fn question(number: u32) -> Vec<u32> {
    [tokens(0, 160), tokens(1000 * number, 20)].concat()
}

#[test]
fn eight_users_of_one_file_compute_it_once_and_hold_one_copy() {
    let mut cache = cache(100);
    assert_eq!(ready(admit(&mut cache, 1, &question(1))).hit, 0);
    for call in 2..=8 {
        let expected = Wait { writer: CallId(1), present: 0, until: 160 };
        assert_eq!(admit(&mut cache, call, &question(call as u32)), Admission::Wait(expected));
    }
    compute(&mut cache, 1, 70);
    assert!(cache.drain_woken().is_empty());
    let blocks: usize = cache.stats().groups.iter().map(|group| group.in_use).sum();
    assert_eq!(blocks, 5, "those who wait hold nothing of their own");
    compute(&mut cache, 1, 180);
    let woken = cache.drain_woken();
    assert_eq!(woken, (2..=8).map(CallId).collect::<Vec<_>>(), "first come, first served");
    for call in woken {
        let ready = ready(cache.poll_waiting(call, at(0)).unwrap());
        assert_eq!(
            (ready.hit, ready.joined, ready.stop.reason),
            (0, 160, StopReason::FirstDifference)
        );
        assert_eq!(ready.stop.token, 160);
        assert!(
            ready.stop.nearest.unwrap().call < call,
            "it differs from one that was there before"
        );
        compute(&mut cache, call.0, 180);
    }
    // 10 shared blocks; each user's question and the rest of its last block takes 2.
    assert_eq!(cache.stats().groups[0].in_use, 10 + 8 * 2);
    let counters = cache.stats().counters;
    assert_eq!(
        (counters.queries, counters.hits, counters.joined, counters.waits),
        (8 * 180, 0, 7 * 160, 7)
    );
    (1..=8).for_each(|call| assert!(cache.finish(CallId(call), at(0))));
    assert_eq!(cache.free_blocks(), 99);
}

#[test]
fn a_late_comer_gets_what_is_there_and_joins_the_rest() {
    let mut cache = cache(100);
    ready(admit(&mut cache, 1, &question(1)));
    compute(&mut cache, 1, 64);
    let expected = Wait { writer: CallId(1), present: 64, until: 160 };
    assert_eq!(admit(&mut cache, 2, &question(2)), Admission::Wait(expected));
    assert_eq!(cache.table(CallId(2), GroupIndex(0)), &cache.table(CallId(1), GroupIndex(0))[..4]);
    compute(&mut cache, 1, 180);
    let ready = ready(cache.poll_waiting(CallId(2), at(0)).unwrap());
    assert_eq!((ready.hit, ready.joined, ready.start()), (64, 96, 160));
}

#[test]
fn when_the_writer_stops_the_first_waiter_goes_on() {
    type Stop = fn(&mut tapri_kv::PrefixCache, CallId) -> bool;
    let stops: [Stop; 3] =
        [|c, id| c.finish(id, at(0)), |c, id| c.abort(id, at(0)), |c, id| c.preempt(id, at(0))];
    for stop in stops {
        let mut cache = cache(100);
        ready(admit(&mut cache, 1, &question(1)));
        for call in [2, 3] {
            assert!(matches!(admit(&mut cache, call, &question(call as u32)), Admission::Wait(_)));
        }
        compute(&mut cache, 1, 70);
        assert!(stop(&mut cache, CallId(1)));
        assert_eq!(cache.drain_woken(), [CallId(2), CallId(3)]);
        let second = ready(cache.poll_waiting(CallId(2), at(0)).unwrap());
        assert_eq!(
            (second.hit, second.joined, second.start()),
            (0, 64, 64),
            "from the last full block"
        );
        let third = cache.poll_waiting(CallId(3), at(0)).unwrap();
        assert_eq!(third, Admission::Wait(Wait { writer: CallId(2), present: 64, until: 160 }));
        compute(&mut cache, 2, 180);
        assert_eq!(ready(cache.poll_waiting(CallId(3), at(0)).unwrap()).start(), 160);
    }
}

#[test]
fn a_waiter_can_leave_and_can_be_told_to_go_on() {
    let mut cache = cache(100);
    ready(admit(&mut cache, 1, &question(1)));
    compute(&mut cache, 1, 32);
    for call in [2, 3] {
        assert!(matches!(admit(&mut cache, call, &question(call as u32)), Admission::Wait(_)));
    }
    assert!(cache.abort(CallId(2), at(0)));
    let third = ready(cache.stop_waiting(CallId(3), at(0)).unwrap());
    assert_eq!((third.start(), third.stop.reason), (32, StopReason::BeingWritten));
    compute(&mut cache, 1, 180);
    assert!(cache.drain_woken().is_empty());
    // Both computed the file's blocks; the second copy was given up for the first.
    compute(&mut cache, 3, 180);
    assert_eq!(
        cache.table(CallId(1), GroupIndex(0))[..10],
        cache.table(CallId(3), GroupIndex(0))[..10]
    );
    assert_eq!(cache.stats().groups[0].in_use, 10 + 2 * 2);
}

#[test]
fn joining_can_be_off_and_who_does_not_store_is_not_joined() {
    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.join = false;
    let mut off = cache_with(config);
    ready(admit(&mut off, 1, &question(1)));
    assert_eq!(ready(admit(&mut off, 2, &question(2))).stop.reason, StopReason::BeingWritten);

    let mut cache = cache(100);
    let silent = AdmitOptions { no_store: true, ..AdmitOptions::default() };
    ready(admit_with(&mut cache, 1, &question(1), &keys(), silent, 0));
    assert_eq!(ready(admit(&mut cache, 2, &question(2))).stop.reason, StopReason::NeverSeen);
    let stranger = admit_with(
        &mut cache,
        3,
        &question(2),
        &keys().with_salt(b"x"),
        AdmitOptions::default(),
        0,
    );
    assert_eq!(ready(stranger).start(), 0, "strangers don't join");
}

#[test]
fn a_waiter_joins_through_a_window() {
    let mut config = CacheConfig::new(200, vec![GroupSpec::Full, window(33)]);
    config.step_tokens = 160;
    let mut cache = cache_with(config);
    let long = [tokens(0, 160), tokens(5000, 200)].concat();
    ready(admit(&mut cache, 1, &long));
    assert!(matches!(admit(&mut cache, 2, &question(2)), Admission::Wait(_)));
    // One step goes far beyond where they part; the window before the parting was held in time.
    compute(&mut cache, 1, 150);
    compute(&mut cache, 1, 300);
    let ready = ready(cache.poll_waiting(CallId(2), at(0)).unwrap());
    assert_eq!((ready.joined, ready.stop.reason), (160, StopReason::FirstDifference));
    assert_eq!(cache.table(CallId(2), GroupIndex(1))[..8], [0; 8]);
    assert!(cache.table(CallId(2), GroupIndex(1))[8..].iter().all(|&block| block != 0));
}

#[test]
fn what_a_waiter_shares_is_kept_for_it_until_it_is_polled() {
    // Room for the writer's prompt and little more: 23 full blocks, and what the window needs.
    let mut config = CacheConfig::new(40, vec![GroupSpec::Full, window(33)]);
    config.step_tokens = 32;
    let mut cache = cache_with(config);
    let long = [tokens(0, 160), tokens(5000, 200)].concat();
    ready(admit(&mut cache, 1, &long));
    assert!(matches!(admit(&mut cache, 2, &question(2)), Admission::Wait(_)));
    for upto in (32..=360).step_by(32).chain([360]) {
        compute(&mut cache, 1, upto);
    }
    cache.finish(CallId(1), at(0));
    // Somebody else takes all that is free.
    ready(admit(&mut cache, 3, &tokens(9000, 280)));
    for upto in (32..=280).step_by(32).chain([280]) {
        compute(&mut cache, 3, upto);
    }
    cache.finish(CallId(3), at(0));
    assert!(cache.stats().counters.evictions.capacity > 0);
    let ready = ready(cache.poll_waiting(CallId(2), at(0)).unwrap());
    assert_eq!((ready.joined, ready.start()), (160, 160));
}

#[test]
fn the_time_to_live_runs_from_when_a_waiter_started() {
    let mut config = CacheConfig::new(100, vec![GroupSpec::Full]);
    config.ttl = Some(Duration::from_secs(600));
    let mut cache = cache_with(config);
    ready(admit(&mut cache, 1, &question(1)));
    assert!(matches!(admit(&mut cache, 2, &question(2)), Admission::Wait(_)));
    compute(&mut cache, 1, 180);
    cache.finish(CallId(1), at(500));
    assert_eq!(ready(cache.poll_waiting(CallId(2), at(500)).unwrap()).joined, 160);
    compute(&mut cache, 2, 180);
    cache.finish(CallId(2), at(501));
    assert_eq!(
        run_with(&mut cache, 3, &question(3), &keys(), AdmitOptions::default(), 1099).hit,
        160
    );
}
