//! What a changed value looks like: a time, an id, a name.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use tapri_ledger::MissReason;

mod random;
mod single;
mod words;

pub use single::{Fleeting, fleeting};

/// A value around a difference, recognised in both texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Volatile {
    pub(super) reason: MissReason,
    /// `looks like a time of day`.
    pub(super) looks_like: &'static str,
    /// Bytes of the old text.
    pub(super) old: Range<usize>,
    /// Bytes of the new text.
    pub(super) new: Range<usize>,
}

/// How far a value may reach from a difference, in bytes.
const REACH: usize = 256;

const MONTH: &str = r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)";
const WEEKDAY: &str = r"(?:Mon(?:day)?|Tue(?:s(?:day)?)?|Wed(?:nesday)?|Thu(?:rs(?:day)?)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)";
const CLOCK: &str =
    r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b))?";
const ZONE: &str = r"(?: ?(?:Z\b|UTC|GMT|CES?T|[ECMP][SD]T|IST|BST|JST|[+-]\d{2}:?\d{2}))?";

/// Shapes that say by themselves what they are, most telling first.
static SHAPES: LazyLock<Vec<(Regex, MissReason, &'static str)>> = LazyLock::new(|| {
    let day = format!(
        r"(?:{WEEKDAY},? )?(?:\d{{4}}[-/]\d{{2}}[-/]\d{{2}}|\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}|\d{{1,2}}(?:st|nd|rd|th)?[ -]{MONTH}\.?,?[ -]\d{{4}}|{MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}})"
    );
    let shapes = [
        (
            r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b".to_owned(),
            MissReason::Uuid,
            "looks like a UUID",
        ),
        (
            r"(?i)\b[0-9a-f]{12}[1-8][0-9a-f]{3}[89ab][0-9a-f]{15}\b".to_owned(),
            MissReason::Uuid,
            "looks like a UUID without hyphens",
        ),
        (r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b".to_owned(), MissReason::Uuid, "looks like a ULID"),
        (
            format!(r"\b{day}(?:T|,? (?:at )?){CLOCK}{ZONE}"),
            MissReason::Date,
            "looks like a timestamp",
        ),
        (format!(r"\b{day}\b"), MissReason::Date, "looks like a date"),
        (
            format!(r"\b(?:\d{{1,2}}(?:st|nd|rd|th)? {MONTH}|{MONTH} \d{{1,2}}(?:st|nd|rd|th)?)\b"),
            MissReason::Date,
            "looks like a day of the year",
        ),
        (format!(r"\b{CLOCK}{ZONE}"), MissReason::Time, "looks like a time of day"),
        (
            r"\b\d{1,2} ?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b)".to_owned(),
            MissReason::Time,
            "looks like a time of day",
        ),
        (format!(r"\b{WEEKDAY}\b"), MissReason::Date, "looks like a day of the week"),
        (
            r"\b1\d{9}(?:\.\d{1,9})?\b".to_owned(),
            MissReason::Date,
            "looks like a Unix time in seconds",
        ),
        (r"\b1\d{12}\b".to_owned(), MissReason::Date, "looks like a Unix time in milliseconds"),
        (r"\b1\d{15}\b".to_owned(), MissReason::Date, "looks like a Unix time in microseconds"),
        (
            r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b".to_owned(),
            MissReason::UserName,
            "looks like an e-mail address",
        ),
    ];
    shapes
        .into_iter()
        .filter_map(|(pattern, reason, words)| Some((Regex::new(&pattern).ok()?, reason, words)))
        .collect()
});

/// Recognises the value around byte `at`, up to which both texts are equal.
pub(super) fn recognise(old: &str, new: &str, at: usize) -> Option<Volatile> {
    let (before, after) = (Window::around(old, at), Window::around(new, at));
    for (shape, reason, looks_like) in SHAPES.iter() {
        if let (Some(a), Some(b)) = (before.cover(shape), after.cover(shape))
            && a.start == b.start
            && old[a.clone()] != new[b.clone()]
            && plausible(looks_like, &old[a.clone()], &new[b.clone()])
        {
            return Some(Volatile { reason: *reason, looks_like, old: a, new: b });
        }
    }
    words::recognise(old, new, at).or_else(|| random::recognise(old, new, at))
}

/// A number is only a Unix time where both are near each other: within some three years.
fn plausible(looks_like: &str, old: &str, new: &str) -> bool {
    let unit = match looks_like {
        "looks like a Unix time in seconds" => 1.0,
        "looks like a Unix time in milliseconds" => 1e3,
        "looks like a Unix time in microseconds" => 1e6,
        _ => return true,
    };
    match (old.parse::<f64>(), new.parse::<f64>()) {
        (Ok(old), Ok(new)) => (old - new).abs() < 1e8 * unit,
        _ => false,
    }
}

/// The surroundings of a difference: nothing further away is looked at.
pub(super) struct Window<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    at: usize,
}

impl<'a> Window<'a> {
    pub(super) fn around(text: &'a str, at: usize) -> Self {
        let (mut start, mut end) = (at.saturating_sub(REACH), (at + REACH).min(text.len()));
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        Window { text, start, end, at }
    }

    /// The match that the difference lies in, or touches at its end.
    fn cover(&self, shape: &Regex) -> Option<Range<usize>> {
        shape
            .find_iter(&self.text[self.start..self.end])
            .map(|found| found.start() + self.start..found.end() + self.start)
            .find(|range| range.start <= self.at && self.at <= range.end)
    }

    /// The run of characters around the difference that `inner` takes, from byte to byte.
    pub(super) fn run(&self, inner: impl Fn(char) -> bool) -> Range<usize> {
        let start = self.text[self.start..self.at]
            .char_indices()
            .rev()
            .take_while(|(_, c)| inner(*c))
            .last()
            .map_or(self.at, |(index, _)| self.start + index);
        let end = self.text[self.at..self.end]
            .char_indices()
            .find(|(_, c)| !inner(*c))
            .map_or(self.end, |(index, _)| self.at + index);
        start..end
    }

    /// The text of the line before a byte, no further back than the window.
    pub(super) fn lead(&self, byte: usize) -> &'a str {
        let lead = &self.text[self.start..byte];
        lead.rsplit('\n').next().unwrap_or(lead)
    }
}

#[cfg(test)]
mod tests;
