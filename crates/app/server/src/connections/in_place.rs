//! A task that wakes itself goes on in place.
//!
//! hyper hands a request's body to its handler through a channel whose two ends are polled by the connection's one task:
//! each piece wakes the task that is running. tokio's scheduler takes such a wake for a wish to let others go first: the
//! task joins the queue's end, and a sleeping worker is woken to help. That worker takes the sockets over, so that the
//! upstream's answer wakes it and not the one that has the call at hand. Each of these wake-ups costs some 50
//! microseconds where cores sleep between calls. Here a task that was woken while it ran is polled again at once, a few
//! times at most, and the scheduler hears nothing of it.
//!
//! # Why no wake-up is lost
//!
//! The state is `IDLE`, `POLLING` or `WOKEN`, and changes by swaps alone. A waker swaps `WOKEN` in; whoever finds `IDLE`
//! owes the scheduler a wake and gives it. While a poll runs the state is `POLLING`, so that a wake in it is only noted,
//! and the swap from `POLLING` to `IDLE` at the poll's end fails because of it: the task is polled again. The scheduler's
//! own waker is put in place before the state leaves `IDLE` or `WOKEN`, so whoever finds `IDLE` later finds the newest.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

const IDLE: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;

/// Polls in one turn. A request with a body takes three; a task that never rests is others' turn after this many.
const MOST: usize = 8;

/// A future whose wakes during its own poll are answered by polling it again.
pub(crate) struct InPlace<F> {
    future: Pin<Box<F>>,
    signal: Arc<Signal>,
    waker: Waker,
}

#[derive(Debug)]
struct Signal {
    state: AtomicU8,
    /// The scheduler's.
    task: AtomicWaker,
}

impl<F: Future> InPlace<F> {
    pub(crate) fn new(future: F) -> Self {
        let signal = Arc::new(Signal { state: AtomicU8::new(IDLE), task: AtomicWaker::new() });
        let waker = Waker::from(Arc::clone(&signal));
        InPlace { future: Box::pin(future), signal, waker }
    }
}

impl<F: Future> Future for InPlace<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, scheduler: &mut Context<'_>) -> Poll<F::Output> {
        let InPlace { future, signal, waker } = self.get_mut();
        signal.task.register(scheduler.waker());
        for _ in 0..MOST {
            // Takes what was written before the wakes that it answers.
            signal.state.swap(POLLING, Ordering::AcqRel);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let rests =
                signal.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if rests.is_ok() {
                return Poll::Pending;
            }
        }
        // Still woken: a wake that comes until the next turn is the same one.
        scheduler.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.task.wake();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use super::*;

    /// Counts wakes, and wakes the thread that polls.
    struct Scheduler {
        wakes: AtomicUsize,
        thread: std::thread::Thread,
    }

    impl Wake for Scheduler {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
            self.thread.unpark();
        }
    }

    fn scheduler() -> (Arc<Scheduler>, Waker) {
        let thread = std::thread::current();
        let scheduler = Arc::new(Scheduler { wakes: AtomicUsize::new(0), thread });
        (Arc::clone(&scheduler), Waker::from(scheduler))
    }

    /// Wakes itself in each of its first polls, and ends with the number of all.
    fn restless(times: usize) -> impl Future<Output = usize> {
        let mut polls = 0;
        poll_fn(move |cx| {
            polls += 1;
            if polls > times {
                return Poll::Ready(polls);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn a_task_that_wakes_itself_is_polled_on_and_nobody_is_woken() {
        let (scheduler, waker) = scheduler();
        let mut task = InPlace::new(restless(MOST - 1));
        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Ready(MOST));
        assert_eq!(scheduler.wakes.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_task_that_never_rests_lets_others_go_first() {
        let (scheduler, waker) = scheduler();
        let mut cx = Context::from_waker(&waker);
        let mut task = InPlace::new(restless(MOST));
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        assert_eq!(scheduler.wakes.load(Ordering::SeqCst), 1);
        assert_eq!(Pin::new(&mut task).poll(&mut cx), Poll::Ready(MOST + 1));
    }

    #[test]
    fn a_wake_between_polls_reaches_the_newest_scheduler_once() {
        let ((old, old_waker), (new, new_waker)) = (scheduler(), scheduler());
        let kept: Mutex<Option<Waker>> = Mutex::new(None);
        let mut task = InPlace::new(poll_fn(|cx| {
            *kept.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        for waker in [&old_waker, &new_waker] {
            assert!(Pin::new(&mut task).poll(&mut Context::from_waker(waker)).is_pending());
        }
        let inner = kept.lock().unwrap().take().unwrap();
        inner.wake_by_ref();
        inner.wake();
        assert_eq!(old.wakes.load(Ordering::SeqCst), 0);
        assert_eq!(new.wakes.load(Ordering::SeqCst), 1);
    }

    /// Another thread hands things over one by one, each only when the one before was seen: a lost wake stops both.
    #[test]
    fn wakes_from_another_thread_are_not_lost() {
        const THINGS: usize = 1000;
        let (_, waker) = scheduler();
        let (sent, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let kept: Mutex<Option<Waker>> = Mutex::new(None);
        let end = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for thing in 1..=THINGS {
                    while seen.load(Ordering::SeqCst) + 1 < thing && Instant::now() < end {
                        std::thread::yield_now();
                    }
                    sent.store(thing, Ordering::SeqCst);
                    let waker = kept.lock().unwrap().clone();
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            });
            let mut task = InPlace::new(poll_fn(|cx| {
                *kept.lock().unwrap() = Some(cx.waker().clone());
                let now = sent.load(Ordering::SeqCst);
                seen.store(now, Ordering::SeqCst);
                if now == THINGS { Poll::Ready(()) } else { Poll::Pending }
            }));
            while Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending() {
                std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
                assert!(Instant::now() < end, "a wake was lost at {}", seen.load(Ordering::SeqCst));
            }
        });
        assert_eq!(seen.load(Ordering::SeqCst), THINGS);
    }
}
