//! `tapri report`.

mod logs;
pub(crate) mod period;
mod pricing;

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapri_insight::plot::{PlotError, svg};
use tapri_insight::report::plot::charts;
use tapri_insight::report::{Observation, Options, Report, Summary, json, text};
use tapri_ledger::{Filter, Ledger, OpenError};

use self::period::Since;
use self::pricing::Pricing;
use crate::failure::Failure;
use crate::ledger::LedgerFile;
use crate::prices;
use crate::quantity::show_count;

/// What `tapri report --help` ends with.
const EXAMPLES: &str = "\
Examples:
  tapri report --since 24h                     the calls of 'tapri serve' and 'tapri ask', from the ledger
  tapri report calls.jsonl                     by day, tenant, route and model
  tapri report calls.jsonl --last 100          did the cache hit on the last 100 calls?
  tapri report ~/.claude/projects/*/*.jsonl    sessions of Claude Code
  tapri report --since 7d logs/*.jsonl.gz --zone Asia/Kolkata
  tapri report calls.jsonl --plot calls.svg    hit rate, savings and times as a picture
  tapri report calls.jsonl --fail-on-alert     exit code 1 where the cache doesn't work

A line of a log is a JSON object with token counts: prompt_tokens and cached_tokens, or the usage of OpenAI,
Anthropic, vLLM, llama-server, LiteLLM, DeepSeek, Gemini or Bedrock, at the top, in 'usage' or in 'response'.
Counts that are missing are unknown, not zero.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Logs in JSON lines, plain or gzipped; '-' is stdin. Without any: the ledger
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Only calls since then: a time back from now (24h, 7d) or a date (2026-11-30)
    #[arg(long, value_name = "TIME", value_parser = period::since)]
    pub(crate) since: Option<Since>,
    /// The share of prompt tokens from the cache below which a line is an alert (0.5 or 50%)
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = period::share)]
    pub(crate) threshold: f64,
    /// Look at the last N calls only: did the cache hit?
    #[arg(long, value_name = "N", value_parser = period::last)]
    pub(crate) last: Option<usize>,
    /// The time zone in which a day begins [default: this machine's]
    #[arg(long, value_name = "NAME", value_parser = period::zone, conflicts_with = "utc")]
    pub(crate) zone: Option<TimeZone>,
    /// Days begin at midnight UTC
    #[arg(long)]
    pub(crate) utc: bool,
    /// Only this tenant's calls
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only this route's calls
    #[arg(long, value_name = "PATH")]
    pub(crate) route: Option<String>,
    /// Only this model's calls
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Prices for estimates: example, bundled (with what was updated, and your overrides), a file, or a model's name
    #[arg(long, value_name = "PRICES", default_value = "bundled")]
    pub(crate) prices: String,
    /// Draw hit rate, savings and times to the first token into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with code 1 where a day or the last calls are an alert
    #[arg(long, alias = "deny")]
    pub(crate) fail_on_alert: bool,
    #[command(flatten)]
    pub(crate) ledger: LedgerFile,
}

/// How many of the last calls a whole report looks at.
const LAST: usize = 100;

pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let zone = match &args.zone {
        Some(zone) => zone.clone(),
        None if args.utc => TimeZone::UTC,
        None => TimeZone::system(),
    };
    let since = args.since.as_ref().map(|since| since.start(Timestamp::now(), &zone));
    let from_ledger = args.files.is_empty();
    let mut report = Report::new(Options {
        zone,
        threshold: args.threshold,
        last: args.last.unwrap_or(LAST),
        explained: from_ledger,
        ..Options::default()
    });
    let mut pricing = Pricing::new(prices::open(&args.prices)?);
    let mut wanted = Wanted { args, since, taken: 0, undated: 0 };
    let mut on_call = |mut call: Observation| {
        if wanted.takes(&call) {
            pricing.price(&mut call);
            report.add(&call);
        }
    };
    if from_ledger {
        read_ledger(args, since, &mut on_call)?;
    } else {
        logs::read(&args.files, &mut on_call)?;
    }
    wanted.say();
    if wanted.taken == 0 {
        return Err(Failure::new(
            anyhow::anyhow!("there is no such call"),
            Some("take a longer --since, or leave out --tenant, --route and --model"),
        )
        .into());
    }
    let summary = report.finish();
    print(args, &summary)?;
    if let Some(path) = &args.plot {
        draw(path, &summary)?;
    }
    let failed = args.fail_on_alert
        && if args.last.is_some() { summary.last.alerts() } else { summary.alerts() };
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print(args: &ReportArgs, summary: &Summary) -> Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &json::render(summary)).map_err(io::Error::from)?;
        writeln!(out)?;
    } else if args.last.is_some() {
        text::write_last(&mut out, summary)?;
    } else {
        text::write(&mut out, summary)?;
    }
    out.flush()?;
    Ok(())
}

fn draw(path: &Path, summary: &Summary) -> Result<()> {
    let drawn = svg(&charts(summary)).map_err(|error| {
        let hint = match error {
            PlotError::Empty => {
                Some("a plot needs calls with a time, or with a time to the first token")
            }
            _ => None,
        };
        Failure::new(error, hint)
    })?;
    fs::write(path, drawn).with_context(|| format!("{} can't be written", path.display()))?;
    eprintln!("drawn: {}", path.display());
    Ok(())
}

/// Gives every call of the ledger.
fn read_ledger(
    args: &ReportArgs,
    since: Option<Timestamp>,
    on_call: &mut dyn FnMut(Observation),
) -> Result<()> {
    let path = args.ledger.path()?;
    let ledger = Ledger::open_read(&path).map_err(|error| {
        let hint = match error {
            OpenError::Missing { .. } => Some(
                "calls of 'tapri serve' and 'tapri ask' go there; give the path of a log to report on that instead",
            ),
            _ => None,
        };
        Failure::new(error, hint)
    })?;
    let filter = Filter { since, ..Filter::default() };
    let mut uncounted = 0;
    let queried = ledger.query(&filter, |record| {
        // A request that was refused has no prompt that could have been cached.
        if record.tokens.prompt.is_some() {
            on_call(record.into());
        } else {
            uncounted += 1;
        }
        ControlFlow::Continue(())
    })?;
    if uncounted > 0 {
        eprintln!(
            "note: calls that ended before their prompt was counted were left out: {}",
            show_count(uncounted)
        );
    }
    if queried.unreadable > 0 {
        let count = usize::try_from(queried.unreadable).unwrap_or(usize::MAX);
        eprintln!("warning: records that can't be read were left out: {}", show_count(count));
    }
    Ok(())
}

/// Which calls are wanted.
struct Wanted<'a> {
    args: &'a ReportArgs,
    since: Option<Timestamp>,
    taken: u64,
    undated: u64,
}

impl Wanted<'_> {
    fn takes(&mut self, call: &Observation) -> bool {
        let asked = [
            (&self.args.tenant, &call.tenant),
            (&self.args.route, &call.route),
            (&self.args.model, &call.model),
        ];
        if asked.iter().any(|(wanted, found)| wanted.is_some() && wanted != found) {
            return false;
        }
        let takes = match (self.since, call.at) {
            (None, _) => true,
            (Some(since), Some(at)) => at >= since,
            (Some(_), None) => {
                self.undated += 1;
                false
            }
        };
        self.taken += u64::from(takes);
        takes
    }

    fn say(&self) {
        if self.undated > 0 {
            let count = show_count(usize::try_from(self.undated).unwrap_or(usize::MAX));
            eprintln!("note: calls without a time were left out, since --since was given: {count}");
        }
    }
}
