//! How a job gets from its caller to the workers and back: one word that all threads share.
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
//!
//! `tests/handoff.rs` runs this file, as it stands, under loom: in every order of the threads' steps up to a bound, and with
//! every value that the memory model lets a load see. What a thread needs of the system comes from [`super::sync`], which
//! is the standard library here and loom there. (Loom takes sequentially consistent loads and stores for acquire and
//! release, so it shows that rules 1 to 3 don't need more; rule 4 is by the argument above, and only speed hangs on it.)

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::sync::{
    self, AtomicBool, AtomicU64, AtomicUsize, Condvar, JobCell, Mutex, MutexGuard, Ordering,
    PoisonError, SPINS_BEFORE_PARK, SPINS_BEFORE_YIELD,
};

const OPEN: u64 = 1 << 31;
const JOINED: u64 = OPEN - 1;
const EPOCH_SHIFT: u32 = 32;

/// Computes one chunk of a job.
pub(crate) type Job<'a> = dyn Fn(usize) + Sync + 'a;
pub(crate) type PanicPayload = Box<dyn Any + Send>;

/// Keeps a word that one thread writes off the cache line that others read.
#[repr(align(128))]
struct Apart<T>(T);

/// What a pool's threads share.
pub(crate) struct Shared {
    state: Apart<AtomicU64>,
    next: Apart<AtomicUsize>,
    job: JobCell<Option<Published>>,
    panic: Mutex<Option<PanicPayload>>,
    pub(crate) sleepers: AtomicUsize,
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

impl Shared {
    /// Closed, with no job and nobody in it.
    pub(crate) fn new() -> Shared {
        Shared {
            state: Apart(AtomicU64::new(0)),
            next: Apart(AtomicUsize::new(0)),
            job: JobCell::new(None),
            panic: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
        }
    }

    /// Runs one job; the caller holds `Pool::turn`. The first panic of its chunks.
    pub(crate) fn run(&self, chunks: usize, job: &Job<'_>) -> Option<PanicPayload> {
        // SAFETY: only the lifetime changes. The pointer is followed by threads that have joined this epoch alone, and
        // this function does not return before they have left (rule 3); nothing in it unwinds before that.
        let job: *const Job<'static> = unsafe { std::mem::transmute(std::ptr::from_ref(job)) };
        let published = Published { job, chunks };
        // SAFETY: the word is closed and nobody has joined, so no other thread touches the cell (rule 1).
        unsafe { self.job.set(Some(published)) };
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
                sync::spin_loop();
            } else {
                sync::yield_now();
            }
        }
        lock(&self.panic).take()
    }

    /// Ends the workers, once they have left what they are in.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.notify();
    }

    /// Runs chunks until none is left. Keeps the first panic for the caller.
    fn take_part(&self, published: Published) {
        // SAFETY: the caller of `run` holds the closure's borrow, and this thread is that caller or has joined (rule 3).
        let job = unsafe { &*published.job };
        sync::set_in_job(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let chunk = self.next.0.fetch_add(1, Ordering::Relaxed);
                if chunk >= published.chunks {
                    break;
                }
                job(chunk);
            }
        }));
        sync::set_in_job(false);
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
                sync::spin_loop();
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
                Ok(_) => return unsafe { self.job.get() },
                Err(now) => state = now,
            }
        }
        None
    }
}

/// A worker's life: one look at each epoch that it notices.
pub(crate) fn work(shared: &Shared) {
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
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
