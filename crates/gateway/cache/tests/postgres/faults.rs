//! A server that isn't there, dies, is slow, or holds what it shouldn't: misses, counted, and nothing else.

use std::time::Duration;

use tapri_cache::exact::{Filter, Key};
use tapri_cache::semantic::cache::Decision;
use tapri_cache::semantic::store::Verdict;
use tapri_cache::semantic::store::postgres::{Postgres, PostgresConfig};
use tapri_cache::semantic::{SemanticCache, SemanticError, SemanticStoreError};

use crate::port::free_port;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::{NEAR, STORED, asked, cache, keep, label, look, owner, patient, until};

/// As it is served: calls wait a moment and no longer.
fn impatient() -> PostgresConfig {
    PostgresConfig { timeout: Duration::from_millis(50), ..patient() }
}

/// Keeps the question until it is found: a server comes back when it can.
fn until_found(cache: &SemanticCache) {
    until("the question is found", || {
        let Ok(look) = cache.look(&asked(STORED), "/r") else { return false };
        if look.nearest.is_some_and(|near| &*near.question == STORED) {
            return true;
        }
        let Ok(look) = cache.look(&asked(STORED), "/r") else { return false };
        cache.keep(&asked(STORED), &look, Key::from_bytes([1; 32]), owner());
        false
    });
}

fn failures(cache: &SemanticCache) -> u64 {
    cache.counts().errors
}

fn misses(cache: &SemanticCache) {
    let before = failures(cache);
    for _ in 0..3 {
        let error = cache.look(&asked(NEAR), "/r").unwrap_err();
        assert!(matches!(error, SemanticError::Store(_)), "{error}");
    }
    assert!(failures(cache) > before);
}

#[test]
fn a_server_that_is_not_there_at_the_start_and_comes_later() {
    let port = free_port();
    let cache = cache(&format!("postgres://tapri@127.0.0.1:{port}/postgres"), patient());
    misses(&cache);
    assert!(cache.purge(&Filter::default()).is_err(), "an erasure that can't be made is said");
    let _server = Server::start_at(port);
    until_found(&cache);
}

#[test]
fn a_server_that_is_killed_in_the_middle_and_comes_back() {
    let mut server = Server::start();
    let cache = cache(&server.url(), patient());
    until_found(&cache);
    server.kill();
    misses(&cache);
    server.start_again();
    until_found(&cache);
}

/// After a failure it is left alone, and calls don't wait for it.
#[test]
fn a_server_that_failed_rests() {
    let url = format!("postgres://tapri@127.0.0.1:{}/postgres", free_port());
    let cache = cache(&url, PostgresConfig { rest: Duration::from_secs(3600), ..patient() });
    assert!(cache.look(&asked(NEAR), "/r").is_err());
    let after = failures(&cache);
    for _ in 0..100 {
        let error = cache.look(&asked(NEAR), "/r").unwrap_err();
        assert!(matches!(error, SemanticError::Store(SemanticStoreError::Resting)), "{error}");
    }
    assert!(failures(&cache) <= after + 1);
}

/// A network with a second in it: slower than calls wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_network_costs_a_moment() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let url = proxy.url().replace("redis://", "postgres://tapri@") + "/postgres";
    let cache = cache(&url, impatient());
    // The network's clock is the runtime's, so what blocks is done elsewhere.
    let (cache, ()) = tokio::task::spawn_blocking(move || {
        until_found(&cache);
        (cache, ())
    })
    .await
    .unwrap();
    proxy.delay(Duration::from_secs(1));
    let cache = tokio::task::spawn_blocking(move || {
        misses(&cache);
        cache
    })
    .await
    .unwrap();
    proxy.delay(Duration::ZERO);
    tokio::task::spawn_blocking(move || until_found(&cache)).await.unwrap();
}

#[test]
fn what_is_not_what_was_written_is_never_served() {
    let server = Server::start();
    let cache = cache(&server.url(), patient());
    until("the tables are there", || cache.refresh().is_ok());
    let damages = [
        // The answer to another question, as after a mix-up.
        "UPDATE tapri_semantic_questions SET answer = sha256('other')",
        "UPDATE tapri_semantic_questions SET answer = '\\x01'",
        "UPDATE tapri_semantic_questions SET question = 'How can I cancel my plan?'",
        "UPDATE tapri_semantic_questions SET vector = '[1,2,3]'",
        "UPDATE tapri_semantic_questions SET digest = ''",
        "UPDATE tapri_semantic_questions SET created = created + 1",
    ];
    for damage in damages {
        keep(&cache, STORED, 1, owner());
        assert!(look(&cache, NEAR).nearest.is_some());
        let before = failures(&cache);
        server.sql(damage);
        assert_eq!(look(&cache, NEAR).nearest, None, "{damage}");
        assert_eq!(failures(&cache), before + 1, "{damage}");
        cache.refresh().unwrap();
        assert_eq!(server.questions(), 0, "and it is forgotten: {damage}");
    }
    // Another version of Tapri wrote it: as if it weren't there, and it stays.
    keep(&cache, STORED, 1, owner());
    server.sql("UPDATE tapri_semantic_questions SET version = version + 1");
    let before = failures(&cache);
    assert_eq!(look(&cache, NEAR).nearest, None);
    assert_eq!((failures(&cache), server.questions()), (before, 1));
    // No table at all.
    server.sql("DROP TABLE tapri_semantic_questions");
    misses(&cache);
}

/// What Postgres has no text for is not kept, and keeps nobody from the store.
#[test]
fn a_text_that_postgres_cannot_hold_harms_nobody() {
    let server = Server::start();
    let rests = PostgresConfig { rest: Duration::from_secs(3600), ..patient() };
    let cache = cache(&server.url(), rests);
    until("the tables are there", || cache.refresh().is_ok());
    let zero = format!("{STORED}\0");
    let there = look(&cache, &zero);
    cache.keep(&asked(&zero), &there, Key::from_bytes([9; 32]), owner());
    let mut pair = label(&there, 9, Verdict::Unsettled);
    pair.asked[1] = "an answer\0".to_owned();
    cache.learn(pair, there.epoch);
    cache.refresh().unwrap();
    assert_eq!((failures(&cache), server.questions()), (0, 0));
    assert_eq!(cache.unsettled(9).unwrap().len(), 1);
    until_found(&cache);
}

#[test]
fn an_address_that_cannot_be_used_is_said_without_its_password() {
    for url in ["postgres://u:s3cret@h:notaport/d", "postgres://u:s3cret@h/d?sslmode=require"] {
        let error = Postgres::new(url, patient()).unwrap_err();
        assert!(matches!(error, SemanticStoreError::Address(_)), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let url = "postgres://u:s3cret@127.0.0.1:1/d";
    let cache = cache(url, patient());
    let error = cache.look(&asked(NEAR), "/r").unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(!source.contains("s3cret"), "{source}");
    assert!(
        !matches!(cache.look(&asked(NEAR), "/r"), Ok(look) if look.decision != Decision::Nothing)
    );
}
