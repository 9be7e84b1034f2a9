//! What a session looks like: answers and figures on stdout, progress and notes on stderr.

use std::io::{self, Write, stdout};

use comfy_table::{Table, presets};
use tapri_casefile::Dropped;
use tapri_ledger::Money;

use crate::ask::record::{Record, Report};
use crate::progress::Reading;
use crate::pull::lines;
use crate::quantity::{show_count, show_seconds, show_share};

/// The display of a session.
pub(crate) struct Display {
    json: bool,
    /// Whether the answer has begun: white space in front of it is not shown.
    begun: bool,
}

impl Display {
    pub(crate) fn new(json: bool) -> Self {
        Display { json, begun: false }
    }

    pub(crate) fn question(&mut self, number: usize, question: &str) -> io::Result<()> {
        self.begun = false;
        if self.json {
            eprintln!("question {number}: {question}");
            return Ok(());
        }
        let mut out = stdout().lock();
        writeln!(out, "\n{number}. {question}")?;
        out.flush()
    }

    /// A bar while the prompt is read.
    pub(crate) fn reading(&self, prompt: usize, cached: usize) -> Reading {
        Reading::start(prompt, cached)
    }

    /// A piece of the answer.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let text = if self.begun { text } else { text.trim_start() };
        if self.json || text.is_empty() {
            return Ok(());
        }
        let mut out = stdout().lock();
        if !self.begun {
            write!(out, "   ")?;
            self.begun = true;
        }
        write!(out, "{}", text.replace('\n', "\n   "))?;
        out.flush()
    }

    /// The figures of a question that was answered.
    pub(crate) fn row(&mut self, record: &Record, cost: &Money) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let mut out = stdout().lock();
        if !self.begun {
            write!(out, "   (no answer)")?;
        }
        writeln!(out, "\n   {}", row(record, cost))?;
        out.flush()
    }

    pub(crate) fn dropped(&self, dropped: Dropped) {
        let Dropped { turns, left } = dropped;
        eprintln!(
            "note: the context is full: the oldest {turns} question{} and answer{} went, {left} are left, the document \
             stays",
            plural(turns),
            plural(turns)
        );
    }

    pub(crate) fn interrupted(&self) {
        eprintln!("\ninterrupted");
    }

    /// What it all came to.
    pub(crate) fn summary(&self, report: &Report) -> io::Result<()> {
        let mut out = stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &report.json())?;
            writeln!(out)?;
        } else if !report.records.is_empty() {
            writeln!(out, "\n{}", summary(report))?;
        }
        out.flush()
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn row(record: &Record, cost: &Money) -> String {
    let rate = record.rate().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    format!(
        "[{} prompt tokens, {} cached ({}); first token after {}; {} answer tokens at {rate}/s; {cost}]",
        show_count(record.prompt_tokens),
        show_count(record.cached_tokens),
        show_share(record.cached_tokens, record.prompt_tokens),
        show_seconds(record.ttft),
        record.answer_tokens,
    )
}

fn summary(report: &Report) -> String {
    let measured = "measured";
    let estimate = format!("estimate: measured tokens at the '{}' price list", report.prices.name);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut add = |what: &str, value: String, how: &str| {
        table.add_row([what.to_owned(), value, how.to_owned()]);
    };
    let (prompt, cached) = (report.prompt_tokens(), report.cached_tokens());
    add("prompt tokens", show_count(prompt), measured);
    add(
        "of them from the cache",
        format!("{} ({})", show_count(cached), show_share(cached, prompt)),
        measured,
    );
    if let Some(first) = report.first_ttft() {
        add("first token, first question", show_seconds(first), measured);
        if let Some(later) = report.later_ttft() {
            let times = first.as_secs_f64() / later.as_secs_f64().max(1e-9);
            let text = format!("{} ({times:.0} times as fast)", show_seconds(later));
            add("first token, median of the others", text, measured);
        }
    }
    if report.prefix_cache {
        add("cost with the cache", report.total_cost().to_string(), &estimate);
        let not_run = format!("{estimate}; it was not run");
        add("cost without it", report.cost_without_cache().to_string(), &not_run);
    } else {
        add("cost without the cache", report.cost_without_cache().to_string(), &estimate);
    }
    let count = report.records.len();
    format!("{count} question{} to {}:\n{}", plural(count), report.model, lines(&table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::record::tests::report;

    #[test]
    fn rows_and_summary() {
        let mut report = report();
        let rows: Vec<_> =
            report.records.iter().map(|record| row(record, &report.cost(record))).collect();
        insta::assert_snapshot!("rows", rows.join("\n"));
        insta::assert_snapshot!("summary", summary(&report));
        report.prefix_cache = false;
        insta::assert_snapshot!("summary_without_cache", summary(&report));
        report.records.truncate(1);
        insta::assert_snapshot!("summary_of_one", summary(&report));
    }
}
