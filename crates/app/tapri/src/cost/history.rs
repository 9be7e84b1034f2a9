//! Calls that were made, from the ledger or from logs.

use std::fs::File;
use std::io::{self, Read, Write, stdout};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tapri_insight::cost::{Gathering, SeenCall};
use tapri_insight::lines::{Lines, decompressed};
use tapri_insight::prices::PriceBook;
use tapri_insight::prompt::PromptDoc;
use tapri_ledger::{CallRecord, Filter, Ledger, OpenError};

use crate::cost::{CostArgs, HistoryArgs, starts};
use crate::failure::Failure;
use crate::progress::Scanning;
use crate::quantity::show_count;
use crate::{broken, data, prices};

pub(super) fn run(args: &CostArgs) -> Result<()> {
    let book = book(args)?;
    let history = &args.history;
    let since =
        history.since.as_ref().map(|since| since.start(Timestamp::now(), &TimeZone::system()));
    let mut found = Found { gathering: Gathering::new(book), since, taken: 0, other: 0 };
    if history.from_ledger {
        from_ledger(history, &mut found)?;
    } else {
        from_logs(history, &mut found)?;
    }
    if found.other > 0 {
        eprintln!("note: calls without a prompt were left out: {}", show_count(found.other));
    }
    if found.taken == 0 {
        let hint = "take a longer --since, or leave it out; a call needs its prompt and its time";
        return Err(Failure::new(anyhow!("there is no call to look at"), Some(hint)).into());
    }
    let advice = found.gathering.finish();
    if advice.groups.is_empty() {
        let models: Vec<_> = advice.unpriced.keys().map(|name| format!("'{name}'")).collect();
        let error = anyhow!("the price list has none of the models called: {}", models.join(", "));
        return Err(Failure::new(
            error,
            Some("name one whose prices hold with --model, or take --prices example"),
        )
        .into());
    }
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&starts::data(&advice))?)?;
    } else {
        write!(out, "{}", starts::text(&advice))?;
    }
    Ok(())
}

/// The prices: of one model for all calls, where one is named.
fn book(args: &CostArgs) -> Result<PriceBook> {
    let named = args.prices.as_deref().unwrap_or("bundled");
    match &args.model {
        Some(model) => Ok(prices::list(named, model)?.into()),
        None => prices::open(named),
    }
}

/// What was taken, and what not.
struct Found {
    gathering: Gathering,
    since: Option<Timestamp>,
    taken: usize,
    other: usize,
}

impl Found {
    fn add(&mut self, tenant: Option<&str>, call: Option<SeenCall>) {
        match call {
            None => self.other += 1,
            Some(call) => {
                if self.since.is_none_or(|since| call.at >= since)
                    && tenant.is_none_or(|tenant| call.tenant == tenant)
                {
                    self.taken += 1;
                    self.gathering.add(&call);
                }
            }
        }
    }
}

fn from_ledger(args: &HistoryArgs, found: &mut Found) -> Result<()> {
    let path = match &args.ledger {
        Some(path) => path.clone(),
        None => data::folder()?.join("ledger.sqlite"),
    };
    let ledger = Ledger::open_read(&path).map_err(|error| {
        let hint = match error {
            OpenError::Missing { .. } => Some(
                "calls of 'tapri serve' and 'tapri ask' go there; --from-log reads requests from a log instead",
            ),
            _ => None,
        };
        Failure::new(error, hint)
    })?;
    let filter = Filter { since: found.since, tenant: args.tenant.clone(), ..Filter::default() };
    let queried = ledger.query(&filter, |record| {
        found.add(None, SeenCall::from_record(&record));
        ControlFlow::Continue(())
    })?;
    if queried.unreadable > 0 {
        let count = usize::try_from(queried.unreadable).unwrap_or(usize::MAX);
        eprintln!("warning: records that can't be read were left out: {}", show_count(count));
    }
    Ok(())
}

fn from_logs(args: &HistoryArgs, found: &mut Found) -> Result<()> {
    let sizes = args.from_log.iter().filter_map(|file| file.metadata().ok());
    let scanning = Scanning::start(sizes.map(|data| data.len()).sum());
    for path in &args.from_log {
        let name = path.display().to_string();
        let short = path.file_name().map_or_else(|| name.clone(), |n| n.display().to_string());
        let unreadable = || format!("{name} can't be read");
        let raw: Box<dyn Read> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            scanning.reader(File::open(path).with_context(unreadable)?)
        };
        let mut lines = Lines::new(decompressed(raw).with_context(unreadable)?);
        while let Some(line) = lines.next_json::<Value>().with_context(unreadable)? {
            let number = lines.number();
            match seen(line, &short, number) {
                Ok(call) => found.add(args.tenant.as_deref(), call),
                Err(what) => lines.broken.add(number, what),
            }
        }
        broken::say(&name, &lines.broken);
    }
    Ok(())
}

/// A line's call: a record of the ledger, or a request with its time.
fn seen(line: Value, file: &str, number: u64) -> Result<Option<SeenCall>, String> {
    if line.get("parts").is_some() && line.get("tokens").is_some() && line.get("at").is_some() {
        let record: CallRecord =
            serde_json::from_value(line).map_err(|error| format!("no record: {error}"))?;
        return Ok(SeenCall::from_record(&record));
    }
    let doc = PromptDoc::from_value(&line).map_err(|error| error.to_string())?;
    let at = doc.at.ok_or_else(|| "a request without its time".to_owned())?;
    let name = doc.id.clone().unwrap_or_else(|| format!("{file}:{number}"));
    Ok(SeenCall::from_prompt(&doc, name, at))
}
