//! `tapri explain`.

use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tapri_insight::explain::{Evidence, Found, explain};
use tapri_insight::history::{Form, History, Options, Report};
use tapri_insight::prompt::{HostedDiagnosis, PromptDoc};
use tapri_insight::rules::Rules;
use tapri_registry::ModelRef;

use crate::failure::Failure;
use crate::prices;
use layout::Layout;

mod data;
mod files;
mod layout;
mod show;

const EXAMPLES: &str = "\
Examples:
  tapri explain monday.json tuesday.json
      why the second request could not reuse the first
  tapri explain calls.jsonl --prices bundled
      every break in a log of requests, and what each cost; the worst first
  tapri explain trajectories.json --json
      an agent's trajectories, each answer a call; as JSON
  tapri explain a.json b.json --model smollm2
      the same, laid out and counted as that model reads it
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
    /// Lay the prompts out as this model reads them and count its tokens: a name from 'tapri pull', hf:OWNER/REPO:FILE,
    /// or a GGUF file. Only its tokenizer and chat template are read
    #[arg(long, value_name = "MODEL", value_parser = crate::cli::model)]
    model: Option<ModelRef>,
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
    let layout = args.model.as_ref().map(Layout::of).transpose()?;
    let values = !args.hide_values;
    let mut out = stdout().lock();
    if let [old, new] = args.files.as_slice() {
        let pair = pair(old, new, args, &rules, layout.as_ref())?;
        if args.json {
            serde_json::to_writer_pretty(&mut out, &data::pair(&pair, values))?;
            writeln!(out)?;
        } else {
            write!(out, "{}", show::pair(&pair, values))?;
        }
    } else {
        let report = log(args, &rules, layout.as_ref())?;
        if args.json {
            serde_json::to_writer_pretty(&mut out, &data::log(&report, args.worst, values))?;
            writeln!(out)?;
        } else {
            write!(out, "{}", show::log(&report, args.worst, values))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Two requests, explained.
struct Pair {
    found: Found,
    /// The first token that differs, where a model was named.
    token: Option<FirstToken>,
    hosted: Option<HostedDiagnosis>,
}

/// The first token that differs.
struct FirstToken {
    /// Its number, from 0.
    number: usize,
    old: Option<String>,
    new: Option<String>,
}

fn pair(
    old: &Path,
    new: &Path,
    args: &ExplainArgs,
    rules: &Rules,
    layout: Option<&Layout>,
) -> Result<Pair> {
    let (old, new) = (files::one(old, args)?, files::one(new, args)?);
    let mut evidence = Evidence { rules: Some(rules), ..Evidence::default() };
    let mut token = None;
    if let Some(layout) = layout {
        let (before, after) = (layout.tokens(&old)?, layout.tokens(&new)?);
        evidence = evidence.with_tokens(&before, &after);
        let number = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        let text = |ids: &[u32]| ids.get(number).map(|id| layout.text(*id));
        token = Some(FirstToken { number, old: text(&before), new: text(&after) });
    }
    Ok(Pair { found: explain(&old, &new, &evidence), token, hosted: new.diagnosis })
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

fn log(args: &ExplainArgs, rules: &Rules, layout: Option<&Layout>) -> Result<Report> {
    let path = &args.files[0];
    let book = args.prices.as_deref().map(prices::open).transpose()?;
    let tokens = layout.map(|layout| |doc: &PromptDoc| layout.tokens_or_none(doc));
    let mut history = History::new(Options {
        prices: book.as_ref(),
        rules: Some(rules),
        tokens: tokens.as_ref().map(|tokens| tokens as &dyn Fn(&PromptDoc) -> Option<Vec<u32>>),
        ..Options::default()
    });
    files::all(path, args, &mut |doc, at| history.add(doc, at))?;
    if let Some(refusals) = layout.and_then(Layout::refusals) {
        eprintln!("warning: {refusals}");
    }
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
