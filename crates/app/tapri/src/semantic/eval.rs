//! `tapri semantic eval`.

use std::fmt::Write as _;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use comfy_table::{Table, presets};
use tapri_cache::semantic::evaluate::{
    BUDGET, Judged, Pair, Row, Validated, With, alone, cross_validated, row, sweep,
};
use tapri_embed::{Embedder, vector};

use super::{EncoderArgs, encoder};
use crate::failure::Failure;
use crate::pull::lines;

const EXAMPLES: &str = "\
Examples:
  tapri semantic eval pairs.jsonl
  tapri semantic eval pairs.jsonl --json | jq '.[] | select(.wrong_share <= 0.01) | .served_share'

Each line is a pair: {\"a\": \"...\", \"b\": \"...\", \"same_answer\": true, \"category\": \"...\", \"id\": \"...\"}.
A side may be a conversation, a list of {\"role\", \"content\"}: its last turn is the question, and what comes before it must
be the same on both sides.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct EvalArgs {
    /// A file of pairs, one a line
    #[arg(value_name = "PAIRS")]
    pairs: PathBuf,
    /// Print one object for each threshold, with guards and without, in a list
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    encoder: EncoderArgs,
}

/// Where each guard is shown alone: the threshold that semantic caches commonly ship with.
const COMMON: f32 = 0.80;

pub(super) fn run(args: &EvalArgs) -> Result<ExitCode> {
    let pairs = read(&args.pairs)?;
    let judged = judge(&pairs, &encoder(&args.encoder)?)?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&sweep(&judged))?)?;
    } else {
        write!(out, "{}", text(&judged))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Vec<Pair>> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(
            anyhow!("failed to read {name}: {error}"),
            Some("give a file of pairs, one a line"),
        )
    })?;
    let mut pairs = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = number + 1;
        let mut pair: Pair = serde_json::from_str(line).map_err(|error| {
            let hint = "a pair is {\"a\": \"...\", \"b\": \"...\", \"same_answer\": true or false}";
            Failure::new(anyhow!("{name}, line {number}: it is no pair: {error}"), Some(hint))
        })?;
        if pair.id.is_empty() {
            pair.id = format!("line {number}");
        }
        pairs.push(pair);
    }
    if pairs.is_empty() {
        return Err(Failure::new(anyhow!("{name} holds no pair"), None::<String>).into());
    }
    Ok(pairs)
}

fn judge(pairs: &[Pair], encoder: &Embedder) -> Result<Vec<Judged>> {
    let texts: Vec<&str> =
        pairs.iter().flat_map(|pair| [pair.a.question(), pair.b.question()]).collect();
    let found = encoder.embed(&texts)?;
    let cosines = found.chunks_exact(2).map(|both| vector::dot(&both[0].vector, &both[1].vector));
    Ok(pairs.iter().zip(cosines).map(|(pair, cosine)| Judged::new(pair, cosine)).collect())
}

fn text(pairs: &[Judged]) -> String {
    let should = pairs.iter().filter(|pair| pair.same_answer).count();
    let mut text = format!(
        "{} pairs: {should} with one answer, {} with two that must not be given for each other.\n\n",
        pairs.len(),
        pairs.len() - should
    );
    let rows = sweep(pairs);
    let (with, without): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.guards == "all");
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "from",
        "served",
        "wrongly",
        "(95% interval)",
        "plain: served",
        "wrongly",
        "(95% interval)",
    ]);
    for (with, without) in with.iter().zip(&without) {
        table.add_row([
            format!("{:.3}", with.threshold),
            percent(with.served_share),
            percent(with.wrong_share),
            interval(with.wrong_interval),
            percent(without.served_share),
            percent(without.wrong_share),
            interval(without.wrong_interval),
        ]);
    }
    let _ = writeln!(
        text,
        "By similarity, with all guards and by similarity alone:\n\n{}\n",
        lines(&table)
    );
    let _ = writeln!(
        text,
        "The threshold that serves most at {} wrong, chosen on four fifths and tried on the fifth left out:",
        percent(BUDGET)
    );
    for guards in [With::All, With::None] {
        let _ = writeln!(text, " {}", validated(&cross_validated(pairs, guards)));
    }
    let _ = write!(text, "\nBy kind, from {COMMON:.2}:\n\n{}\n", categories(pairs));
    let _ = write!(text, "\nEach guard alone, from {COMMON:.2}:\n\n{}\n", guards(pairs));
    text
}

fn validated(found: &Validated) -> String {
    let name = if found.guards == "all" { "with guards" } else { "plain" };
    let thresholds: Vec<String> = found
        .thresholds
        .iter()
        .map(|chosen| chosen.map_or_else(|| "none".to_owned(), |chosen| format!("{chosen:.3}")))
        .collect();
    format!(
        "{name}: {} served {}, {} wrongly {} (thresholds {})",
        percent(found.served_share),
        interval(found.served_interval),
        percent(found.wrong_share),
        interval(found.wrong_interval),
        thresholds.join(", ")
    )
}

fn categories(pairs: &[Judged]) -> String {
    let (with, without) = (row(pairs, COMMON, With::All), row(pairs, COMMON, With::None));
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "kind",
        "answers",
        "pairs",
        "served",
        "(95% interval)",
        "plain",
    ]);
    for (name, kind) in &with.categories {
        table.add_row([
            if name.is_empty() { "-" } else { name }.to_owned(),
            if kind.same_answer { "one" } else { "two" }.to_owned(),
            kind.of.to_string(),
            percent(kind.share),
            interval(kind.interval),
            without.categories.get(name).map_or_else(String::new, |kind| percent(kind.share)),
        ]);
    }
    lines(&table)
}

fn guards(pairs: &[Judged]) -> String {
    let plain = row(pairs, COMMON, With::None);
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "guard",
        "wrong answers it stops",
        "right ones it stops",
    ]);
    for row in alone(pairs, COMMON) {
        table.add_row([
            row.guards.to_owned(),
            format!("{} of {}", plain.wrong - row.wrong, plain.wrong),
            format!("{} of {}", plain.served - row.served, plain.served),
        ]);
    }
    lines(&table)
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn interval([low, high]: [f64; 2]) -> String {
    format!("({:.1} to {:.1})", 100.0 * low, 100.0 * high)
}
