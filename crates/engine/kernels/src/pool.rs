//! A small pool of threads that hands out the chunks of one job at a time.
//!
//! A decode step makes a job every few microseconds, so a worker spins for a while before it parks, and a job costs
//! its caller two atomic operations. The caller takes part in its own job and never waits for a worker that has not
//! begun: a worker that is parked or descheduled simply misses the job.
//!
//! `pool/handoff.rs` has what the threads share and why it is sound; `pool/sync.rs` what of the system it is made from.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

mod handoff;
mod sync;

use handoff::{Job, Shared, lock, work};

/// Threads that run the chunks of a job; see the module's text for how.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held by the thread whose job is running.
    turn: Mutex<()>,
}

thread_local! {
    /// Whether this thread is inside a job, of whichever pool: a nested job runs on the spot.
    static IN_JOB: Cell<bool> = const { Cell::new(false) };
}

impl Pool {
    /// A pool that computes on `threads` threads, the caller's included (0 counts as 1).
    ///
    /// If the system refuses a thread, the pool has fewer; see [`Pool::threads`].
    #[must_use]
    pub fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared::new());
        let mut workers = Vec::new();
        for index in 1..threads {
            let shared = Arc::clone(&shared);
            let builder = thread::Builder::new().name(format!("tapri-kernel-{index}"));
            match builder.spawn(move || work(&shared)) {
                Ok(worker) => workers.push(worker),
                Err(_) => break,
            }
        }
        Pool { shared, workers, turn: Mutex::new(()) }
    }

    /// On how many threads a job runs, the caller's included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `job(i)` once for each `i` below `chunks`, on the pool's threads and this one, and returns when all are done.
    ///
    /// Chunks are handed out one by one, in ascending order. A call from inside a job runs on the spot. Calls from
    /// several threads take turns.
    ///
    /// # Panics
    /// When a chunk panics: the chunks that have not begun are dropped, and the first panic goes on in the caller once all
    /// threads have left the job. The pool stays usable.
    pub fn run(&self, chunks: usize, job: &Job<'_>) {
        if self.workers.is_empty() || chunks <= 1 || IN_JOB.get() {
            for chunk in 0..chunks {
                job(chunk);
            }
            return;
        }
        let turn = lock(&self.turn);
        let payload = self.shared.run(chunks, job);
        drop(turn);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.end();
        for worker in self.workers.drain(..) {
            // A worker catches its job's panics, so it has none of its own to report.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
