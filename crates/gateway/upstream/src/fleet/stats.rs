//! Counters of upstreams, as snapshots.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tapri_api::Usage;

use crate::BackendStats;
use crate::breaker::BreakerState;
use crate::http::endpoint::Endpoint;
use crate::prefix::calibration::Calibration;

/// What a replica of an upstream has done and is doing.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamStats {
    /// Its name: the upstream's, with a number where there are several replicas.
    pub name: String,
    /// Counter: requests that were answered to the end.
    pub answered: u64,
    /// Counter: requests refused for the caller's fault (4xx).
    pub refused: u64,
    /// Counter: requests refused because there were too many (429).
    pub busy: u64,
    /// Counter: requests that failed before the first byte.
    pub failed: u64,
    /// Counter: answers that broke off.
    pub broken: u64,
    /// Counter: answers whose client left.
    pub abandoned: u64,
    /// Counter: tries after the first.
    pub retries: u64,
    /// Gauge: calls that it is answering.
    pub running: usize,
    /// Whether it answers when its health is asked for.
    pub well: bool,
    /// What its breaker does.
    pub breaker: BreakerState,
    /// Counter: how often that opened.
    pub opened: u64,
    /// How predictions of cached tokens came true.
    pub calibration: Calibration,
}

impl UpstreamStats {
    pub(crate) fn of(endpoint: &Endpoint, now: Instant) -> Self {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &endpoint.counts;
        UpstreamStats {
            name: endpoint.name.clone(),
            answered: read(&counts.answered),
            refused: read(&counts.refused),
            busy: read(&counts.busy),
            failed: read(&counts.failed),
            broken: read(&counts.broken),
            abandoned: read(&counts.abandoned),
            retries: read(&counts.retries),
            running: endpoint.running(),
            well: endpoint.is_well(),
            breaker: endpoint.breaker.state(now),
            opened: endpoint.breaker.opened(),
            calibration: endpoint.calibrator.sums(),
        }
    }
}

/// Calls that the recent hit rate covers.
const RECENT: usize = 1000;

/// Tokens over all upstreams, as they told them.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    stats: BackendStats,
    recent: VecDeque<(u64, u64)>,
}

impl Totals {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn see(&self, usage: &Usage) {
        let mut inner = self.inner();
        let prompt = usage.prompt().unwrap_or(0) as u64;
        inner.stats.prompt_tokens += prompt;
        inner.stats.answer_tokens += usage.answer().unwrap_or(0) as u64;
        // Who doesn't say what was cached says nothing about the hit rate.
        let Some(cached) = usage.cached() else { return };
        let cached = cached as u64;
        inner.stats.prefix_queries += prompt;
        inner.stats.prefix_hits += cached;
        inner.stats.recent_queries += prompt;
        inner.stats.recent_hits += cached;
        inner.recent.push_back((prompt, cached));
        if inner.recent.len() > RECENT
            && let Some((queries, hits)) = inner.recent.pop_front()
        {
            inner.stats.recent_queries -= queries;
            inner.stats.recent_hits -= hits;
        }
    }

    pub(crate) fn stats(&self, running: usize) -> BackendStats {
        BackendStats { running, ..self.inner().stats }
    }
}
