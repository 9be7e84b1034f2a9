//! Recorded times.

use std::fs::File;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use tapri_insight::audit::{Judgement, Samples, Stored, judge};
use tapri_insight::lines::{Lines, decompressed};

use super::AuditArgs;
use super::show::{Times, p_value, seconds, share};
use crate::broken;
use crate::failure::Failure;
use crate::pull::lines;

#[derive(Serialize)]
struct Output {
    schema: &'static str,
    threshold: f64,
    tests: Vec<Row>,
    broken: u64,
    sharing: bool,
}

#[derive(Serialize)]
struct Row {
    line: u64,
    provider: Option<String>,
    level: Option<String>,
    prefix_fraction: Option<f64>,
    victim_requests: Option<u64>,
    #[serde(flatten)]
    times: Times,
    stored: Option<Stored>,
    /// The larger relative error of ours against what is stored.
    stored_error: Option<f64>,
}

pub(super) fn run(args: &AuditArgs, path: &Path) -> Result<ExitCode> {
    let named = || format!("{} could not be read", path.display());
    let input = File::open(path).and_then(decompressed).with_context(named)?;
    let mut input = Lines::new(input);
    let mut tests = Vec::new();
    while let Some(samples) = input.next_json::<Samples>().with_context(named)? {
        let line = input.number();
        match judge(&samples.hit_seconds, &samples.miss_seconds, args.threshold) {
            Ok(judged) => tests.push(row(line, samples, &judged)),
            Err(error) => input.broken.add(line, error.to_string()),
        }
    }
    broken::say(&path.display().to_string(), &input.broken);
    if tests.is_empty() {
        let error = anyhow::anyhow!("{} has no times that can be judged", path.display());
        let hint = "a line has hit_seconds and miss_seconds, two lists of seconds";
        return Err(Failure::new(error, Some(hint)).into());
    }
    let sharing = tests.iter().any(|row| row.times.found);
    let output = Output {
        schema: "tapri.audit/1",
        threshold: args.threshold,
        tests,
        broken: input.broken.count,
        sharing,
    };
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &output)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", text(&output))?;
    }
    // They were judged: what is in them happened elsewhere, perhaps between a user and itself.
    Ok(ExitCode::SUCCESS)
}

fn row(line: u64, samples: Samples, judged: &Judgement) -> Row {
    let error = |ours: f64, theirs: f64| {
        if ours == theirs { 0.0 } else { (ours / theirs - 1.0).abs() }
    };
    let stored_error = samples.stored.map(|stored| {
        let statistic = error(judged.faster.statistic, stored.ks_statistic);
        statistic.max(error(judged.faster.p, stored.ks_p_one_sided))
    });
    Row {
        line,
        provider: samples.provider,
        level: samples.level,
        prefix_fraction: samples.prefix_fraction,
        victim_requests: samples.victim_requests,
        times: Times::from(judged),
        stored: samples.stored,
        stored_error,
    }
}

fn text(output: &Output) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "line", "of", "level", "shared", "victim", "samples", "hit", "miss", "D+", "p", "AP",
        "below", "verdict",
    ]);
    for row in &output.tests {
        let times = &row.times;
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        table.add_row([
            row.line.to_string(),
            or_dash(&row.provider),
            or_dash(&row.level),
            row.prefix_fraction.map_or_else(|| "-".to_owned(), share),
            row.victim_requests.map_or_else(|| "-".to_owned(), |n| format!("{n}x")),
            format!("{}/{}", times.hits, times.misses),
            seconds(times.hit_median_seconds),
            seconds(times.miss_median_seconds),
            format!("{:.3}", times.statistic),
            p_value(times.p),
            format!("{:.2}", times.average_precision),
            share(times.hits_below_all_misses),
            times.verdict().to_owned(),
        ]);
    }
    for column in [0, 3, 4, 5, 6, 7, 8, 9, 10, 11] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let found = output.tests.iter().filter(|row| row.times.found).count();
    let mut text = format!("{}\n\n", lines(&table));
    text.push_str(&format!(
        "{found} of {} tests found sharing (p below {:e}).\n\
         hit, miss: median times; AP: average precision of telling them apart; below: hits faster than every miss.\n",
        output.tests.len(),
        output.threshold,
    ));
    if output.tests.iter().any(|row| row.times.two_sided_trap) {
        text.push_str(
            "Where hits were slower, something differs, but not what a cache does: a two-sided test would have \
             called it sharing.\n",
        );
    }
    if let Some(worst) = output.tests.iter().filter_map(|row| row.stored_error).reduce(f64::max) {
        text.push_str(&format!(
            "The results stored with the times differ from these by {worst:.1e} at most, relatively.\n"
        ));
    }
    text
}
