//! Sizes and durations, as people write them.

use std::num::NonZeroUsize;
use std::time::Duration;

use tapri_insight::numbers;

/// Bytes: `2GiB`, `512M`, `1073741824`. K, M, G and T count in 1024s, with or without `iB` or `B`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => {
            return Err(format!("'{unit}' is no unit of memory; write for example 512MiB or 2GiB"));
        }
    };
    let number: f64 = number.parse().map_err(|_| "write for example 512MiB or 2GiB".to_owned())?;
    let bytes = number * (1u64 << shift) as f64;
    if !(1.0..=u64::MAX as f64 / 2.0).contains(&bytes) {
        return Err("it must be at least one byte, and fit in memory".to_owned());
    }
    Ok(bytes as u64)
}

/// A duration: `90s`, `10m`, `1h`, `500ms`. A unit is required.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("write a number and a unit: 500ms, 90s, 10m, 1h or 1d".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "write for example 90s or 10m".to_owned())?;
    let duration =
        Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("it must be longer than nothing".to_owned());
    }
    Ok(duration)
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Bytes for a person: `253.1 MB`.
pub(crate) fn show_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Memory for a person, in the units that it is set in: `2.00 GiB`.
pub(crate) fn show_memory(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 { format!("{mib:.1} MiB") } else { format!("{:.2} GiB", mib / 1024.0) }
}

/// A count of at least one.
pub(crate) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "it must be a whole number, and at least 1".to_owned())
}

/// A count for a person: `30,745`.
pub(crate) fn show_count(count: usize) -> String {
    numbers::grouped(count as u64)
}

/// A duration for a person: `29.1 s`, `0.112 s`.
pub(crate) fn show_seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 { format!("{seconds:.3} s") } else { format!("{seconds:.1} s") }
}

/// A share of a whole for a person: `95.1 %`. Rounded down: only the whole is 100 %.
pub(crate) fn show_share(part: usize, whole: usize) -> String {
    let tenths = (part * 1000).checked_div(whole).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("512m"), Ok(512 << 20));
        assert_eq!(bytes("1.5 KiB"), Ok(1536));
        assert_eq!(bytes("4096"), Ok(4096));
        for wrong in ["", "-1", "2 bananas", "0", "1e3", "99999999T", "1.2.3"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn time() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "10", "-3s", "0s", "5 years", "1e9s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn for_people() {
        assert_eq!(show_count(30_745), "30,745");
        assert_eq!(show_count(999), "999");
        assert_eq!(show_count(1_000_000), "1,000,000");
        assert_eq!(show_bytes(253_113_024), "253.1 MB");
        assert_eq!(show_memory(2 << 30), "2.00 GiB");
        assert_eq!(show_memory(5 << 19), "2.5 MiB");
        assert_eq!(show_share(0, 0), "0.0 %");
        assert_eq!(show_share(1, 3), "33.3 %");
        assert_eq!(show_share(27_440, 27_452), "99.9 %");
        assert_eq!(show_share(3, 3), "100.0 %");
        assert_eq!(show_seconds(Duration::from_millis(112)), "0.112 s");
    }
}
