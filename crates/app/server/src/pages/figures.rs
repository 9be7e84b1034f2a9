//! More values as pages show them: shares, sizes of memory, spans of time; and counts that may be unknown.

use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;
use rust_decimal::Decimal;

use super::show::{Amount, Escaped, Html, Number, Seconds};
use super::texts::{ENGLISH, fill};

/// A share, from 0 to 1. It is cut, not rounded: only all is 100 percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Percent(pub(crate) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = (self.0.clamp(0.0, 1.0) * 1000.0).floor() / 1000.0;
        let shown = share * 100.0;
        write!(f, "<span class=\"number\" data-percent=\"{share:.3}\">{shown:.1}%</span>")
    }
}

/// Bytes, in the largest binary unit that leaves a number above one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, "B");
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let digits = if value < 10.0 && unit != "B" { 1 } else { 0 };
        write!(f, "<span class=\"number\">{value:.digits$} {unit}</span>")
    }
}

impl HtmlSafe for Percent {}
impl HtmlSafe for Bytes {}

/// A count, or a dash where it isn't known.
pub(crate) fn count(count: Option<u64>) -> Html {
    known(count.map(Number))
}

/// A time, or a dash.
pub(crate) fn seconds(time: Option<Duration>) -> Html {
    known(time.map(|time| Seconds(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))))
}

/// A share, or a dash.
pub(crate) fn percent(share: Option<f64>) -> Html {
    known(share.map(Percent))
}

/// A value, or a dash that is read as "unknown".
pub(crate) fn known(value: Option<impl fmt::Display>) -> Html {
    Html(value.map_or_else(
        || format!("<span class=\"quiet\" title=\"{0}\">–<span class=\"visually-hidden\">{0}</span></span>", ENGLISH.operator.unknown),
        |value| value.to_string(),
    ))
}

/// Sums of money, by currency.
pub(crate) fn money<'a>(sums: impl Iterator<Item = (&'a str, Decimal)>) -> Html {
    let sums: Vec<String> = sums
        .map(|(currency, amount)| {
            // More digits than the browser writes are of no use to anyone.
            let amount = amount.round_dp(6).to_string();
            Amount { amount: &amount, currency }.to_string()
        })
        .collect();
    known((!sums.is_empty()).then(|| sums.join(" + ")))
}

/// A time in one unit: its words, and how many.
fn unit(time: Duration) -> (&'static str, u64) {
    let t = &ENGLISH.operator;
    let seconds = time.as_secs();
    match seconds {
        0..120 => (t.seconds, seconds),
        120..7200 => (t.minutes, seconds / 60),
        7200..172_800 => (t.hours, seconds / 3600),
        _ => (t.days, seconds / 86_400),
    }
}

/// How long ago, or for how long, in one unit: `5 min`.
pub(crate) fn span(time: Duration) -> Html {
    let (text, count) = unit(time);
    Html(fill(text, &[&Number(count)]))
}

/// The same for titles, which take no elements.
pub(crate) fn plain_span(time: Duration) -> String {
    let (text, count) = unit(time);
    fill(text, &[&count])
}

/// A part of a whole, from 0 to 1; `None` of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The first digits of a fingerprint.
pub(crate) fn print(print: u64) -> String {
    format!("{:08x}", print >> 32)
}

/// A suggestion as a sentence: they are written to follow a colon.
pub(crate) fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if words.ends_with(['.', '!', '?']) || words.is_empty() { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// Text as HTML, for texts that are put together.
pub(crate) fn escaped(text: &str) -> Html {
    Html(Escaped(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_cut_and_sizes_have_units() {
        assert!(Percent(0.99999).to_string().ends_with(">99.9%</span>"));
        assert!(Percent(1.0).to_string().ends_with(">100.0%</span>"));
        assert!(Percent(f64::NAN).to_string().contains("data-percent"));
        for (bytes, shown) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")]
        {
            assert!(Bytes(bytes).to_string().contains(&format!(">{shown}<")), "{bytes}");
        }
    }

    #[test]
    fn unknown_is_said_and_not_only_drawn() {
        assert!(count(None).0.contains("unknown"));
        assert!(count(Some(7)).0.contains(">7<"));
        assert!(span(Duration::from_secs(7300)).0.contains(">2<"));
        assert_eq!(escaped("<b>").0, "&lt;b&gt;");
        assert_eq!(sentence("move it"), "Move it.");
        assert_eq!((sentence("Done."), sentence("")), ("Done.".to_owned(), String::new()));
    }
}
