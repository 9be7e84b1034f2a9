//! Times, as logs spell them.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::sketch::Sketch;

/// Names of the time a call began, at the top of a line.
const START: [&str; 4] = ["startTime", "start_time", "request_time", "started_at"];
/// Names of the time a line was written.
const WRITTEN: [&str; 10] = [
    "timestamp",
    "@timestamp",
    "time",
    "ts",
    "at",
    "created_at",
    "datetime",
    "date",
    "created",
    "createTime",
];
const END: [&str; 3] = ["endTime", "end_time", "ended_at"];
const FIRST_TOKEN: [&str; 2] = ["completionStartTime", "completion_start_time"];
/// Where else a time may be.
const WITHIN: [&[&str]; 4] = [&["response"], &["response", "body"], &["message"], &["metadata"]];

/// When the call began, where the line says so.
pub(super) fn start(line: &Sketch) -> Option<Timestamp> {
    named(line, &START)
}

/// When the line was written.
pub(super) fn written(line: &Sketch) -> Option<Timestamp> {
    named(line, &WRITTEN).or_else(|| {
        WITHIN.iter().find_map(|place| line.at(place).and_then(|inner| named(inner, &WRITTEN)))
    })
}

pub(super) fn end(line: &Sketch) -> Option<Timestamp> {
    named(line, &END)
}

pub(super) fn first_token(line: &Sketch) -> Option<Timestamp> {
    named(line, &FIRST_TOKEN)
}

/// From one time to a later one.
pub(super) fn since(start: Timestamp, end: Timestamp) -> Option<Duration> {
    let passed = end.duration_since(start);
    (passed >= SignedDuration::ZERO).then(|| passed.unsigned_abs())
}

fn named(line: &Sketch, names: &[&str]) -> Option<Timestamp> {
    names.iter().find_map(|name| time(line.get(name)?))
}

/// A time: seconds, milliseconds, microseconds or nanoseconds since 1970, RFC 3339 with or without a zone (then it
/// is UTC), RFC 2822.
fn time(value: &Sketch) -> Option<Timestamp> {
    match value {
        Sketch::Whole(_) | Sketch::Number(_) => epoch(value.as_number()?),
        Sketch::Text(text) => {
            let text = text.trim();
            text.parse::<Timestamp>()
                .ok()
                .or_else(|| text.parse::<f64>().ok().and_then(epoch))
                .or_else(|| {
                    let civil: DateTime = text.parse().ok()?;
                    TimeZone::UTC.to_timestamp(civil).ok()
                })
                .or_else(|| rfc2822::parse(text).ok().map(|zoned| zoned.timestamp()))
        }
        _ => None,
    }
}

/// The unit follows from the size: seconds reach this century at 9.5e8 and leave the next at 7.3e9.
fn epoch(number: f64) -> Option<Timestamp> {
    let unit = match number {
        n if (1e8..1e11).contains(&n) => 1.0,
        n if (1e11..1e14).contains(&n) => 1e3,
        n if (1e14..1e17).contains(&n) => 1e6,
        n if (1e17..1e20).contains(&n) => 1e9,
        _ => return None,
    };
    // Microseconds are as fine as a double is at this size.
    Timestamp::from_microsecond((number / unit * 1e6).round() as i64).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_time_in_many_spellings() {
        let expected: Timestamp = "2026-11-30T10:42:07Z".parse().unwrap();
        for spelled in [
            "1796035327",
            "1796035327.0",
            "1796035327000",
            "1796035327000000",
            "1796035327000000000",
            "\"1796035327\"",
            "\"2026-11-30T10:42:07Z\"",
            "\"2026-11-30T16:12:07+05:30\"",
            "\"2026-11-30 10:42:07\"",
            "\"2026-11-30T10:42:07.000000\"",
            "\"2026-11-30 10:42:07.000000+00:00\"",
            "\"Mon, 30 Nov 2026 10:42:07 GMT\"",
        ] {
            let value: Sketch = serde_json::from_str(spelled).unwrap();
            assert_eq!(time(&value), Some(expected), "{spelled}");
        }
        for none in ["0", "42", "-5", "\"yesterday\"", "1e300", "\"\"", "true", "{}"] {
            let value: Sketch = serde_json::from_str(none).unwrap();
            assert_eq!(time(&value), None, "{none}");
        }
    }
}
