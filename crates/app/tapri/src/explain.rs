//! `tapri explain`.

use std::fs;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tapri_insight::explain::{Evidence, explain};
use tapri_insight::history::{Form, History, Options, Report};
use tapri_insight::rules::Rules;

use crate::failure::Failure;
use crate::prices;

mod data;
mod files;
mod show;

const EXAMPLES: &str = "\
Examples:
  tapri explain monday.json tuesday.json
      why the second request could not reuse the first
  tapri explain calls.jsonl --prices bundled
      every break in a log of requests, and what each cost; the worst first
  tapri explain trajectories.json --json
      an agent's trajectories, each answer a call; as JSON
  tapri explain a.json b.json --hide-values
      only the kind and the place of what changed";

/// How many breaks are printed.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// Two saved request bodies (OpenAI's or Anthropic's format), or one log: JSON lines, an array of requests,
    /// agents' trajectories; plain or gzipped
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the file is [default: seen from its content]
    #[arg(long, value_enum)]
    format: Option<FormArg>,
    /// What tokens cost: example, bundled, a file, or a model's name. Without it breaks have no price
    #[arg(long, value_name = "PRICES")]
    prices: Option<String>,
    /// Rules of hosted providers (TOML) that win over the bundled ones
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Leave out what changed: only its kind and its place
    #[arg(long)]
    hide_values: bool,
    /// How many breaks to print
    #[arg(long, value_name = "N", default_value_t = SHOWN)]
    worst: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormArg {
    /// A JSON object on every line
    Lines,
    /// One request, or an array of requests
    Json,
    /// An array of objects with a traj, as tau-bench writes them
    Trajectories,
}

impl From<FormArg> for Form {
    fn from(form: FormArg) -> Self {
        match form {
            FormArg::Lines => Form::Lines,
            FormArg::Json => Form::Json,
            FormArg::Trajectories => Form::Trajectories,
        }
    }
}

pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let rules = rules(args)?;
    let mut out = stdout().lock();
    match args.files.as_slice() {
        [old, new] => {
            let (old, new) = (files::one(old, args)?, files::one(new, args)?);
            let evidence = Evidence { rules: Some(&rules), ..Evidence::default() };
            let found = explain(&old, &new, &evidence);
            if args.json {
                serde_json::to_writer_pretty(
                    &mut out,
                    &data::pair(&found, &new, !args.hide_values),
                )?;
                writeln!(out)?;
            } else {
                write!(out, "{}", show::pair(&found, &new, !args.hide_values))?;
            }
        }
        _ => {
            let report = log(args, &rules)?;
            if args.json {
                serde_json::to_writer_pretty(
                    &mut out,
                    &data::log(&report, args.worst, !args.hide_values),
                )?;
                writeln!(out)?;
            } else {
                write!(out, "{}", show::log(&report, args.worst, !args.hide_values))?;
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn rules(args: &ExplainArgs) -> Result<Rules> {
    let rules = Rules::bundled()?;
    let Some(path) = &args.rules else { return Ok(rules) };
    let text = fs::read_to_string(path)
        .with_context(|| format!("{} could not be read", path.display()))?;
    let own = Rules::read(&text).map_err(|error| {
        Failure::new(
            anyhow::Error::new(error).context(path.display().to_string()),
            Some("a file of rules has [[provider]] tables with name, models, minimum, markers, lifetime"),
        )
    })?;
    Ok(rules.under(own))
}

fn log(args: &ExplainArgs, rules: &Rules) -> Result<Report> {
    let path = &args.files[0];
    let book = args.prices.as_deref().map(prices::open).transpose()?;
    let mut history =
        History::new(Options { prices: book.as_ref(), rules: Some(rules), ..Options::default() });
    files::all(path, args, &mut |doc, at| history.add(doc, at))?;
    match history.calls() {
        0 => Err(files::no_call(path).into()),
        1 => Err(Failure::usage(
            format!("{} holds one request, and one alone can't be compared", path.display()),
            "give a second file, or a log of requests",
        )
        .into()),
        _ => Ok(history.finish()),
    }
}
