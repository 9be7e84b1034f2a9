//! One line a minute, however often the disk fails.

use std::fmt;
use std::time::{Duration, Instant};

/// How long a warning stands for those that follow.
const PAUSE: Duration = Duration::from_secs(60);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    last: Option<Instant>,
    unsaid: u64,
}

impl Warnings {
    /// Says it, unless something was said less than a minute ago; then it is counted for the next line.
    pub(super) fn say(&mut self, now: Instant, what: &dyn fmt::Display) {
        let Some(unsaid) = self.due(now) else { return };
        match unsaid {
            0 => tracing::warn!("{what}"),
            more => tracing::warn!("{what} ({more} like it since the last line)"),
        }
    }

    fn due(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            self.unsaid += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_tells_how_many_there_were() {
        let (mut warnings, start) = (Warnings::default(), Instant::now());
        let said: Vec<_> =
            [0, 1, 59, 60, 61].map(|s| warnings.due(start + Duration::from_secs(s))).to_vec();
        assert_eq!(said, [Some(0), None, None, Some(2), None]);
    }
}
