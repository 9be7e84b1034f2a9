//! Times, zones and shares, as people write them after `tapri report`.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::quantity;

/// Where a period begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// At an instant.
    At(Timestamp),
    /// At a time of the zone in use.
    Civil(DateTime),
}

impl Since {
    pub(crate) fn start(&self, now: Timestamp, zone: &TimeZone) -> Timestamp {
        match self {
            Since::Ago(ago) => SignedDuration::try_from(*ago)
                .ok()
                .and_then(|ago| now.checked_sub(ago).ok())
                .unwrap_or(Timestamp::MIN),
            Since::At(at) => *at,
            Since::Civil(civil) => zone.to_timestamp(*civil).unwrap_or(Timestamp::MIN),
        }
    }
}

/// `24h`, `7d`, `2026-11-30`, `2026-11-30T10:42:07Z`.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse() {
        return Ok(Since::At(at));
    }
    if let Ok(date) = text.parse::<Date>()
        && !text.contains(['T', ':', ' '])
    {
        return Ok(Since::Civil(date.into()));
    }
    if let Ok(civil) = text.parse() {
        return Ok(Since::Civil(civil));
    }
    quantity::duration(text)
        .map(Since::Ago)
        .map_err(|_| "write how long ago (24h, 7d) or a date (2026-11-30)".to_owned())
}

/// A share in [0, 1]: `0.5` or `50%`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let wrong = || "write a share between 0 and 1, for example 0.5 or 50%".to_owned();
    let (number, unit) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map_err(|_| wrong())? / unit;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(wrong()) }
}

/// How many of the last calls.
pub(crate) fn last(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1_000_000) => Ok(count),
        _ => Err("it must be a whole number from 1 to 1,000,000".to_owned()),
    }
}

/// A name of the time zone database: `Asia/Kolkata`.
pub(crate) fn zone(text: &str) -> Result<TimeZone, String> {
    TimeZone::get(text).map_err(|_| {
        "it is no name of a time zone; write for example UTC or Asia/Kolkata".to_owned()
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn periods() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let india = TimeZone::get("Asia/Kolkata").unwrap();
        let start = |text: &str| since(text).unwrap().start(now, &india).to_string();
        assert_eq!(start("24h"), "2026-11-29T12:00:00Z");
        assert_eq!(start("7d"), "2026-11-23T12:00:00Z");
        assert_eq!(start("2026-11-30"), "2026-11-29T18:30:00Z");
        assert_eq!(start("2026-11-30T10:00"), "2026-11-30T04:30:00Z");
        assert_eq!(start("2026-11-30T10:00:00Z"), "2026-11-30T10:00:00Z");
        for wrong in ["", "yesterday", "24", "2026-13-30"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares() {
        assert_eq!((share("0.5"), share("50%"), share("0")), (Ok(0.5), Ok(0.5), Ok(0.0)));
        for wrong in ["50", "-1", "101%", "", "NaN", "half"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
