//! `tapri calls`.

mod csv;
mod filters;
mod one;
mod table;

use std::io::{BufWriter, Write, stdout};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use tapri_ledger::{
    CallRecord, Detail, Filter, Found, Ledger, OpenError, Order, Queried, QueryError,
};

use self::filters::FilterArgs;
use crate::failure::Failure;
use crate::ledger::LedgerFile;
use crate::report::period;

const EXAMPLES: &str = "\
Examples:
  tapri calls                                  the newest calls
  tapri calls --since 24h --hit-below 50%      what reused less than half of its prompt today
  tapri calls --reason time_changed            calls whose start had a new time in it
  tapri calls --ending error --since 2026-11-30
  tapri calls --csv --since 7d > calls.csv     all calls of a week, for a spreadsheet
  tapri calls show 4f1c                        everything about the call whose id begins so";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct CallsArgs {
    #[command(subcommand)]
    command: Option<CallsCommand>,
    /// The oldest first [default: the newest]
    #[arg(long)]
    oldest: bool,
    /// No more than N calls [default: 50 for a table, all otherwise]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    zone: Zone,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    ledger: LedgerFile,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct Form {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print JSON lines, a call each
    #[arg(long)]
    jsonl: bool,
    /// Print comma-separated values: figures and reasons, without fingerprints and texts
    #[arg(long)]
    csv: bool,
}

#[derive(Debug, Args)]
struct Zone {
    /// The time zone of times [default: this machine's]. JSON and CSV have UTC
    #[arg(long, value_name = "NAME", value_parser = period::zone, conflicts_with = "utc")]
    zone: Option<TimeZone>,
    /// Times in UTC
    #[arg(long)]
    utc: bool,
}

impl Zone {
    fn get(&self) -> TimeZone {
        match &self.zone {
            Some(zone) => zone.clone(),
            None if self.utc => TimeZone::UTC,
            None => TimeZone::system(),
        }
    }
}

#[derive(Debug, Subcommand)]
enum CallsCommand {
    /// Show everything about one call
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The call's id, or its beginning
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    zone: Zone,
    #[command(flatten)]
    ledger: LedgerFile,
}

/// Lines of a table that a person looks at.
const SHOWN: u64 = 50;

pub(crate) fn run(args: &CallsArgs) -> Result<ExitCode> {
    match &args.command {
        Some(CallsCommand::Show(args)) => show(args),
        None => list(args),
    }
}

/// Opens a ledger for a command that reads it.
pub(crate) fn open(path: &Path) -> Result<Ledger> {
    Ledger::open_read(path).map_err(|error: OpenError| {
        let hint = error.hint();
        Failure::new(error, Some(hint)).into()
    })
}

/// A ledger that breaks off.
fn unreadable(error: QueryError) -> Failure {
    let hint = error.hint();
    Failure::new(error, hint)
}

fn list(args: &CallsArgs) -> Result<ExitCode> {
    let ledger = open(&args.ledger.path()?)?;
    let zone = args.zone.get();
    let mut filter = args.filters.filter(Timestamp::now(), &zone)?;
    filter.order = if args.oldest { Order::OldestFirst } else { Order::NewestFirst };
    filter.limit = args.limit;
    let mut out = BufWriter::new(stdout().lock());
    let queried = match &args.form {
        Form { json: true, .. } => as_json(&ledger, &filter, &mut out)?,
        Form { jsonl: true, .. } => each(&ledger, &filter, |record| {
            serde_json::to_writer(&mut out, &record)?;
            Ok(out.write_all(b"\n")?)
        })?,
        Form { csv: true, .. } => {
            csv::head(&mut out)?;
            let filter = Filter { detail: Detail::Figures, ..filter };
            each(&ledger, &filter, |record| csv::row(&mut out, &record))?
        }
        _ => {
            let shown = args.limit.unwrap_or(SHOWN);
            // One more tells whether there are more.
            let limit = Some(shown.saturating_add(1));
            let filter = Filter { detail: Detail::Figures, limit, ..filter };
            let mut records = Vec::new();
            let queried = each(&ledger, &filter, |record| {
                records.push(record);
                Ok(())
            })?;
            let more = records.len() as u64 > shown;
            records.truncate(usize::try_from(shown).unwrap_or(usize::MAX));
            table::print(&mut out, &records, &zone)?;
            out.flush()?;
            if more && args.limit.is_none() {
                eprintln!("note: there are more than {SHOWN} such calls; --limit shows more");
            }
            queried
        }
    };
    out.flush()?;
    if queried.unreadable > 0 {
        eprintln!(
            "warning: {} calls could not be read: another version of Tapri may have written them",
            queried.unreadable
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives each record to `take`, which may fail (a reader that left, say).
fn each(
    ledger: &Ledger,
    filter: &Filter,
    mut take: impl FnMut(CallRecord) -> Result<()>,
) -> Result<Queried> {
    let mut failed = None;
    let queried = ledger.query(filter, |record| match take(record) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    failed.map_or(Ok(queried.map_err(unreadable)?), Err)
}

/// One object, written as the calls come.
fn as_json(ledger: &Ledger, filter: &Filter, out: &mut impl Write) -> Result<Queried> {
    write!(out, "{{\"schema\": \"tapri.calls/1\",\n \"calls\": [")?;
    let mut first = true;
    let queried = each(ledger, filter, |record| {
        out.write_all(if std::mem::take(&mut first) { b"\n  " } else { b",\n  " })?;
        Ok(serde_json::to_writer(&mut *out, &record)?)
    })?;
    writeln!(out, "],\n \"unreadable\": {}}}", queried.unreadable)?;
    Ok(queried)
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    #[derive(Serialize)]
    struct Shown<'a> {
        schema: &'static str,
        call: &'a CallRecord,
    }

    let path = args.ledger.path()?;
    let zone = args.zone.get();
    let mut out = BufWriter::new(stdout().lock());
    match open(&path)?.find(&args.id).map_err(unreadable)? {
        Found::One(call) if args.json => {
            let shown = Shown { schema: "tapri.calls.show/1", call: &call };
            writeln!(out, "{}", serde_json::to_string_pretty(&shown)?)?;
        }
        Found::One(call) => one::print(&mut out, &call, &zone)?,
        Found::Nothing => {
            let error = anyhow!("no call has an id that begins with '{}'", args.id);
            return Err(Failure::new(error, Some("'tapri calls' lists them")).into());
        }
        Found::Several(calls) => {
            let error = anyhow!("several calls have an id that begins with '{}'", args.id);
            let candidates: Vec<_> = calls
                .iter()
                .map(|call| format!("{} of {}", call.id, table::time(call.at, &zone)))
                .collect();
            let hint = format!("write more of it; the newest are:\n  {}", candidates.join("\n  "));
            return Err(Failure::new(error, Some(hint)).into());
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
