//! Calls as lines of the table.

use askama::Template;
use tapri_ledger::{CacheOutcome, CallRecord, Ending};

use crate::pages::chart::{Fill, strip};
use crate::pages::figures::{Percent, count, known, seconds};
use crate::pages::show::{Html, Moment};
use crate::pages::texts::{CallsTexts, ENGLISH, fill};

/// Some lines.
#[derive(Template)]
#[template(path = "calls/rows.html")]
pub(super) struct Rows {
    t: &'static CallsTexts,
    rows: Vec<Row>,
    /// Whether the calls are of several tenants.
    pub(super) several: bool,
    /// Whether they came while the page was open.
    fresh: bool,
}

struct Row {
    path: String,
    short: String,
    at: Html,
    tenant: String,
    route: String,
    model: String,
    prompt: Html,
    /// The share from the cache, drawn; absent where it isn't known.
    bar: Option<Html>,
    cached: Html,
    ttft: Html,
    why: String,
    status: Status,
}

/// What came of a call: a sign beside the words, so that it can be told at a glance without colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
    pub(super) words: String,
}

impl Rows {
    pub(super) fn new(
        records: impl Iterator<Item = CallRecord>,
        several: bool,
        fresh: bool,
    ) -> Self {
        Rows { t: &ENGLISH.calls, rows: records.map(row).collect(), several, fresh }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

fn row(record: CallRecord) -> Row {
    let t = &ENGLISH.calls;
    let share = record.cached_share().filter(|_| !record.is_stored_answer());
    let bar = share.map(|share| {
        let label = fill(t.bar_label, &[&format!("{:.0}", (share * 100.0).floor())]);
        let parts =
            [(Fill::Cached, share, String::new()), (Fill::Fresh, 1.0 - share, String::new())];
        strip("bar small-bar", &label, &parts, 0, None)
    });
    let cached = match record.is_stored_answer() {
        true => Html(t.stored.to_owned()),
        false => known(share.map(Percent)),
    };
    Row {
        path: super::address(&record.id),
        short: super::short(&record.id),
        at: Html(Moment(record.at).to_string()),
        prompt: count(record.tokens.prompt),
        ttft: seconds(record.ttft),
        why: why(&record),
        status: status(&record),
        tenant: record.tenant,
        route: record.route,
        model: record.model,
        bar,
        cached,
    }
}

/// Why it reused no more, in a few words.
fn why(record: &CallRecord) -> String {
    let explained = record.explanation.as_ref().map(|it| it.reason.describe());
    explained.map_or_else(String::new, |words| words.trim_end_matches('.').to_owned())
}

/// What came of a call.
pub(super) fn status(record: &CallRecord) -> Status {
    let t = &ENGLISH.calls;
    let words = |list: &[(&str, &str)], name: &str| {
        list.iter().find(|(value, _)| *value == name).map_or(name, |(_, words)| words).to_owned()
    };
    let ending = |class, sign| {
        let words = words(&t.endings, record.ending.word());
        let words = match &record.ending {
            Ending::Error(code) => format!("{words}: {code}"),
            _ => words,
        };
        Status { class, sign, words }
    };
    match (&record.ending, record.outcome()) {
        (Ending::Error(_), _) => ending("bad", "✕"),
        (Ending::Abort, _) => ending("warn", "▽"),
        (_, None) => ending("plain", "·"),
        (_, Some(outcome)) => {
            let (class, sign) = match outcome {
                CacheOutcome::Hit | CacheOutcome::Collapsed => ("good", "●"),
                CacheOutcome::Partial => ("some", "◐"),
                CacheOutcome::Miss => ("miss", "○"),
                CacheOutcome::Bypass => ("plain", "–"),
            };
            Status { class, sign, words: words(&t.outcomes, outcome.as_str()) }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use tapri_ledger::CacheResult;

    use super::*;

    #[test]
    fn names_that_clients_send_are_text() {
        let mut record = CallRecord::new("<script>alert(1)</script>", jiff::Timestamp::UNIX_EPOCH);
        record.model = "<img src=x onerror=alert(1)>".to_owned();
        record.tenant = "\"><b>".to_owned();
        record.ending = Ending::Error("<i>".to_owned());
        record.tokens.prompt = Some(100);
        record.tokens.cached = Some(64);
        let html = Rows::new([record].into_iter(), true, false).render().unwrap();
        for tag in ["<script", "<img", "<b>", "<i>"] {
            assert!(!html.contains(tag), "{html}");
        }
        assert!(html.contains("%3Cscript%3E") && html.contains("data-percent=\"0.640\""));
    }

    #[test]
    fn a_stored_answer_has_no_share_of_its_prompt() {
        let mut record = CallRecord::new("a", jiff::Timestamp::UNIX_EPOCH);
        record.tokens.prompt = Some(100);
        record.exact = Some(CacheResult { outcome: CacheOutcome::Hit, reason: None });
        assert_eq!(status(&record).class, "good");
        let html = Rows::new([record].into_iter(), false, false).render().unwrap();
        assert!(html.contains(ENGLISH.calls.stored) && !html.contains("small-bar"));
    }
}
