//! What the prefix cache did, minute by minute, for the last two hours: a bounded ring of differences of its counters.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tapri_pipeline::{BackendStats, Pipeline};

use crate::routes::App;

/// Minutes that are kept.
const MINUTES: usize = 120;

/// How often the counters are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// What happened in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Minute {
    /// Its number since 1970.
    pub(crate) minute: i64,
    /// Tokens looked up.
    pub(crate) queries: u64,
    /// Of those, found.
    pub(crate) hits: u64,
    /// KV blocks evicted for room.
    pub(crate) evicted: u64,
    /// KV blocks evicted for room that a window had passed.
    pub(crate) passed: u64,
    /// KV blocks whose time was up.
    pub(crate) expired: u64,
    /// KV blocks that were erased.
    pub(crate) erased: u64,
}

/// The ring.
#[derive(Debug, Default)]
pub(crate) struct History {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: Option<BackendStats>,
    minutes: VecDeque<Minute>,
}

impl History {
    /// Takes the counters as they are now.
    pub(crate) fn look(&self, stats: &BackendStats, now: Timestamp) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { last, minutes } = &mut *inner;
        // What was before the first look happened then, as far as anyone knows: the server has just begun.
        let before = last.replace(*stats).unwrap_or_default();
        let minute = now.as_second().div_euclid(60);
        // A clock that was set back writes on in the newest minute.
        if minutes.back().is_none_or(|newest| newest.minute < minute) {
            minutes.push_back(Minute { minute, ..Minute::default() });
            if minutes.len() > MINUTES {
                minutes.pop_front();
            }
        }
        let Some(newest) = minutes.back_mut() else { return };
        let more = |of: fn(&BackendStats) -> u64| of(stats).saturating_sub(of(&before));
        newest.queries += more(|it| it.prefix_queries);
        newest.hits += more(|it| it.prefix_hits);
        newest.evicted += more(|it| it.evicted_blocks);
        newest.passed += more(|it| it.evicted_window_blocks);
        newest.expired += more(|it| it.expired_blocks);
        newest.erased += more(|it| it.reset_blocks);
    }

    /// The minutes up to now, the oldest first, without gaps from the first that was seen.
    pub(crate) fn minutes(&self, now: Timestamp) -> Vec<Minute> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let end = now.as_second().div_euclid(60);
        let Some(first) = inner.minutes.front() else { return Vec::new() };
        let begin = first.minute.max(end - MINUTES as i64 + 1);
        let known = |minute: i64| inner.minutes.iter().find(|it| it.minute == minute).copied();
        let empty = |minute| Minute { minute, ..Minute::default() };
        (begin..=end.max(begin)).map(|it| known(it).unwrap_or_else(|| empty(it))).collect()
    }
}

/// Looks at the counters for ever; to be dropped when the server stops.
pub(crate) async fn run(app: App, pipeline: Pipeline) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(stats) = pipeline.stats() else { return };
        app.history().look(&stats, Timestamp::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_mins(minute)
    }

    fn stats(queries: u64, evicted: u64) -> BackendStats {
        BackendStats { prefix_queries: queries, evicted_blocks: evicted, ..BackendStats::default() }
    }

    #[test]
    fn counters_become_what_happened_in_each_minute() {
        let history = History::default();
        assert!(history.minutes(at(5)).is_empty());
        history.look(&stats(100, 1), at(10));
        history.look(&stats(150, 1), at(10));
        history.look(&stats(150, 4), at(13));
        let minutes = history.minutes(at(14));
        let seen: Vec<_> = minutes.iter().map(|it| (it.minute, it.queries, it.evicted)).collect();
        assert_eq!(seen, [(10, 150, 1), (11, 0, 0), (12, 0, 0), (13, 0, 3), (14, 0, 0)]);
    }

    #[test]
    fn two_hours_are_kept_and_a_clock_set_back_loses_nothing() {
        let history = History::default();
        for minute in 0..500 {
            history.look(&stats(minute, 0), at(minute as i64));
        }
        history.look(&stats(600, 0), at(3));
        let minutes = history.minutes(at(499));
        assert_eq!((minutes.len(), minutes[0].minute), (MINUTES, 380));
        assert_eq!(minutes.iter().map(|it| it.queries).sum::<u64>(), 600 - 379);
    }
}
