//! `tapri report`.

mod period;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapri_insight::lines::{Lines, decompressed};
use tapri_insight::report::text::PriceSource;
use tapri_insight::report::{Observation, Options, Report, Summary, json, text};
use tapri_insight::usage::log::{Used, read_log};

use self::period::Since;
use crate::broken;
use crate::failure::Failure;
use crate::progress::Scanning;
use crate::quantity::show_count;

/// What `tapri report --help` ends with.
const EXAMPLES: &str = "\
Examples:
  tapri report calls.jsonl                     by day, tenant, route and model
  tapri report calls.jsonl --last 100          did the cache hit on the last 100 calls?
  tapri report ~/.claude/projects/*/*.jsonl    sessions of Claude Code
  tapri report --since 7d logs/*.jsonl.gz --zone Asia/Kolkata
  tapri report calls.jsonl --fail-on-alert     exit code 1 where the cache doesn't work

A line of a log is a JSON object with token counts: prompt_tokens and cached_tokens, or the usage of OpenAI,
Anthropic, vLLM, llama-server, LiteLLM, DeepSeek, Gemini or Bedrock, at the top, in 'usage' or in 'response'.
Counts that are missing are unknown, not zero.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Logs in JSON lines, plain or gzipped; '-' is stdin
    #[arg(value_name = "FILE", required = true)]
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
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exit with code 1 where a day or the last calls are an alert
    #[arg(long, alias = "deny")]
    pub(crate) fail_on_alert: bool,
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
    let mut report = Report::new(Options {
        zone,
        threshold: args.threshold,
        last: args.last.unwrap_or(LAST),
        ..Options::default()
    });
    let mut period = Period { since, ..Period::default() };
    from_files(&args.files, &mut |call| {
        if period.takes(&call) {
            report.add(&call);
        }
    })?;
    period.say();
    if period.taken == 0 {
        return Err(Failure::new(
            anyhow::anyhow!("no call is in the period asked for"),
            Some("take a longer --since, or leave it out"),
        )
        .into());
    }
    let summary = report.finish();
    let prices = PriceSource::default();
    print(args, &summary, &prices)?;
    let failed = args.fail_on_alert
        && if args.last.is_some() { summary.last.alerts() } else { summary.alerts() };
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn print(args: &ReportArgs, summary: &Summary, prices: &PriceSource) -> Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &json::render(summary, prices))
            .map_err(io::Error::from)?;
        writeln!(out)?;
    } else if args.last.is_some() {
        text::write_last(&mut out, summary)?;
    } else {
        text::write(&mut out, summary, prices)?;
    }
    out.flush()?;
    Ok(())
}

/// Which calls are in the period.
#[derive(Default)]
struct Period {
    since: Option<Timestamp>,
    taken: u64,
    undated: u64,
}

impl Period {
    fn takes(&mut self, call: &Observation) -> bool {
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

/// Gives every call of some logs.
fn from_files(files: &[PathBuf], on_call: &mut dyn FnMut(Observation)) -> Result<()> {
    let sizes = files.iter().filter_map(|file| file.metadata().ok()).map(|data| data.len());
    let scanning = Scanning::start(sizes.sum());
    let mut used = Used::default();
    let mut any_broken = false;
    for file in files {
        let (found, broken) = from_file(file, &scanning, on_call)?;
        any_broken |= broken > 0;
        used.calls += found.calls;
        used.other += found.other;
        used.repeated += found.repeated;
    }
    drop(scanning);
    if used.calls == 0 {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let names = names.join(", ");
        return Err(Failure::new(
            if used.other == 0 && !any_broken {
                anyhow::anyhow!("there is no line in {names}")
            } else {
                anyhow::anyhow!("no line of {names} has token counts")
            },
            Some("see the end of 'tapri report --help' for what a line looks like"),
        )
        .into());
    }
    if used.repeated > 0 {
        eprintln!(
            "note: further lines of answers that were counted already: {}",
            show_count(usize::try_from(used.repeated).unwrap_or(usize::MAX))
        );
    }
    Ok(())
}

fn from_file(
    path: &Path,
    scanning: &Scanning,
    on_call: &mut dyn FnMut(Observation),
) -> Result<(Used, u64)> {
    let name = path.display().to_string();
    let raw: Box<dyn io::Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| {
            Failure::new(
                anyhow::Error::new(error).context(format!("{name} can't be read")),
                Some("give the path of a log in JSON lines"),
            )
        })?;
        if file.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(Failure::new(
                anyhow::anyhow!("{name} is a folder"),
                Some(format!("give the files in it, for example {name}/*.jsonl")),
            )
            .into());
        }
        scanning.reader(file)
    };
    let reader = decompressed(raw).with_context(|| format!("{name} can't be read"))?;
    let mut lines = Lines::new(reader);
    let used = read_log(&mut lines, |call| on_call(call.into()))
        .with_context(|| format!("{name} can't be read behind line {}", lines.number()))?;
    broken::say(&name, &lines.broken);
    Ok((used, lines.broken.count))
}
