//! Saying what is wrong with a ledger, but not for every batch.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

/// An error and what caused it.
pub(super) fn with_source(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Says what is wrong, but not for every batch.
#[derive(Debug)]
pub(super) struct Trouble {
    lasts: bool,
    /// Whether this trouble was told of, and so its end is to be.
    spoke: bool,
    said: Option<Timestamp>,
    /// Dropped records that were told of.
    told: u64,
}

impl Trouble {
    /// How often the same trouble is worth a line, be it that it lasts or comes and goes.
    const AGAIN: Duration = Duration::from_secs(60);

    pub(super) fn none() -> Self {
        Trouble { lasts: false, spoke: false, said: None, told: 0 }
    }

    /// Trouble from the start, which somebody else has told of.
    pub(super) fn from_the_start(now: Timestamp) -> Self {
        Trouble { lasts: true, spoke: true, said: Some(now), told: 0 }
    }

    /// Records can't be written: says it at once, and again after a while. Whether it was said.
    pub(super) fn warn(
        &mut self,
        path: &Path,
        now: Timestamp,
        dropped: u64,
        error: &dyn Error,
    ) -> bool {
        self.lasts = true;
        if self.said.is_some_and(|said| now.duration_since(said).unsigned_abs() < Trouble::AGAIN) {
            return false;
        }
        self.spoke = true;
        self.said = Some(now);
        self.told = dropped;
        let error = with_source(error);
        tracing::warn!(
            "the ledger {} can't be written: {error}; {dropped} records dropped so far, calls go on",
            path.display()
        );
        true
    }

    /// Records are written: the end of a trouble is said as well. Whether it was.
    pub(super) fn over(&mut self, path: &Path, dropped: u64) -> bool {
        self.lasts = false;
        if !std::mem::take(&mut self.spoke) {
            return false;
        }
        self.told = dropped;
        tracing::info!(
            "the ledger {} is written again; {dropped} records dropped so far",
            path.display()
        );
        true
    }

    /// Records found the queue full, which is told of here and not on a call's way. Whether it was.
    pub(super) fn behind(&mut self, now: Timestamp, dropped: u64) -> bool {
        let soon =
            self.said.is_some_and(|said| now.duration_since(said).unsigned_abs() < Trouble::AGAIN);
        if self.lasts || soon || dropped <= self.told {
            return false;
        }
        self.said = Some(now);
        self.told = dropped;
        tracing::warn!("the ledger falls behind: {dropped} records dropped so far");
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_line_at_once_and_one_a_minute() {
        let (path, error) = (Path::new("l"), std::io::Error::other("no room"));
        let start: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let at = |seconds| start + jiff::SignedDuration::from_secs(seconds);
        let mut trouble = Trouble::none();
        assert!(!trouble.over(path, 0), "nothing was wrong");
        let said: Vec<i64> =
            (0..180).filter(|&s| trouble.warn(path, at(s), s as u64, &error)).collect();
        assert_eq!(said, [0, 60, 120]);
        assert!(trouble.over(path, 180) && !trouble.over(path, 180));
        // What was told of with the trouble is not told of once more.
        assert!(!trouble.behind(at(300), 180));
        assert!(trouble.behind(at(300), 181) && !trouble.behind(at(301), 190));
        assert!(trouble.behind(at(360), 190));
    }

    #[test]
    fn trouble_that_comes_and_goes_is_no_flood() {
        let (path, error) = (Path::new("l"), std::io::Error::other("no room"));
        let start: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let mut trouble = Trouble::none();
        let mut lines = 0;
        for quarter in 0..480 {
            let now = start + jiff::SignedDuration::from_millis(250 * quarter);
            lines += u32::from(trouble.warn(path, now, 1, &error));
            lines += u32::from(trouble.over(path, 1));
        }
        assert_eq!(lines, 4, "two minutes: said twice, and its end twice");
    }
}
