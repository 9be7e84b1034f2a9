//! A small pool of threads that hands out the chunks of one job at a time.
//!
//! A decode step makes a job every few microseconds, so a worker spins for a while before it parks, and a job costs
//! its caller two atomic operations. The caller takes part in its own job and never waits for a worker that has not
//! begun: a worker that is parked or descheduled simply misses the job.
//!
//! # What the threads share, and why it is sound
//!
//! Everything hangs on [`Shared::state`], one word of `epoch (32 bits) | open (1 bit) | joined (31 bits)`.
//!
//! 1. The job cell is written only by the thread that holds `Pool::turn`, and only while the word is closed with
//!    nobody joined (its initial state, and the state in which [`Pool::run`] leaves it). It is published by the
//!    release store that opens the word.
//! 2. A worker reads the cell only after it added itself to `joined` by a compare-exchange on an open word of the
//!    epoch that it saw. That acquires the store of point 1.
//! 3. The caller closes the word (nobody can join any more), then waits until `joined` is 0. A worker leaves with a
//!    release decrement after its last use of the job, which the caller acquires. So the borrowed closure outlives each use
//!    of it, the chunks' writes are visible to the caller, and point 1 holds again.
//! 4. No wake-up is lost: a worker that goes to sleep raises `sleepers`, then looks at the word again, holding the
//!    lock of the condition variable; a caller opens the word, then looks at `sleepers`. All four are sequentially
//!    consistent, so at least one of the two sees the other. If the caller does, it notifies with the lock held, so
//!    not in the gap between the worker's look and its wait. (If one were lost, only speed would suffer, by point 3.)

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// How many pauses a worker spins before it parks: about 0.3 to 1 ms, more than any gap between the jobs of a
/// forward pass. Waking a parked worker takes about 40 us.
const SPINS_BEFORE_PARK: u32 = 20_000;

/// How many pauses the caller spins for the last worker before it gives its time slice away, in case that worker is
/// not running.
const SPINS_BEFORE_YIELD: u32 = 2_000;

const OPEN: u64 = 1 << 31;
const JOINED: u64 = OPEN - 1;
const EPOCH_SHIFT: u32 = 32;

type Job<'a> = dyn Fn(usize) + Sync + 'a;
type PanicPayload = Box<dyn Any + Send>;

/// Threads that run the chunks of a job; see the module's text for how.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held by the thread whose job is running.
    turn: Mutex<()>,
}

/// Keeps a word that one thread writes off the cache line that others read.
#[repr(align(128))]
struct Apart<T>(T);

struct Shared {
    state: Apart<AtomicU64>,
    next: Apart<AtomicUsize>,
    job: UnsafeCell<Option<Published>>,
    panic: Mutex<Option<PanicPayload>>,
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    stop: AtomicBool,
}

#[derive(Clone, Copy)]
struct Published {
    job: *const Job<'static>,
    chunks: usize,
}

// SAFETY: everything but `job` is Sync by itself; `job` is written and read by the rules 1 to 3 of the module's text,
// and what it points at is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is used only while its closure is alive (rule 3).
unsafe impl Send for Shared {}

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
        let shared = Arc::new(Shared {
            state: Apart(AtomicU64::new(0)),
            next: Apart(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
        });
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
        self.shared.run(chunks, job);
        let payload = lock(&self.shared.panic).take();
        drop(turn);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.notify();
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

impl Shared {
    /// Runs one job; the caller holds `Pool::turn`.
    fn run(&self, chunks: usize, job: &Job<'_>) {
        // SAFETY: only the lifetime changes. The pointer is followed by threads that have joined this epoch alone, and
        // this function does not return before they have left (rule 3); nothing in it unwinds before that.
        let job: *const Job<'static> = unsafe { std::mem::transmute(std::ptr::from_ref(job)) };
        let published = Published { job, chunks };
        // SAFETY: the word is closed and nobody has joined, so no other thread touches the cell (rule 1).
        unsafe { *self.job.get() = Some(published) };
        self.next.0.store(0, Ordering::Relaxed);
        let epoch = (self.state.0.load(Ordering::Relaxed) >> EPOCH_SHIFT).wrapping_add(1);
        self.state.0.store(epoch << EPOCH_SHIFT | OPEN, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.notify();
        }
        self.take_part(published);
        self.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0_u32;
        while self.state.0.load(Ordering::Acquire) & JOINED != 0 {
            spins = spins.saturating_add(1);
            if spins < SPINS_BEFORE_YIELD {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// Runs chunks until none is left. Keeps the first panic for the caller.
    fn take_part(&self, published: Published) {
        // SAFETY: the caller of `run` holds the closure's borrow, and this thread is that caller or has joined (rule 3).
        let job = unsafe { &*published.job };
        IN_JOB.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let chunk = self.next.0.fetch_add(1, Ordering::Relaxed);
                if chunk >= published.chunks {
                    break;
                }
                job(chunk);
            }
        }));
        IN_JOB.set(false);
        if let Err(payload) = result {
            self.next.0.store(published.chunks, Ordering::Relaxed);
            lock(&self.panic).get_or_insert(payload);
        }
    }

    fn notify(&self) {
        let _held = lock(&self.sleep);
        self.wake.notify_all();
    }

    /// Waits for a word of another epoch than `seen`. `None` when the pool ends.
    fn await_epoch(&self, seen: u64) -> Option<u64> {
        let mut spins = 0;
        loop {
            let state = self.state.0.load(Ordering::Acquire);
            if state >> EPOCH_SHIFT != seen {
                return Some(state);
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            spins += 1;
            if spins < SPINS_BEFORE_PARK {
                std::hint::spin_loop();
            } else {
                self.park(seen);
                spins = 0;
            }
        }
    }

    /// Sleeps until the epoch is not `seen` or the pool ends (rule 4).
    fn park(&self, seen: u64) {
        let mut held = lock(&self.sleep);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while self.state.0.load(Ordering::SeqCst) >> EPOCH_SHIFT == seen
            && !self.stop.load(Ordering::SeqCst)
        {
            held = self.wake.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Joins the job of `state`'s epoch, unless it is closed by now (rule 2).
    fn join(&self, mut state: u64) -> Option<Published> {
        let epoch = state >> EPOCH_SHIFT;
        while state & OPEN != 0 && state >> EPOCH_SHIFT == epoch {
            match self.state.0.compare_exchange_weak(
                state,
                state + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                // SAFETY: this thread has joined, so the cell was written before and is not written until it leaves.
                Ok(_) => return unsafe { *self.job.get() },
                Err(now) => state = now,
            }
        }
        None
    }
}

/// A worker's life: one look at each epoch that it notices.
fn work(shared: &Shared) {
    let mut seen = 0;
    while let Some(state) = shared.await_epoch(seen) {
        seen = state >> EPOCH_SHIFT;
        if let Some(published) = shared.join(state) {
            shared.take_part(published);
            shared.state.0.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Locks where a panic of a holder leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
