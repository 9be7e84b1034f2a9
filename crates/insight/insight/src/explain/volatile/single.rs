//! Values in one text that will be others in the next request, known by their shape and the words beside them.
//!
//! With one text there is nothing to compare, so a date or an id by itself says nothing: a contract has a date. Only
//! what its line calls the present (`the current time is`, `today`) or the caller's own (`session id`, `logged in as`)
//! is taken.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use tapri_ledger::MissReason;

use super::{SHAPES, random};

/// A value that is likely to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleeting {
    /// What kind: a time, a date, a UUID, an id, a name, a random value.
    pub reason: MissReason,
    /// In words: `looks like a time of day`.
    pub looks_like: &'static str,
    /// Its bytes in the text.
    pub bytes: Range<usize>,
}

#[expect(clippy::unwrap_used, reason = "constant patterns, compiled by a test")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// Words of the present before a time or date on its line.
static PRESENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)(?:\b(?:current(?:ly)?|right now|now|today(?:'s|’s)?|at the moment|it is|it's|as of|generated|rendered|local time|server time|system time|utc time)\b[^.!?;]{0,40}|^[\W_]*(?:date|time|datetime|timestamp|ts|now|today)\b["'`*]{0,2}\s?[:=]?\s?[\W_]{0,3})$"#,
    )
});

/// Words of the caller's own before an id.
static OWN_ID: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)\b(?:request|session|trace|correlation|conversation|span|thread|run|call|message|transaction|client|device|user|customer|account|tenant|nonce)[-_ ]?(?:id|uuid|key|identifier)?["'`*]{0,2}\s{0,2}(?:[:=#]|is|=>)?\s{0,2}["'`*(\[<#]{0,3}$"#,
    )
});

/// An id that only the words before it tell.
static NAMED_ID: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)\b(?:request|session|trace|correlation|conversation)[-_ ]?id["'`*]{0,2}\s{0,2}(?:[:=#]|is)\s{0,2}["'`*(\[<#]{0,3}([\w-]{4,64})"#,
    )
});

/// A value without meaning that only the words before it tell.
static NONCE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)\b(?:nonce|seed|salt|cache[-_ ]?buster|random|build)\b["'`*]{0,2}\s{0,2}[:=#]?\s{0,2}["'`*(\[<#]{0,3}([A-Za-z0-9+/=_-]{8,128})"#,
    )
});

/// Someone's name where a prompt says whom it is for.
static PERSON: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?m)(?:^[\W_]*(?i:user|user ?name|customer|customer ?name|client|account|member|name)["'`*]{0,2}[:=]\s{0,2}["'`*]{0,2}|(?i:\b(?:current user|logged[- ]in as|signed[- ]in as|you are (?:helping|assisting|talking to|speaking with)|the user's name|on behalf of|the user is(?: called| named)?)\b["'`*]{0,2}(?: is)?[:=]?\s{1,2}["'`*]{0,2}))(\p{Lu}[\w.'’-]+ \p{Lu}[\w.'’-]+|[a-z]+_[a-z]+_\d+)"#,
    )
});

/// Words before an e-mail address that is a caller's and no office's.
static OWN_ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)(?:\b(?:current user|logged[- ]in(?: as)?|signed[- ]in(?: as)?|on behalf of|the user)\b[^.!?;]{0,30}|^[\W_]*(?:user|customer|client|account|member|e-?mail)\b[^.!?;]{0,12})$",
    )
});

/// How much of the line before a value is looked at, in bytes.
const LEAD: usize = 96;

/// The values in a text that are likely to be others in the next request, in the text's order.
#[must_use]
pub fn fleeting(text: &str) -> Vec<Fleeting> {
    let mut found: Vec<Fleeting> = Vec::new();
    let mut add = |reason, looks_like, bytes: Range<usize>| {
        let taken = |own: &Fleeting| own.bytes.start < bytes.end && bytes.start < own.bytes.end;
        if !found.iter().any(taken) {
            found.push(Fleeting { reason, looks_like, bytes });
        }
    };
    for (shape, reason, looks_like) in SHAPES.iter() {
        for value in shape.find_iter(text) {
            let lead = lead(text, value.start());
            let own = match reason {
                MissReason::Uuid => OWN_ID.is_match(lead),
                MissReason::UserName => OWN_ADDRESS.is_match(lead),
                _ => PRESENT.is_match(lead),
            };
            if own {
                add(*reason, looks_like, value.range());
            }
        }
    }
    for value in NAMED_ID.captures_iter(text).filter_map(|found| found.get(1)) {
        if value.as_str().bytes().any(|byte| byte.is_ascii_digit()) {
            add(MissReason::RequestId, "looks like the id of a request or session", value.range());
        }
    }
    for value in PERSON.captures_iter(text).filter_map(|found| found.get(1)) {
        add(MissReason::UserName, "looks like the name of a person or account", value.range());
    }
    for value in NONCE.captures_iter(text).filter_map(|found| found.get(1)) {
        if let Some(looks_like) = random::shape(value.as_str()) {
            add(MissReason::RandomValue, looks_like, value.range());
        }
    }
    found.sort_by_key(|own| own.bytes.start);
    found
}

/// The line before a byte, no more than [`LEAD`] of it.
fn lead(text: &str, byte: usize) -> &str {
    let mut start = byte.saturating_sub(LEAD);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let lead = &text[start..byte];
    lead.rsplit('\n').next().unwrap_or(lead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<(MissReason, &str)> {
        fleeting(text).into_iter().map(|one| (one.reason, &text[one.bytes])).collect()
    }

    #[test]
    fn what_will_change_is_found() {
        use MissReason::*;
        let cases = [
            ("The current time is 2024-05-15 15:00:00 EST.", Date, "2024-05-15 15:00:00 EST"),
            ("Rules.\nToday is Monday, be kind.", Date, "Monday"),
            ("It is 10:42:07 now.", Time, "10:42:07"),
            ("Date: 2026-11-30\nRules", Date, "2026-11-30"),
            ("timestamp=1764495715 rest", Date, "1764495715"),
            ("Today's date: May 15, 2024", Date, "May 15, 2024"),
            (
                "session id: 3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab",
                Uuid,
                "3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab",
            ),
            ("Session ID: abc-1234", RequestId, "abc-1234"),
            ("User: Mia Li, gold member", UserName, "Mia Li"),
            ("You are helping Omar Rossi today.", UserName, "Omar Rossi"),
            ("user=mia_li_3668;", UserName, "mia_li_3668"),
            ("The user mia@example.org asks", UserName, "mia@example.org"),
            ("nonce: 9f86d081884c7d65", RandomValue, "9f86d081884c7d65"),
        ];
        for (text, reason, value) in cases {
            assert_eq!(seen(text), [(reason, value)], "{text}");
        }
    }

    #[test]
    fn what_stays_is_left() {
        for text in [
            "The contract of 15 May 2024 was signed at 10:42 by both.",
            "Lunch is served from 12:00 to 14:00 on Monday.",
            "Write to support@example.org or call 1764495715.",
            "The file 3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab holds the rules.",
            "User: What is the rule?\nAssistant: The rule is new.",
            "All reservations can be cancelled within 24 hours of booking.",
            "Times are in EST. For example 2024-05-15T15:00:00.",
            "Answer as the Airline Agent. Use New York for NYC.",
            "The deadline is 30 November 2026.",
            "sha256: 9f86d081884c7d659a2feaa0c55ad015",
        ] {
            assert_eq!(seen(text), [], "{text}");
        }
    }
}
