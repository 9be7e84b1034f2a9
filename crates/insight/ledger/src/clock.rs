//! The time, from a clock that tests move.

use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct SetClock(Mutex<Timestamp>);

impl SetClock {
    /// A clock that shows this.
    pub fn new(now: Timestamp) -> Self {
        SetClock(Mutex::new(now))
    }

    /// Moves it on. Beyond the end of time it stays there.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.checked_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
