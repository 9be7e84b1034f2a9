//! What a request's `Cache-Control` asks for, the time, and what routes keep.

use std::collections::HashMap;
use std::time::Duration;

use tapri_api::{CacheDirectives, Call};
use tapri_cache::exact::{Bypass, ExactPolicy, Look, Policies, Why};

use crate::play::*;

fn with(value: &str) -> Call {
    Call { cache: CacheDirectives::parse(value), ..ask("Why?") }
}

#[tokio::test]
async fn what_requests_may_ask() {
    let (cache, clock) = cache(ExactPolicy::default());
    assert!(matches!(look(&cache, &with("no-store")).await, Look::Forward), "nothing is left");
    assert!(matches!(look(&cache, &with("only-if-cached")).await, Look::Forward));
    answered(&cache, &ask("Why?"), answer("one")).await;
    clock.forward(30);

    assert_eq!(stored(&cache, &with("no-store")).await.as_deref(), Some("one"));
    assert_eq!(stored(&cache, &with("only-if-cached")).await.as_deref(), Some("one"));
    assert_eq!(stored(&cache, &with("max-age=30")).await.as_deref(), Some("one"));
    assert_eq!(stored(&cache, &with("max-age=29")).await, None, "older than that");
    let Look::Hit(hit) = look(&cache, &ask("Why?")).await else { panic!("a hit") };
    assert_eq!(hit.age, Duration::from_secs(30));
    assert_eq!(hit.ttl, Some(Duration::from_secs(86_400 - 30)));

    for asks_anew in ["no-cache", "max-age=0"] {
        let lead = leads(&cache, &with(asks_anew)).await;
        assert_eq!(lead.why, Why::Request);
    }
    answered(&cache, &with("no-cache"), answer("two")).await;
    assert_eq!(stored(&cache, &ask("Why?")).await.as_deref(), Some("two"), "renewed");
    assert!(matches!(look(&cache, &with("no-cache, no-store")).await, Look::Forward));
}

#[tokio::test]
async fn no_store_shares_no_call_under_way() {
    let cache = always();
    let (reader, model) = start(&cache, &ask("Why?")).await;
    assert!(matches!(look(&cache, &with("no-store")).await, Look::Forward));
    assert!(matches!(look(&cache, &with("only-if-cached")).await, Look::Forward));
    let anew = leads(&cache, &with("no-cache")).await;
    assert_eq!(anew.why, Why::Request, "began before it was asked");
    model.says(answer("x"));
    read(reader).await;
}

#[tokio::test]
async fn an_answer_is_served_until_its_time_is_up() {
    let ttl = Some(Duration::from_secs(60));
    let (cache, clock) = cache(ExactPolicy { ttl, ..ExactPolicy::default() });
    answered(&cache, &ask("Why?"), answer("one")).await;
    clock.forward(59);
    assert!(stored(&cache, &ask("Why?")).await.is_some());
    clock.forward(1);
    assert_eq!(stored(&cache, &ask("Why?")).await, None);
}

/// A clock that goes back must not make an answer young for ever; one that jumps on only costs misses.
#[tokio::test]
async fn a_clock_that_jumps_costs_misses_and_nothing_else() {
    let (cache, clock) = cache(ExactPolicy::default());
    answered(&cache, &ask("Why?"), answer("one")).await;
    clock.back(30);
    let Look::Hit(hit) = look(&cache, &ask("Why?")).await else { panic!("a hit") };
    assert_eq!(hit.age, Duration::ZERO, "clocks may differ by a little, and no age is negative");
    clock.back(3600);
    assert_eq!(stored(&cache, &ask("Why?")).await, None, "it came from the future");
    answered(&cache, &ask("Why?"), answer("two")).await;
    assert_eq!(stored(&cache, &ask("Why?")).await.as_deref(), Some("two"));
    clock.forward(2 * 86_400);
    assert_eq!(stored(&cache, &ask("Why?")).await, None);
}

#[tokio::test]
async fn routes_have_their_own_policies_and_they_can_change() {
    let (cache, _) = cache(ExactPolicy::off());
    assert!(matches!(look(&cache, &ask("Why?")).await, Look::Bypass(Bypass::Off)));
    let mut routes = HashMap::new();
    routes.insert("faq".to_owned(), ExactPolicy::default());
    cache.set_policies(Policies { default: ExactPolicy::off(), routes });
    assert!(matches!(look(&cache, &ask("Why?")).await, Look::Bypass(Bypass::Off)));
    let mut call = ask("Why?");
    call.origin.route = "faq".into();
    answered(&cache, &call, answer("one")).await;
    assert!(stored(&cache, &call).await.is_some());
    cache.set_policies(Policies::all(ExactPolicy::off()));
    assert!(matches!(look(&cache, &call).await, Look::Bypass(Bypass::Off)));
}

#[tokio::test]
async fn so_many_variants_are_made_and_then_served_in_turn() {
    let (cache, _) = cache(ExactPolicy { variants: 3, ..ExactPolicy::default() });
    for text in ["a", "b", "c"] {
        answered(&cache, &ask("Why?"), answer(text)).await;
    }
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(stored(&cache, &ask("Why?")).await.unwrap());
    }
    assert_eq!(seen, ["a", "b", "c", "a", "b", "c"]);
    assert_eq!(cache.stats().memory.entries, 3);
}

/// Calls for variants are there to differ: they don't share one call.
#[tokio::test]
async fn variants_at_the_same_time_are_calls_of_their_own() {
    let (cache, _) = cache(ExactPolicy { variants: 2, ..ExactPolicy::default() });
    let (one, first) = start(&cache, &ask("Why?")).await;
    let (two, second) = start(&cache, &ask("Why?")).await;
    first.says(answer("a"));
    second.says(answer("b"));
    assert_eq!((text(&read(one).await), text(&read(two).await)), ("a".into(), "b".into()));
}

#[tokio::test]
async fn a_prompt_that_is_only_warmed_is_warmed_each_time() {
    let cache = always();
    let call = Call { max_tokens: Some(0), ..ask("Why?") };
    assert!(matches!(look(&cache, &call).await, Look::Bypass(Bypass::NoAnswer)));
}
