//! A store that is watched: it has a limit of time, and rests after a failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Reply, Store, StoreError};

/// How a store is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardConfig {
    /// How long a call waits for it.
    pub timeout: Duration,
    /// How long it is left alone after a failure, so that a store that is down costs the time limit once in a while
    /// and not with each call.
    pub rest: Duration,
    /// At most one warning in so long.
    pub warn_every: Duration,
    /// How long memory in front of it is trusted after it said that nothing was erased: how soon an erasure by one
    /// process is seen by all others.
    pub lease: Duration,
}

impl Default for GuardConfig {
    fn default() -> Self {
        GuardConfig {
            timeout: Duration::from_millis(50),
            rest: Duration::from_secs(1),
            warn_every: Duration::from_secs(30),
            lease: Duration::from_secs(1),
        }
    }
}

/// A store that is watched.
#[derive(Debug)]
pub struct Guarded {
    store: Arc<dyn Store>,
    config: GuardConfig,
    errors: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rests_until: Option<Instant>,
    warned: Option<Instant>,
}

impl Guarded {
    /// Watches a store.
    pub fn new(store: Arc<dyn Store>, config: GuardConfig) -> Self {
        Guarded { store, config, errors: AtomicU64::new(0), state: Mutex::default() }
    }

    /// The store itself, without limits: for erasure and for people, who can wait and want the error.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// How long memory in front of it is trusted.
    pub(crate) fn lease(&self) -> Duration {
        self.config.lease
    }

    /// Counter: how often it failed or was too slow.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// What the store says within the limit; `None` is a failure, which was counted and said.
    pub async fn ask<T>(&self, what: &str, ask: impl FnOnce(&dyn Store) -> Reply<T>) -> Option<T> {
        if self.is_resting() {
            return None;
        }
        let answer = tokio::time::timeout(self.config.timeout, ask(&*self.store)).await;
        match answer.unwrap_or(Err(StoreError::Slow)) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.failed(what, &error);
                None
            }
        }
    }

    /// Counts something that was wrong with what it gave: an entry that can't be read.
    pub fn corrupt(&self, error: &dyn std::error::Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.warn("read an entry of", error);
    }

    fn is_resting(&self) -> bool {
        let until = self.state.lock().unwrap_or_else(PoisonError::into_inner).rests_until;
        until.is_some_and(|until| Instant::now() < until)
    }

    fn failed(&self, what: &str, error: &StoreError) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).rests_until =
            Some(Instant::now() + self.config.rest);
        self.warn(what, error);
    }

    fn warn(&self, what: &str, error: &dyn std::error::Error) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.warned.is_none_or(|at| now.duration_since(at) >= self.config.warn_every) {
            state.warned = Some(now);
            drop(state);
            tracing::warn!(
                store = self.store.name(),
                failures = self.errors(),
                "failed to {what} the exact cache's store; its calls are misses meanwhile: {error}"
            );
        }
    }
}
