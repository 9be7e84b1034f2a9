//! What runs, so that a stop can wait for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Counts what runs, and tells it to stop.
#[derive(Debug)]
pub(crate) struct Live {
    count: Mutex<usize>,
    none: Condvar,
    /// No new calls, and then no old ones either.
    stop: watch::Sender<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Phase {
    Open,
    Closing,
    Stopped,
}

impl Live {
    pub(crate) fn new() -> Arc<Self> {
        let (stop, _) = watch::channel(Phase::Open);
        Arc::new(Live { count: Mutex::new(0), none: Condvar::new(), stop })
    }

    /// Something runs until what is given is dropped; `None` when nothing new may begin.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Stopping> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.stop.borrow() != Phase::Open {
            return None;
        }
        *count += 1;
        Some(Stopping { live: Arc::clone(self), stop: self.stop.subscribe() })
    }

    /// Lets nothing new begin, gives what runs its time, then stops it. Blocks.
    pub(crate) fn shutdown(&self, limit: Duration) {
        self.stop.send_replace(Phase::Closing);
        if !self.wait(limit) {
            self.stop.send_replace(Phase::Stopped);
            // They end at their next step; who doesn't read his stream keeps it open no longer than this.
            self.wait(Duration::from_secs(2));
        }
        self.stop.send_replace(Phase::Stopped);
    }

    fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            count = self.none.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Something that runs, and hears when it should stop.
#[derive(Debug)]
pub(crate) struct Stopping {
    live: Arc<Live>,
    stop: watch::Receiver<Phase>,
}

impl Stopping {
    /// Until it should stop.
    pub(crate) async fn wait(&mut self) {
        self.wait_for(Phase::Stopped).await;
    }

    /// Until a phase.
    pub(crate) async fn wait_for(&mut self, phase: Phase) {
        // The sender lives in what this holds.
        let _ = self.stop.wait_for(|now| *now >= phase).await;
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        let mut count = self.live.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            self.live.none.notify_all();
        }
    }
}
