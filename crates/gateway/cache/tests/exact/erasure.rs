//! What is erased, in memory.

use std::time::Duration;

use tapri_api::Call;
use tapri_cache::exact::{ExactPolicy, Filter};

use crate::play::*;

fn of(tenant: &str, route: &str, document: Option<&str>, question: &str) -> Call {
    let mut call = ask(question);
    call.origin.tenant = tenant.to_owned().into();
    call.origin.route = route.to_owned().into();
    call.origin.document = document.map(str::to_owned);
    call
}

#[tokio::test]
async fn exactly_what_a_filter_matches_is_gone() {
    let all = || {
        [
            of("a", "faq", None, "1"),
            of("a", "legal", Some("d1"), "2"),
            of("b", "legal", Some("d1"), "3"),
            of("b", "legal", Some("d2"), "4"),
        ]
    };
    let filter = Filter::default;
    let some = |text: &str| Some(text.to_owned());
    for (filter, gone) in [
        (Filter { tenant: some("a"), ..filter() }, vec![0, 1]),
        (Filter { route: some("legal"), ..filter() }, vec![1, 2, 3]),
        (Filter { document: some("d1"), ..filter() }, vec![1, 2]),
        (Filter { tenant: some("b"), document: some("d1"), ..filter() }, vec![2]),
        (Filter { model: some("m"), ..filter() }, vec![0, 1, 2, 3]),
        (Filter { model: some("n"), ..filter() }, vec![]),
        (Filter { tenant: some("c"), ..filter() }, vec![]),
        (filter(), vec![0, 1, 2, 3]),
    ] {
        let cache = always();
        for call in all() {
            answered(&cache, &call, answer("x")).await;
        }
        assert_eq!(cache.purge(&filter).await.unwrap(), gone.len() as u64, "{filter:?}");
        for (at, call) in all().iter().enumerate() {
            assert_eq!(stored(&cache, call).await.is_none(), gone.contains(&at), "{filter:?} {at}");
        }
        assert_eq!(cache.stats().memory.entries, 4 - gone.len() as u64);
    }
}

#[tokio::test]
async fn by_age() {
    let (cache, clock) = cache(ExactPolicy::default());
    answered(&cache, &ask("old"), answer("x")).await;
    clock.forward(100);
    answered(&cache, &ask("new"), answer("x")).await;
    let older_than = Some(Duration::from_secs(60));
    assert_eq!(cache.purge(&Filter { older_than, ..Filter::default() }).await.unwrap(), 1);
    assert_eq!(stored(&cache, &ask("old")).await, None);
    assert!(stored(&cache, &ask("new")).await.is_some());
}

/// An answer goes with every session that got it, not only with the first.
#[tokio::test]
async fn a_session_that_hit_or_followed_is_found_by_its_name() {
    for leaves in ["first", "follows", "hits"] {
        let cache = always();
        let (leader, model) = start(&cache, &in_session("Why?", "first")).await;
        let follower = follows(&cache, &in_session("Why?", "follows")).await;
        model.says(answer("x"));
        read(leader).await;
        read(follower).await;
        settled(&cache).await;
        assert!(stored(&cache, &in_session("Why?", "hits")).await.is_some());
        let session = Some(leaves.to_owned());
        let filter = Filter { session, ..Filter::default() };
        assert_eq!(cache.purge(&filter).await.unwrap(), 1, "{leaves}");
        assert_eq!(stored(&cache, &ask("Why?")).await, None);
    }
}

#[tokio::test]
async fn a_call_under_way_stores_nothing_after_an_erasure() {
    let cache = always();
    let (reader, model) = start(&cache, &ask("Why?")).await;
    model.says([admitted(), token("x")]);
    cache.purge(&Filter::default()).await.unwrap();
    model.says([finished(tapri_api::FinishReason::Stop)]);
    assert_eq!(text(&read(reader).await), "x", "its client gets its answer");
    settled(&cache).await;
    assert_eq!(cache.stats().rejected["erased"], 1);
    assert_eq!(cache.stats().memory.entries, 0);
}

#[tokio::test]
async fn memory_keeps_to_its_bound_and_the_least_used_goes_first() {
    let config = tapri_cache::exact::ExactConfig { memory_bytes: 20_000, ..Default::default() };
    let cache = tapri_cache::exact::ExactCache::new(config);
    for n in 0..100 {
        answered(&cache, &ask(&n.to_string()), answer(&"x".repeat(100))).await;
        assert!(stored(&cache, &ask("0")).await.is_some(), "used all the time");
        assert!(cache.stats().memory.bytes <= 20_000);
    }
    assert_eq!(stored(&cache, &ask("1")).await, None);
    assert!(stored(&cache, &ask("99")).await.is_some());
}
