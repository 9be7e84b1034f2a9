//! Days, months, times of day, and periods.

use super::content::is_misspelling;
use super::{counted, difference, unmatched};
use crate::semantic::question::Question;

const DATES: [&str; 52] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "today",
    "tomorrow",
    "yesterday",
    "tonight",
    "morning",
    "afternoon",
    "evening",
    "night",
    "noon",
    "midday",
    "midnight",
    "am",
    "pm",
    "weekend",
    "weekday",
    "spring",
    "summer",
    "autumn",
    "winter",
    "christmas",
    "easter",
    "day",
    "week",
    "fortnight",
    "month",
    "quarter",
    "year",
    "hour",
    "minute",
    "daily",
    "weekly",
    "monthly",
    "annually",
    "yearly",
];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (a, b) = (dates(a, b), dates(b, a));
    difference(&counted(a.iter().map(String::as_str)), &counted(b.iter().map(String::as_str)))
}

/// The dates of a question, a misspelt one as the other spells it.
fn dates(question: &Question, other: &Question) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (unlike, candidates) = unmatched(question, other);
    for term in unlike {
        let meant = candidates.iter().find(|c| is_misspelling(term, c)).map(|c| singular(&c.text));
        found.extend(meant.filter(|text| DATES.contains(text)).map(str::to_owned));
    }
    for (at, word) in question.words.iter().enumerate() {
        let text = singular(&word.text);
        let after_number =
            at > 0 && question.words[at - 1].text.ends_with(|c: char| c.is_ascii_digit());
        let told = match text {
            // `I am` is no time of day.
            "am" => after_number,
            // A month by its capital.
            "may" => word.capital,
            _ => DATES.contains(&text),
        };
        if told {
            found.push(text.to_owned());
        }
    }
    found
}

fn singular(text: &str) -> &str {
    text.strip_suffix('s').filter(|t| DATES.contains(t)).unwrap_or(text)
}
