//! Questions that run, and who watches them.
//!
//! Each case has a hub while somebody watches or something runs. Its state is a small thing under a lock that is never
//! held across a wait; a version beside it tells watchers that it changed, and each reads what is new to it. A slow
//! browser so holds up nobody, and needs no queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tapri_casefile::CaseId;
use tokio::sync::watch;

/// The hubs of all cases.
#[derive(Debug)]
pub(crate) struct Answers {
    hubs: Mutex<HashMap<CaseId, Arc<Hub>>>,
    /// Questions that run.
    running: watch::Sender<usize>,
}

impl Default for Answers {
    fn default() -> Self {
        Answers { hubs: Mutex::default(), running: watch::Sender::new(0) }
    }
}

impl Answers {
    /// A case's hub, made where there is none.
    pub(crate) fn hub(&self, case: &CaseId) -> Arc<Hub> {
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds any more and in which nothing runs.
        hubs.retain(|_, hub| Arc::strong_count(hub) > 1);
        Arc::clone(hubs.entry(case.clone()).or_default())
    }

    fn known(&self, case: &CaseId) -> Option<Arc<Hub>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner).get(case).cloned()
    }

    /// Whether a question of a case runs.
    pub(crate) fn is_running(&self, case: &CaseId) -> bool {
        self.known(case).is_some_and(|hub| hub.read(|state| state.running.is_some()))
    }

    /// Stops what runs in a case.
    pub(crate) fn stop(&self, case: &CaseId) {
        if let Some(hub) = self.known(case) {
            hub.stop.send_replace(true);
        }
    }

    /// Counts a question that runs, until it is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        self.running.send_modify(|running| *running += 1);
        Place(Arc::clone(self))
    }

    /// Waits until no question runs.
    pub(crate) async fn idle(&self) {
        let mut running = self.running.subscribe();
        // The sender is here, so that it can't have gone.
        let _ = running.wait_for(|running| *running == 0).await;
    }
}

/// A question that runs.
#[derive(Debug)]
pub(crate) struct Place(Arc<Answers>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// What goes on in a case.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    version: watch::Sender<u64>,
    stop: watch::Sender<bool>,
}

impl Default for Hub {
    fn default() -> Self {
        Hub {
            state: Mutex::default(),
            version: watch::Sender::new(0),
            stop: watch::Sender::new(false),
        }
    }
}

/// What a watcher can see.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Counts what should be loaded again: turns that began or ended, files that came or went.
    pub(crate) changes: u64,
    pub(crate) running: Option<Running>,
}

/// A question that runs.
#[derive(Debug)]
pub(crate) struct Running {
    /// The turn.
    pub(crate) n: u32,
    pub(crate) phase: Phase,
    /// The answer so far.
    pub(crate) text: String,
    /// How often the answer began anew: after a tool was called.
    pub(crate) round: u32,
}

/// How far a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its prompt is laid out and counted.
    Preparing,
    /// It waits for its turn.
    Waiting,
    /// Its prompt is read.
    Reading {
        /// Tokens that are ready, those from the cache included.
        ready: usize,
        /// All tokens.
        total: usize,
    },
    /// Its answer is written.
    Answering,
}

impl Hub {
    /// Looks at the state.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the state and tells the watchers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.send_modify(|version| *version += 1);
    }

    /// Changes the question that runs.
    pub(crate) fn progress(&self, change: impl FnOnce(&mut Running)) {
        self.change(|state| {
            if let Some(running) = &mut state.running {
                change(running);
            }
        });
    }

    /// A question begins.
    pub(crate) fn begin(&self, n: u32) {
        self.stop.send_replace(false);
        self.change(|state| {
            state.changes += 1;
            state.running =
                Some(Running { n, phase: Phase::Preparing, text: String::new(), round: 0 });
        });
    }

    /// It ended; what it left is in the store already.
    pub(crate) fn end(&self) {
        self.change(|state| {
            state.changes += 1;
            state.running = None;
        });
    }

    /// What is shown has changed.
    pub(crate) fn touch(&self) {
        self.change(|state| state.changes += 1);
    }

    /// Tells when the state changed.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until the person wants it stopped.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn watchers_see_what_is_new_and_the_end_waits_for_all() -> Result<(), getrandom::Error> {
        let answers = Arc::new(Answers::default());
        let case = CaseId::random()?;
        let hub = answers.hub(&case);
        let mut watch = hub.watch();
        let place = answers.enter();
        hub.begin(3);
        assert!(answers.is_running(&case) && watch.has_changed().unwrap_or(false));
        hub.progress(|running| running.text.push_str("tea"));
        watch.mark_unchanged();
        assert_eq!(
            hub.read(|state| state.running.as_ref().map(|it| it.text.clone())).as_deref(),
            Some("tea")
        );
        answers.stop(&case);
        hub.stopped().await;
        hub.end();
        drop(place);
        answers.idle().await;
        assert!(!answers.is_running(&case) && hub.read(|state| state.changes) == 2);
        drop(hub);
        assert!(answers.hub(&CaseId::random()?).read(|state| state.running.is_none()));
        assert_eq!(
            answers.hubs.lock().unwrap_or_else(PoisonError::into_inner).len(),
            1,
            "the first is gone"
        );
        Ok(())
    }
}
