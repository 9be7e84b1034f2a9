//! What the exact cache counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Rejected, StoreStats};

/// What was looked up, stored and rejected since the start, and what memory holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ExactStats {
    /// Counter: calls that a stored answer answered.
    pub hits: u64,
    /// Counter: calls that another call's answer answered.
    pub collapsed: u64,
    /// Counter: calls with nothing there.
    pub misses: u64,
    /// Counter: calls whose `Cache-Control` asked for a new answer.
    pub requested: u64,
    /// Counter: calls that the cache has no part in.
    pub bypassed: u64,
    /// Counter: answers that were kept.
    pub stored: u64,
    /// Counter: answers that were not, by why.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Counter: times that the store behind failed, was too slow, or gave what can't be read.
    pub store_errors: u64,
    /// What the store behind is: `sqlite`, `redis`.
    pub store: Option<&'static str>,
    /// Gauge: what memory holds.
    pub memory: StoreStats,
    /// Gauge: calls to the model that run apart from their clients.
    pub flights: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: AtomicU64,
    pub(crate) collapsed: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) requested: AtomicU64,
    pub(crate) bypassed: AtomicU64,
    pub(crate) stored: AtomicU64,
    rejected: [AtomicU64; Rejected::ALL.len()],
}

/// Counts one.
pub(crate) fn up(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    pub(crate) fn rejected(&self, why: Rejected) {
        if let Some(counter) = self.rejected.get(why as usize) {
            up(counter);
        }
    }

    pub(crate) fn stats(&self) -> ExactStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ExactStats {
            hits: read(&self.hits),
            collapsed: read(&self.collapsed),
            misses: read(&self.misses),
            requested: read(&self.requested),
            bypassed: read(&self.bypassed),
            stored: read(&self.stored),
            rejected: Rejected::ALL
                .iter()
                .zip(&self.rejected)
                .map(|(why, counter)| (why.as_str(), read(counter)))
                .collect(),
            ..ExactStats::default()
        }
    }
}
