//! What of the system the hand-off is made from. `tests/handoff.rs` has another of these, made from loom.

use std::cell::UnsafeCell;

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
pub(super) use std::thread::yield_now;

/// How many pauses a worker spins before it parks: about 0.3 to 1 ms, more than any gap between the jobs of a
/// forward pass. Waking a parked worker takes about 40 us.
pub(super) const SPINS_BEFORE_PARK: u32 = 20_000;

/// How many pauses the caller spins for the last worker before it gives its time slice away, in case that worker is
/// not running.
pub(super) const SPINS_BEFORE_YIELD: u32 = 2_000;

/// Notes whether this thread is inside a job.
pub(super) fn set_in_job(inside: bool) {
    super::IN_JOB.set(inside);
}

/// A value that is written and read by the rules of the hand-off.
pub(super) struct JobCell<T>(UnsafeCell<T>);

impl<T: Copy> JobCell<T> {
    pub(super) fn new(value: T) -> Self {
        JobCell(UnsafeCell::new(value))
    }

    /// # Safety
    /// No other thread writes meanwhile.
    pub(super) unsafe fn get(&self) -> T {
        // SAFETY: as the caller promises.
        unsafe { *self.0.get() }
    }

    /// # Safety
    /// No other thread reads or writes meanwhile.
    pub(super) unsafe fn set(&self, value: T) {
        // SAFETY: as the caller promises.
        unsafe { *self.0.get() = value }
    }
}
