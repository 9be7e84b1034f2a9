//! What an audit of a server found, as JSON and as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use tapri_insight::audit::Reported;

use super::LevelArg;
use super::show::{Times, p_value, seconds, share};
use crate::pull::lines;

/// All that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    schema: &'static str,
    url: String,
    model: String,
    seed: u64,
    threshold: f64,
    pub(super) tests: Vec<Tested>,
    /// Between users: what a user shares with itself is a cache.
    pub(super) sharing: bool,
    /// Whether the victim's own prompts came back faster; absent where that wasn't tested.
    caching: Option<bool>,
    /// In words.
    verdict: String,
}

/// One test.
#[derive(Debug, Serialize)]
pub(super) struct Tested {
    pub(super) level: &'static str,
    pub(super) victim_requests: usize,
    pub(super) prompt_letters: usize,
    pub(super) shared_letters: usize,
    pub(super) times: Times,
    /// By the times that the server named itself.
    pub(super) server_times: Option<Times>,
    pub(super) reported: ReportedTokens,
    /// Tokens of a prompt with its template, as the server counts them.
    pub(super) prompt_tokens: Option<u64>,
    /// Timed requests that were answered only when asked again.
    pub(super) asked_again: usize,
    pub(super) found: bool,
}

/// What the server said about cached tokens.
#[derive(Debug, Serialize)]
pub(super) struct ReportedTokens {
    hits: usize,
    misses: usize,
    hits_cached: f64,
    misses_cached: f64,
    found: bool,
}

impl From<Reported> for ReportedTokens {
    fn from(reported: Reported) -> Self {
        ReportedTokens {
            hits: reported.hits,
            misses: reported.misses,
            hits_cached: reported.hits_cached,
            misses_cached: reported.misses_cached,
            found: reported.found(),
        }
    }
}

impl Tested {
    /// By what sharing was found.
    fn by(&self) -> String {
        let mut by = Vec::new();
        if self.times.found {
            by.push("time");
        }
        if self.server_times.as_ref().is_some_and(|times| times.found) {
            by.push("the server's own time");
        }
        if self.reported.found {
            by.push("reported cached tokens");
        }
        by.join(" and ")
    }
}

impl Findings {
    pub(super) fn new(url: &str, model: &str, seed: u64, threshold: f64) -> Self {
        Findings {
            schema: "tapri.audit/1",
            url: url.to_owned(),
            model: model.to_owned(),
            seed,
            threshold,
            tests: Vec::new(),
            sharing: false,
            caching: None,
            verdict: String::new(),
        }
    }

    /// Puts what was found at these levels into words.
    pub(super) fn conclude(&mut self, levels: impl Iterator<Item = LevelArg>) {
        let levels: Vec<LevelArg> = levels.collect();
        self.caching = levels
            .contains(&LevelArg::User)
            .then(|| self.tests.iter().any(|test| test.level == "same user" && test.found));
        let widest = self.tests.iter().rfind(|test| test.level != "same user" && test.found);
        self.verdict = match (widest, self.tests.last()) {
            (Some(test), _) => format!(
                "sharing found between {}, by {}",
                between(test.level),
                test.by()
            ),
            (None, _) if self.caching == Some(false) => {
                "no sharing found, and no caching either: even the same user's own prompts don't come back faster. \
                 What can't be seen here can't be judged; longer prompts or more samples see more"
                    .to_owned()
            }
            (None, Some(test)) if test.level == "same user" => format!(
                "a user's own prompts come back faster (by {}), as a cache should have it; nobody else was tested",
                test.by()
            ),
            (None, Some(test)) => {
                let seen = if self.caching.is_some() {
                    "the same user's own prompts do come back faster, so the test would have seen it"
                } else {
                    "whether anything is cached at all was not tested (--level user,strangers does)"
                };
                format!("no sharing found between {}; {seen}", between(test.level))
            }
            (None, None) => "nothing was tested".to_owned(),
        };
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header([
            "between", "victim", "shared", "samples", "hit", "miss", "D+", "p", "AP", "below",
            "cached", "found",
        ]);
        for test in &self.tests {
            self.row(&mut table, test, &test.times, test.level);
            if let Some(times) = &test.server_times {
                self.row(&mut table, test, times, "  by its own clock");
            }
        }
        for column in 1..11 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{} ({}), seed {}\n\n{}\n",
            self.url,
            self.model,
            self.seed,
            lines(&table)
        );
        let _ = writeln!(text, "verdict: {}", self.verdict);
        let _ = writeln!(
            text,
            "found by time: p below {:e}; AP: average precision of telling hits from misses; below: hits faster than \
             every miss; cached: hits reported as cached",
            self.threshold
        );
        let asked_again: usize = self.tests.iter().map(|test| test.asked_again).sum();
        if asked_again > 0 {
            let _ = writeln!(
                text,
                "note: timed requests that were answered only when asked again: {asked_again}. Their first try may have left the \
                 prompt in a cache, which makes misses look like hits and sharing harder to see"
            );
        }
        if self.tests.iter().any(|test| test.times.two_sided_trap) {
            text.push_str(
                "note: hits were slower than misses. Something differs, but not what a cache does; a two-sided test \
                 would have called it sharing\n",
            );
        }
        text
    }

    fn row(&self, table: &mut Table, test: &Tested, times: &Times, name: &str) {
        let reported = &test.reported;
        table.add_row([
            name.to_owned(),
            format!("{}x", test.victim_requests),
            format!("{}/{}", test.shared_letters, test.prompt_letters),
            format!("{}+{}", times.hits, times.misses),
            seconds(times.hit_median_seconds),
            seconds(times.miss_median_seconds),
            format!("{:.3}", times.statistic),
            p_value(times.p),
            format!("{:.2}", times.average_precision),
            share(times.hits_below_all_misses),
            if reported.hits == 0 { "-".to_owned() } else { share(reported.hits_cached) },
            if test.found { test.by() } else { "nothing".to_owned() },
        ]);
    }
}

fn between(level: &str) -> &str {
    match level {
        "same organisation" => "users of one organisation",
        other => other,
    }
}
