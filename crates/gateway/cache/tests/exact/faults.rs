//! Stores that hang, fail and lie: a miss and a counted warning, never an error, never a wrong answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tapri_cache::exact::store::{Found, GuardConfig, Guarded, Put, Reply, Store, StoreStats};
use tapri_cache::exact::{ExactCache, ExactConfig, Filter, Key, StoreError};
use tokio::time::Instant;

use crate::play::*;

/// How a store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Hangs,
    Fails,
    Lies,
    Forgets,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    asked: AtomicUsize,
}

impl Faulty {
    fn reply<T: Send + 'static>(&self, value: T) -> Reply<T> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Fault::Hangs => Box::pin(std::future::pending()),
            Fault::Fails => Box::pin(async { Err(StoreError::Failed("no route to host".into())) }),
            Fault::Lies | Fault::Forgets => Box::pin(async { Ok(value) }),
        }
    }
}

impl Store for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn get(&self, _: Key) -> Reply<Found> {
        let garbage = (0, b"tpx\x01\x01\x00\x00\x00 no answer at all".to_vec());
        let entries = if self.fault == Fault::Lies { vec![garbage] } else { Vec::new() };
        self.reply(Found { epoch: 0, entries })
    }

    fn put(&self, _: Put) -> Reply<bool> {
        self.reply(true)
    }

    fn tag(&self, _: Key, _: String) -> Reply<()> {
        match self.fault {
            Fault::Forgets => Box::pin(async { Err(StoreError::Full) }),
            _ => self.reply(()),
        }
    }

    fn delete(&self, _: Key) -> Reply<()> {
        self.reply(())
    }

    fn purge(&self, _: Filter, _: u64) -> Reply<u64> {
        self.reply(0)
    }

    fn epoch(&self) -> Reply<u64> {
        self.reply(0)
    }

    fn stats(&self) -> Reply<StoreStats> {
        self.reply(StoreStats::default())
    }

    fn close(&self) {}
}

fn with(fault: Fault) -> (ExactCache, Arc<Faulty>) {
    let store = Arc::new(Faulty { fault, asked: AtomicUsize::new(0) });
    let guarded = Guarded::new(Arc::clone(&store) as _, GuardConfig::default());
    let config = ExactConfig { store: Some(guarded), ..ExactConfig::default() };
    (ExactCache::new(config), store)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_costs_its_time_limit_once_in_a_while() {
    let (cache, store) = with(Fault::Hangs);
    let start = Instant::now();
    answered(&cache, &ask("Why?"), answer("because")).await;
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    for n in 0..100 {
        answered(&cache, &ask(&n.to_string()), answer("x")).await;
    }
    assert_eq!(start.elapsed(), Duration::from_millis(50), "it rests");
    assert_eq!(store.asked.load(Ordering::SeqCst), 1);
    assert_eq!(cache.stats().store_errors, 1);
    tokio::time::advance(Duration::from_secs(1)).await;
    answered(&cache, &ask("again"), answer("x")).await;
    assert_eq!(store.asked.load(Ordering::SeqCst), 2, "it is tried again");
}

/// Without word from the store nobody knows what was erased: memory doesn't answer on its own.
#[tokio::test(start_paused = true)]
async fn memory_answers_only_while_the_store_says_that_nothing_was_erased() {
    let (cache, _) = with(Fault::Fails);
    answered(&cache, &ask("Why?"), answer("because")).await;
    assert_eq!(stored(&cache, &ask("Why?")).await, None);
    let (cache, _) = with(Fault::Forgets);
    answered(&cache, &ask("Why?"), answer("because")).await;
    assert_eq!(stored(&cache, &ask("Why?")).await.as_deref(), Some("because"));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_lies_is_not_believed() {
    let (cache, _) = with(Fault::Lies);
    for n in 1..4 {
        let seen = answered(&cache, &ask(&n.to_string()), answer("because")).await;
        assert_eq!(text(&seen), "because");
        assert_eq!(cache.stats().store_errors, n);
    }
}

/// An answer whose store can't be told of one more session could not be found by that session's name.
#[tokio::test(start_paused = true)]
async fn a_session_that_can_not_be_noted_gets_no_stored_answer() {
    let (cache, _) = with(Fault::Forgets);
    answered(&cache, &ask("Why?"), answer("because")).await;
    assert_eq!(stored(&cache, &in_session("Why?", "s")).await, None, "so it isn't given");
    assert_eq!(cache.stats().memory.entries, 0);
}

#[tokio::test(start_paused = true)]
async fn an_erasure_that_did_not_happen_is_an_error() {
    let (cache, _) = with(Fault::Fails);
    let error = cache.purge(&Filter::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "no route to host");
}
