//! Tables and bars for people.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use indicatif::{ProgressBar, ProgressStyle};

use crate::compare::{Comparison, Measure};
use crate::session::SessionResult;
use crate::statistics::Spread;

/// One session.
pub(crate) fn session(r: &SessionResult) -> String {
    let cached = match r.cached_tokens {
        Some(n) => format!(
            "{n} of {} ({:.1} %)",
            r.prompt_tokens,
            100.0 * n as f64 / r.prompt_tokens.max(1) as f64
        ),
        None => "the server does not say".to_owned(),
    };
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["measured", "value"]);
    table.add_row(["first TTFT", &format!("{:.3} s", r.first_ttft_seconds)]);
    table.add_row(["later TTFT (median)", &format!("{:.3} s", r.later_ttft_seconds)]);
    table.add_row(["decode (median)", &format!("{:.1} tokens/s", r.decode_tokens_per_second)]);
    table.add_row(["whole session", &format!("{:.1} s", r.total_seconds)]);
    table.add_row(["prompt tokens from the cache", &cached]);
    table.to_string()
}

/// A comparison: each server's medians with their spread, then the ratios.
pub(crate) fn comparison(c: &Comparison) -> String {
    let mut table = Table::new();
    let mut header = vec!["measured".to_owned()];
    header.extend(c.servers.iter().map(|s| s.name.clone()));
    header.extend(["best rival".to_owned(), "ratio".to_owned()]);
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for measure in Measure::ALL {
        let mut row = vec![measure.label().to_owned()];
        row.extend(c.servers.iter().map(|s| cell(s.spread(measure))));
        if let Some(r) = c.ratios.iter().find(|r| r.measure == measure) {
            row.extend([r.rival.clone(), r.ratio.text(3)]);
        }
        table.add_row(row);
    }
    table.to_string()
}

/// A measure with three decimals, or a dash where it is not known.
pub(crate) fn cell(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.text(3))
}

/// A bar for so many questions, on stderr.
pub(crate) fn progress(questions: usize, name: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {pos}/{len} {wide_bar} {elapsed}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(questions as u64).with_style(style).with_prefix(name.to_owned());
    bar.tick();
    bar
}
