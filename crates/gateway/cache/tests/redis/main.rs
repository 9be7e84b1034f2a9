//! A real Redis server, shared by two caches as two processes would, and what happens when it dies, hangs, is slow, or
//! holds what it shouldn't.
#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    dead_code
)]

#[path = "../exact/play.rs"]
mod play;
mod port;
mod proxy;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use play::*;
use tapri_api::Call;
use tapri_cache::exact::store::redis::Redis;
use tapri_cache::exact::store::{GuardConfig, Guarded};
use tapri_cache::exact::{ExactCache, ExactConfig, Filter, Look};

use crate::proxy::Proxy;
use crate::server::Server;

/// Names what is to be erased.
type Erase = fn(&mut Filter);

/// Waits as long as a busy machine needs, and asks the store each time.
fn patient() -> GuardConfig {
    GuardConfig {
        timeout: Duration::from_secs(60),
        rest: Duration::ZERO,
        lease: Duration::ZERO,
        ..GuardConfig::default()
    }
}

/// As it is served: calls wait a moment and no longer.
fn impatient() -> GuardConfig {
    GuardConfig { timeout: Duration::from_millis(50), ..patient() }
}

fn cache(url: &str, guard: GuardConfig) -> ExactCache {
    let store = Some(Guarded::new(Arc::new(Redis::new(url).unwrap()), guard));
    ExactCache::new(ExactConfig { store, ..ExactConfig::default() })
}

/// The answer to a call, however it comes: a stored one, or the model's, which is `right`.
async fn asked(cache: &ExactCache, call: &Call, right: &str) -> String {
    match look(cache, call).await {
        Look::Hit(hit) => text(&hit.events()),
        Look::Follow(reader) => text(&read(reader).await),
        Look::Lead(lead) => {
            let (model, source) = model();
            model.says(answer(right));
            text(&read(lead.start(async { Ok(source) })).await)
        }
        other => panic!("{other:?}"),
    }
}

/// Asks until the answer is a stored one: bounded by time, since a server comes back when it can.
async fn until_stored(cache: &ExactCache, call: &Call, right: &str) {
    let start = Instant::now();
    loop {
        assert_eq!(asked(cache, call, right).await, right);
        settled_soon(cache).await;
        if stored(cache, call).await.as_deref() == Some(right) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "never stored: {:?}", cache.stats());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn settled_soon(cache: &ExactCache) {
    let start = Instant::now();
    while cache.stats().flights > 0 {
        assert!(start.elapsed() < Duration::from_secs(120), "a task never ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn two_processes_share_what_either_was_told() {
    let server = Server::start();
    let (one, two) = (cache(&server.url(), patient()), cache(&server.url(), patient()));
    until_stored(&one, &ask("Why?"), "because").await;
    assert_eq!(stored(&two, &ask("Why?")).await.as_deref(), Some("because"));
    assert_eq!(two.store_stats().await.unwrap().unwrap().entries, 1);
    let ttl: i64 = server.say(&["PTTL", &server.keys()[0]]).parse().unwrap();
    assert!(ttl > 86_000_000 && ttl <= 86_400_000, "goes by itself when its time is up: {ttl}");
}

/// What is erased is looked for in the server itself, and in the memory of the other process.
#[tokio::test]
async fn what_is_erased_is_nowhere() {
    let erasures: [(&str, Erase); 5] = [
        ("tenant", |filter| filter.tenant = Some("acme".into())),
        ("route", |filter| filter.route = Some("legal".into())),
        ("document", |filter| filter.document = Some("lease.pdf".into())),
        ("session", |filter| filter.session = Some("s1".into())),
        ("a session that hit", |filter| filter.session = Some("s2".into())),
    ];
    let server = Server::start();
    for (what, erase) in erasures {
        let (one, two) = (cache(&server.url(), patient()), cache(&server.url(), patient()));
        let mut call = in_session("Why?", "s1");
        call.origin.tenant = "acme".into();
        call.origin.route = "legal".into();
        call.origin.document = Some("lease.pdf".into());
        until_stored(&one, &call, "the rent is 41,250").await;
        until_stored(&one, &ask("another's"), "stays").await;
        call.origin.conversation = Some("s2".into());
        assert!(stored(&two, &call).await.is_some());
        assert_eq!(server.keys().len(), 2);
        assert!(server.everything().contains("41,250"), "it is there to be erased");

        let mut filter = Filter::default();
        erase(&mut filter);
        assert_eq!(one.purge(&filter).await.unwrap(), 1, "{what}");
        let left = server.everything();
        for trace in ["41,250", "lease.pdf", "acme", "s:s1", "s:s2"] {
            assert!(!left.contains(trace), "{what}: {trace} is still there");
        }
        assert_eq!(stored(&two, &call).await, None, "{what}: the other one's memory");
        assert_eq!(stored(&one, &ask("another's")).await.as_deref(), Some("stays"));
        assert_eq!(one.purge(&Filter::default()).await.unwrap(), 1);
        assert!(server.keys().is_empty());
    }
}

#[tokio::test]
async fn a_call_under_way_in_another_process_stores_nothing_after_an_erasure() {
    let server = Server::start();
    let (one, two) = (cache(&server.url(), patient()), cache(&server.url(), patient()));
    until_stored(&two, &ask("ready"), "yes").await;
    let (reader, model) = start(&one, &ask("Why?")).await;
    two.purge(&Filter::default()).await.unwrap();
    model.says(answer("because"));
    assert_eq!(text(&read(reader).await), "because");
    settled_soon(&one).await;
    assert!(server.keys().is_empty());
    assert_eq!(stored(&one, &ask("Why?")).await, None);
}

#[tokio::test]
async fn a_server_that_is_not_there_at_the_start_and_comes_later() {
    let port = port::free_port();
    let cache = cache(&format!("redis://127.0.0.1:{port}"), patient());
    for n in 0..3 {
        assert_eq!(asked(&cache, &ask(&n.to_string()), "right").await, "right");
    }
    settled_soon(&cache).await;
    assert!(cache.stats().store_errors > 0);
    assert!(
        cache.purge(&Filter::default()).await.is_err(),
        "an erasure that can't be made is said"
    );
    let _server = Server::start_at(port);
    until_stored(&cache, &ask("Why?"), "because").await;
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_and_comes_back() {
    let mut server = Server::start();
    let cache = cache(&server.url(), patient());
    until_stored(&cache, &ask("Why?"), "because").await;
    server.kill();
    let before = cache.stats().store_errors;
    for _ in 0..3 {
        assert_eq!(asked(&cache, &ask("Why?"), "right").await, "right", "a miss");
    }
    settled_soon(&cache).await;
    assert!(cache.stats().store_errors > before);
    server.start_again();
    until_stored(&cache, &ask("Why?"), "because").await;
}

/// SIGSTOP: connections stay open and nothing comes. Calls wait their moment and go on.
#[cfg(unix)]
#[tokio::test]
async fn a_server_that_hangs_costs_a_moment() {
    let server = Server::start();
    let cache = cache(&server.url(), impatient());
    until_stored(&cache, &ask("Why?"), "because").await;
    server.signal("STOP");
    let before = cache.stats().store_errors;
    for n in 0..3 {
        assert_eq!(asked(&cache, &ask(&n.to_string()), "right").await, "right");
    }
    settled_soon(&cache).await;
    assert!(cache.stats().store_errors > before);
    server.signal("CONT");
    until_stored(&cache, &ask("Why?"), "because").await;
}

/// A network with a quarter of a second in it: slower than calls wait.
#[tokio::test]
async fn a_slow_network_costs_a_moment() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let cache = cache(&proxy.url(), impatient());
    until_stored(&cache, &ask("Why?"), "because").await;
    proxy.delay(Duration::from_millis(250));
    let before = cache.stats().store_errors;
    for n in 0..3 {
        assert_eq!(asked(&cache, &ask(&n.to_string()), "right").await, "right");
    }
    settled_soon(&cache).await;
    assert!(cache.stats().store_errors > before);
    proxy.delay(Duration::ZERO);
    until_stored(&cache, &ask("Why?"), "because").await;
}

#[tokio::test]
async fn what_is_no_answer_is_never_served() {
    let server = Server::start();
    let one = cache(&server.url(), patient());
    until_stored(&one, &ask("Why?"), "because").await;
    let name = server.keys().remove(0);
    let fresh = || cache(&server.url(), patient());
    // Another answer under this name, as after a mix-up.
    until_stored(&one, &ask("Who?"), "someone").await;
    let other = server.keys().into_iter().find(|key| *key != name).unwrap();
    server.say(&["COPY", &other, &name, "REPLACE"]);
    let mixed = fresh();
    assert_eq!(stored(&mixed, &ask("Why?")).await, None);
    assert_eq!(mixed.stats().store_errors, 1);
    // Garbage, and a value of another type.
    server.say(&["HSET", &name, "v0", "garbage"]);
    assert_eq!(stored(&fresh(), &ask("Why?")).await, None);
    server.say(&["SET", &name, "a string"]);
    let typed = fresh();
    assert_eq!(asked(&typed, &ask("Why?"), "right").await, "right");
    settled_soon(&typed).await;
    assert!(typed.stats().store_errors > 0);
}

/// A server without memory takes nothing more: the answer is served, and the failure counted.
#[tokio::test]
async fn a_full_server_costs_nothing_but_a_warning() {
    let server = Server::start();
    let cache = cache(&server.url(), patient());
    until_stored(&cache, &ask("Why?"), "because").await;
    server.say(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(asked(&cache, &ask("How?"), "right").await, "right");
    settled_soon(&cache).await;
    assert!(cache.stats().store_errors > 0);
    server.say(&["CONFIG", "SET", "maxmemory", "0"]);
    until_stored(&cache, &ask("How?"), "right").await;
}

#[tokio::test]
async fn over_tls() {
    let (server, url) = Server::start_with_tls();
    until_stored(&cache(&url, patient()), &ask("Why?"), "because").await;
    assert_eq!(server.keys().len(), 1);
    let other = cache(&url, patient());
    assert_eq!(stored(&other, &ask("Why?")).await.as_deref(), Some("because"));
    // Without its authority, and under another name than it is signed for, nothing is said to it.
    let (plain, _) = url.split_once('?').unwrap();
    for url in [plain.to_owned(), url.replace("localhost", "127.0.0.1")] {
        let stranger = cache(&url, patient());
        assert_eq!(stored(&stranger, &ask("Why?")).await, None, "{url}");
        assert!(stranger.stats().store_errors > 0, "{url}");
    }
}

#[test]
fn authorities_that_are_none() {
    let said = |url: &str| Redis::new(url).unwrap_err().to_string();
    assert!(said("rediss://h/0?ca=/nowhere.pem").contains("/nowhere.pem"));
    assert!(said("redis://h/0?ca=/nowhere.pem").contains("rediss://"));
    assert!(said("rediss://h/0?ca=/dev/null").contains("/dev/null"));
}
