#![allow(clippy::panic)]

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Runs a job and checks that each chunk came exactly once.
fn check_once(pool: &Pool, chunks: usize) {
    let counts: Vec<AtomicU64> = (0..chunks).map(|_| AtomicU64::new(0)).collect();
    pool.run(chunks, &|chunk| {
        counts[chunk].fetch_add(1, Ordering::Relaxed);
    });
    for (chunk, count) in counts.iter().enumerate() {
        assert_eq!(count.load(Ordering::Relaxed), 1, "chunk {chunk} of {chunks}");
    }
}

#[test]
fn each_chunk_runs_once() {
    for threads in [0, 1, 2, 3, 8] {
        let pool = Pool::new(threads);
        assert_eq!(pool.threads(), threads.max(1));
        for chunks in [0, 1, 2, 3, 7, 100, 1000] {
            check_once(&pool, chunks);
        }
    }
}

#[test]
fn many_small_jobs_back_to_back() {
    let pool = Pool::new(3);
    let total = AtomicU64::new(0);
    for _ in 0..20_000 {
        pool.run(3, &|chunk| {
            total.fetch_add(chunk as u64 + 1, Ordering::Relaxed);
        });
    }
    assert_eq!(total.load(Ordering::Relaxed), 6 * 20_000);
}

/// Both threads take part: two chunks that wait for one another can only end on two threads.
fn meet(pool: &Pool) {
    let seen = Mutex::new(HashSet::new());
    let arrived = AtomicU64::new(0);
    pool.run(2, &|_| {
        lock(&seen).insert(thread::current().id());
        arrived.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while arrived.load(Ordering::SeqCst) < 2 {
            assert!(start.elapsed() < Duration::from_secs(60), "the other thread never came");
            thread::yield_now();
        }
    });
    assert_eq!(lock(&seen).len(), 2);
}

#[test]
fn a_parked_worker_is_woken() {
    let pool = Pool::new(2);
    for _ in 0..20 {
        meet(&pool);
        // Until it has parked (seen from outside), rather than for a fixed time.
        let start = Instant::now();
        while pool.shared.sleepers.load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "the worker never parked");
            thread::yield_now();
        }
    }
    meet(&pool);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = Pool::new(2);
    for bad in [0, 5, 99] {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, &|chunk| {
                if chunk == bad {
                    panic!("chunk {chunk}");
                }
            });
        }));
        let payload = result.err().and_then(|p| p.downcast::<String>().ok());
        assert_eq!(payload.as_deref(), Some(&format!("chunk {bad}")));
        check_once(&pool, 50);
    }
}

#[test]
fn a_nested_job_runs_on_the_spot() {
    let pool = Pool::new(2);
    let total = AtomicU64::new(0);
    pool.run(8, &|_| {
        pool.run(8, &|_| {
            total.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(total.load(Ordering::Relaxed), 64);
}

#[test]
fn callers_take_turns() {
    let pool = Pool::new(2);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    check_once(&pool, 5);
                }
            });
        }
    });
}

#[test]
fn dropping_the_pool_ends_its_threads() {
    for wait_until_parked in [false, true] {
        let pool = Pool::new(2);
        meet(&pool);
        let start = Instant::now();
        while wait_until_parked && pool.shared.sleepers.load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "the worker never parked");
            thread::yield_now();
        }
        let shared = Arc::downgrade(&pool.shared);
        drop(pool);
        // A worker holds the shared part as long as it lives.
        assert!(shared.upgrade().is_none());
    }
}
