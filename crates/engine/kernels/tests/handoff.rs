//! The hand-off of jobs between threads, under loom: the pool's own source file, over loom's atomics, locks and cells.
//!
//! Loom runs a model again and again, with another order of the threads' steps and other values of loads each time,
//! until there is none left within the bounds (three forced switches between threads). It fails on two accesses of a
//! cell that no order of synchronisation keeps apart, on a deadlock, and on whatever a model asserts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../src/pool/handoff.rs"]
mod handoff;

/// What the hand-off is made from, by loom.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use loom::thread::yield_now;
    pub(crate) use std::sync::PoisonError;

    /// A worker parks at once, or after it has looked again.
    pub(crate) const SPINS_BEFORE_PARK: u32 = 2;
    pub(crate) const SPINS_BEFORE_YIELD: u32 = 1;

    /// Another thread has to come forward for anything to change.
    pub(crate) fn spin_loop() {
        yield_now();
    }

    pub(crate) fn set_in_job(_inside: bool) {}

    pub(crate) struct JobCell<T>(loom::cell::UnsafeCell<T>);

    impl<T: Copy> JobCell<T> {
        pub(crate) fn new(value: T) -> Self {
            JobCell(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) unsafe fn get(&self) -> T {
            // SAFETY: loom stops the model where another thread writes meanwhile.
            self.0.with(|value| unsafe { *value })
        }

        pub(crate) unsafe fn set(&self, new: T) {
            // SAFETY: loom stops the model where another thread reads or writes meanwhile.
            self.0.with_mut(|value| unsafe { *value = new })
        }
    }
}

use handoff::{Shared, work};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use sync::Ordering;

/// A number that one chunk writes and the caller reads afterwards. Nothing but the hand-off keeps the two apart.
struct Slot(UnsafeCell<u32>);

// SAFETY: loom stops the model where two threads meet in it.
unsafe impl Sync for Slot {}

impl Slot {
    fn add(&self, more: u32) {
        // SAFETY: as above.
        self.0.with_mut(|value| unsafe { *value += more });
    }

    fn value(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}

/// Every order of a caller and `workers` workers within the bounds.
fn model(workers: usize, caller: impl Fn(&Shared) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(if workers == 1 { 3 } else { 2 });
    builder.max_branches = 20_000;
    builder.check(move || {
        let shared = Arc::new(Shared::new());
        let workers: Vec<_> = (0..workers)
            .map(|_| {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || work(&shared))
            })
            .collect();
        caller(&shared);
        shared.end();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(shared.sleepers.load(Ordering::SeqCst), 0, "nobody sleeps at the end");
    });
}

/// Runs a job that adds to a slot for each chunk, in memory that ends with this function.
fn one_job(shared: &Shared, chunks: usize) {
    let slots: Vec<Slot> = (0..chunks).map(|_| Slot(UnsafeCell::new(0))).collect();
    let panic = shared.run(chunks, &|chunk| slots[chunk].add(chunk as u32 + 1));
    assert!(panic.is_none());
    for (chunk, slot) in slots.iter().enumerate() {
        assert_eq!(slot.value(), chunk as u32 + 1, "each chunk once, and seen by the caller");
    }
}

#[test]
fn two_jobs_of_one_worker() {
    model(1, |shared| {
        one_job(shared, 2);
        one_job(shared, 1);
    });
}

#[test]
fn a_job_of_two_workers() {
    model(2, |shared| one_job(shared, 2));
}

#[test]
fn no_job_at_all() {
    model(2, |_| {});
}

#[test]
fn a_panic_comes_back_after_all_have_left() {
    model(1, |shared| {
        let slots = [Slot(UnsafeCell::new(0)), Slot(UnsafeCell::new(0))];
        let payload = shared.run(2, &|chunk| {
            slots[chunk].add(1);
            if chunk == 0 {
                // As a panic, without a word about each of thousands.
                std::panic::resume_unwind(Box::new("the first chunk"));
            }
        });
        assert_eq!(payload.unwrap().downcast_ref(), Some(&"the first chunk"));
        // The second may have been dropped; whoever ran it has left.
        assert_eq!(slots[0].value(), 1);
        assert!(slots[1].value() <= 1);
        one_job(shared, 2);
    });
}
