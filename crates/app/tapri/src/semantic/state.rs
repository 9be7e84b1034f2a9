//! `tapri semantic status` and `tapri semantic label`.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use serde_json::json;
use tapri_cache::semantic::evidence::labels_needed;
use tapri_cache::semantic::store::Verdict;
use tapri_cache::semantic::{Evidence, Keeper};

use crate::failure::Failure;
use crate::pull::lines;
use crate::serve::semantic::opened;

/// Which store.
#[derive(Debug, Args)]
struct FileArgs {
    /// The semantic cache's file [default: semantic.sqlite in the data folder]
    #[arg(long, env = "TAPRI_SEMANTIC_FILE", hide_env_values = true, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The store that servers share, instead of a file: postgres://USER@HOST:PORT/DATABASE
    #[arg(
        long,
        env = "TAPRI_SEMANTIC_STORE",
        hide_env_values = true,
        value_name = "URL",
        conflicts_with = "file"
    )]
    store: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The share of served answers that may be wrong
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    budget: f64,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, Args)]
pub(super) struct LabelArgs {
    /// The pair's number. Without it, pairs that wait are shown one after another
    #[arg(value_name = "NUMBER", requires = "verdict")]
    pair: Option<i64>,
    /// Whether the stored answer is right for the new question as well
    #[arg(value_enum, value_name = "VERDICT")]
    verdict: Option<VerdictArg>,
    /// List pairs that wait as JSON
    #[arg(long, conflicts_with_all = ["pair", "verdict"])]
    json: bool,
    #[command(flatten)]
    file: FileArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VerdictArg {
    /// It is
    Same,
    /// It isn't
    Wrong,
}

impl From<VerdictArg> for Verdict {
    fn from(verdict: VerdictArg) -> Self {
        match verdict {
            VerdictArg::Same => Verdict::Same,
            VerdictArg::Wrong => Verdict::Wrong,
        }
    }
}

/// Pairs that are shown in one run.
const MOST_SHOWN: usize = 1_000;

impl FileArgs {
    fn open(&self) -> Result<Box<dyn Keeper>> {
        let store = self.store.as_deref();
        opened(store, self.file.clone())
    }
}

pub(super) fn status(args: &StatusArgs) -> Result<ExitCode> {
    let mut store = args.file.open()?;
    let mut routes: std::collections::BTreeMap<String, Evidence> =
        std::collections::BTreeMap::new();
    for (route, similarity, wrong) in store.known()?.labels {
        routes.entry(route).or_default().add(similarity, wrong);
    }
    let waiting = store.unsettled(MOST_SHOWN)?;
    let mut out = stdout().lock();
    if args.json {
        let routes: Vec<_> = routes
            .iter()
            .map(|(route, evidence)| {
                json!({
                    "route": route,
                    "budget": args.budget,
                    "serves_from": evidence.threshold(args.budget),
                    "bands": evidence.bands(args.budget),
                    "unsettled": waiting.iter().filter(|pair| pair.route == *route).count(),
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&routes)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if routes.is_empty() {
        writeln!(out, "No pair has been compared yet.")?;
    }
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    for (route, evidence) in &routes {
        let unsettled = waiting.iter().filter(|pair| pair.route == *route).count();
        let serves = match evidence.threshold(args.budget) {
            Some(from) => format!("may serve from a similarity of {from:.2} up"),
            None => "may not serve yet".to_owned(),
        };
        writeln!(out, "{route}: {serves}, within {} wrong\n", percent(args.budget))?;
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header([
            "from",
            "labels",
            "wrong",
            "at most wrong",
            "serves",
        ]);
        for band in evidence.bands(args.budget) {
            table.add_row([
                format!("{:.2}", band.from),
                band.tally.labels.to_string(),
                band.tally.wrong.to_string(),
                percent(band.bound),
                if band.serves { "yes" } else { "no" }.to_owned(),
            ]);
        }
        writeln!(out, "{}\n", lines(&table))?;
        if unsettled > 0 {
            writeln!(
                out,
                "{unsettled} pairs wait for a person and count as wrong until then: tapri semantic label\n"
            )?;
        }
    }
    writeln!(
        out,
        "A bound holds with 95 percent certainty however often it is looked at. {} labels without an error are needed for {}.",
        labels_needed(args.budget),
        percent(args.budget)
    )?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn label(args: &LabelArgs) -> Result<ExitCode> {
    let mut store = args.file.open()?;
    let mut out = stdout().lock();
    if let (Some(pair), Some(verdict)) = (args.pair, args.verdict) {
        settle(&mut *store, pair, verdict.into())?;
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = store.unsettled(MOST_SHOWN)?;
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&waiting)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if waiting.is_empty() {
        writeln!(out, "No pair waits for a person.")?;
    }
    let mut input = stdin().lock().lines();
    for (at, pair) in waiting.iter().enumerate() {
        writeln!(
            out,
            "Pair {} ({} of {}), route {}, similarity {:.3}\n\nStored question: {}\nIts answer: {}\n\nNew question: {}\n\
             The model's answer: {}\n",
            pair.id,
            at + 1,
            waiting.len(),
            pair.route,
            pair.similarity,
            pair.stored_question,
            pair.stored_answer,
            pair.asked_question,
            pair.asked_answer
        )?;
        write!(
            out,
            "Is the stored answer right for the new question as well? [y]es, [n]o, [s]kip, [q]uit: "
        )?;
        out.flush()?;
        let Some(line) = input.next() else {
            writeln!(out)?;
            break;
        };
        match line?.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => settle(&mut *store, pair.id, Verdict::Same)?,
            "n" | "no" => settle(&mut *store, pair.id, Verdict::Wrong)?,
            "q" | "quit" => break,
            _ => {}
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn settle(store: &mut dyn Keeper, pair: i64, verdict: Verdict) -> Result<()> {
    if store.settle(pair, verdict)?.is_none() {
        let hint = "tapri semantic label --json lists the pairs that wait";
        return Err(Failure::new(anyhow!("no pair {pair} waits for a person"), Some(hint)).into());
    }
    Ok(())
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("a share is above 0 and below 1, as in 0.01".to_owned()),
    }
}
