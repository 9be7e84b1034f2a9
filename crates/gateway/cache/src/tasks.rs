//! Tasks that live apart from any client, counted, so that the end can wait for them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Tasks under way. Cheap to clone; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    count: Mutex<usize>,
    none: Condvar,
}

/// A task under way, until it is dropped.
#[derive(Debug)]
pub struct Task(Arc<Inner>);

impl Tasks {
    /// One more, however many there are.
    pub fn begin(&self) -> Task {
        *self.inner.count() += 1;
        Task(Arc::clone(&self.inner))
    }

    /// One more, unless there are so many already.
    pub fn begin_below(&self, most: usize) -> Option<Task> {
        let mut count = self.inner.count();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Task(Arc::clone(&self.inner)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        *self.inner.count()
    }

    /// Waits until all have ended, but no longer than the limit. Blocks.
    pub fn wait(&self, limit: Duration) {
        let count = self.inner.count();
        let waited = self.inner.none.wait_timeout_while(count, limit, |count| *count > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Inner {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut count = self.0.count();
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_all_and_no_more_than_the_most_begin() {
        let tasks = Tasks::default();
        let first = tasks.begin();
        let second = tasks.begin_below(2).unwrap();
        assert!(tasks.begin_below(2).is_none());
        assert_eq!(tasks.count(), 2);
        let waiting = std::thread::spawn({
            let tasks = tasks.clone();
            move || tasks.wait(Duration::from_secs(60))
        });
        drop((first, second));
        waiting.join().unwrap();
        assert_eq!(tasks.count(), 0);
        // Some that never end keep nobody longer than the limit.
        let _stuck = tasks.begin();
        tasks.wait(Duration::ZERO);
    }
}
