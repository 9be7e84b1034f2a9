//! Which replica takes a call.

use std::time::Duration;

use serde_json::{Value, json};
use tapri_api::Format;
use tapri_fake_upstream::{CacheStyle, Script};
use tapri_upstream::clock::ManualClock;
use tapri_upstream::{Api, Backend, Kind, UpstreamConfig};

use super::scene::*;

fn turn(conversation: usize, turn: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": "You are a clerk. ".repeat(40)})];
    messages.push(json!({"role": "user", "content": format!("File {conversation} ").repeat(800)}));
    for n in 0..turn {
        messages.push(json!({"role": "assistant", "content": format!("Answer {n}")}));
        messages.push(json!({"role": "user", "content": format!("Question {n}")}));
    }
    json!({"model": "m", "messages": messages})
}

/// Complaint 14: N replicas behind a balancer have a hit rate of 1/N.
#[tokio::test]
async fn more_replicas_dont_divide_the_hit_rate() {
    let mut fakes = Vec::new();
    for _ in 0..4 {
        fakes.push(caching(CacheStyle::Vllm).await);
    }
    let mut up = UpstreamConfig { kind: Kind::Vllm, ..upstream("v", &fakes[0].url(), Api::OpenAi) };
    up.urls = fakes.iter().map(|fake| fake.url()).collect();
    let fleet = fleet(vec![up]);
    // Twelve conversations of six turns, in turn.
    for n in 0..6 {
        for conversation in 0..12 {
            ask(&fleet, call(Format::Chat, turn(conversation, n))).await.unwrap();
        }
    }
    let stats = fleet.stats().unwrap();
    let rate = stats.prefix_hits as f64 / stats.prefix_queries as f64;
    // Only the first turns are new: five sixths is what one replica alone would have.
    assert!(rate > 0.78, "{rate}");
    let used: Vec<u64> = fleet.upstreams().iter().map(|stats| stats.answered).collect();
    assert!(used.iter().filter(|calls| **calls > 0).count() >= 3, "and all are used: {used:?}");
    for fake in fakes {
        fake.stop().await;
    }
}

/// Complaint 18: affinity draws everything to one replica, and streams aren't counted as load.
#[tokio::test]
async fn load_is_counted_for_streams_and_no_replica_gets_everything() {
    let script = Script { stall_after: Some(2), ..Script::default() };
    let (one, two) = (fake(script.clone()).await, fake(script).await);
    let mut up = upstream("up", &one.url(), Api::OpenAi);
    up.urls.push(two.url());
    let fleet = fleet(vec![up]);
    let mut open = Vec::new();
    // Forty streams with one start, none of which ends.
    for _ in 0..40 {
        open.push(fleet.start(call(Format::Chat, streamed(turn(1, 0)))).await.unwrap());
    }
    let running: Vec<usize> = fleet.upstreams().iter().map(|stats| stats.running).collect();
    assert_eq!(running.iter().sum::<usize>(), 40);
    assert!(running.iter().all(|calls| *calls >= 15), "{running:?}");
    drop(open);
    wait_until("the load to be gone", || fleet.upstreams().iter().all(|stats| stats.running == 0))
        .await;
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn affinity_is_the_tenants_own_and_ends_with_the_providers_cache() {
    let clock = ManualClock::default();
    let (one, two) = (fake(Script::default()).await, fake(Script::default()).await);
    let mut up = upstream("up", &one.url(), Api::OpenAi);
    up.urls.push(two.url());
    up.cache_life = Some(Duration::from_secs(300));
    let fleet = with_clock(vec![up], &clock);
    let expected = || {
        let sums = fleet.upstreams().into_iter().map(|stats| stats.calibration.predicted);
        sums.sum::<u64>()
    };
    let send = async |scope: &[u8]| {
        let before = expected();
        ask(&fleet, tenant(scope, "t", call(Format::Chat, turn(1, 0)))).await.unwrap();
        expected() - before > 0
    };
    assert!(!send(b"a").await, "new");
    assert!(send(b"a").await, "the same start again");
    assert!(!send(b"b").await, "another tenant's start is another start");
    clock.advance(Duration::from_secs(299));
    assert!(send(b"a").await, "just in time");
    clock.advance(Duration::from_secs(300));
    assert!(!send(b"a").await, "the provider has forgotten it");
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn calls_are_shared_by_weight() {
    let (one, two) = (fake(Script::default()).await, fake(Script::default()).await);
    let stall = Script { stall_after: Some(1), ..Script::default() };
    one.always(stall.clone());
    two.always(stall);
    let heavy = UpstreamConfig { weight: 3.0, ..upstream("heavy", &one.url(), Api::OpenAi) };
    let light = upstream("light", &two.url(), Api::OpenAi);
    let fleet = fleet(vec![heavy, light]);
    let mut open = Vec::new();
    for n in 0..40 {
        let body = streamed(chat(&format!("Question {n}")));
        open.push(fleet.start(call(Format::Chat, body)).await.unwrap());
    }
    let running: Vec<usize> = fleet.upstreams().iter().map(|stats| stats.running).collect();
    assert!((27..=33).contains(&running[0]), "{running:?}");
    drop(open);
    one.stop().await;
    two.stop().await;
}
