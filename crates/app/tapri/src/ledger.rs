//! The ledger, as `ask` and `serve` write it and other commands find it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tapri_insight::prices::{Billed, PriceList};
use tapri_ledger::{CallRecord, Cost, Limits, OpenError, SystemClock, Writer, WriterConfig};
use tapri_pipeline::{ExplainConfig, Explainer, Pricing, Recorder};

use crate::quantity;
use crate::{data, failure};

/// How long the end of a program waits for the disk to take the last records.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Which ledger, for commands that read it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ledger")]
pub(crate) struct LedgerFile {
    /// The ledger [default: ledger.sqlite in the data folder]
    #[arg(long, env = "TAPRI_LEDGER", hide_env_values = true, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
}

impl LedgerFile {
    /// The file, which may not exist.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        match &self.ledger {
            Some(path) => Ok(path.clone()),
            None => Ok(data::folder()?.join("ledger.sqlite")),
        }
    }
}

/// How calls are recorded, for commands that run a model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Ledger")]
pub(crate) struct LedgerArgs {
    #[command(flatten)]
    file: LedgerFile,
    /// Record no calls
    #[arg(long)]
    no_ledger: bool,
    /// Record the text of prompts as well, not only fingerprints of it
    #[arg(long, conflicts_with = "no_ledger")]
    ledger_text: bool,
    /// How large the ledger may become before its oldest records go
    #[arg(long, env = "TAPRI_LEDGER_MAX_SIZE", hide_env_values = true, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    ledger_max_size: u64,
    /// How old a record may become
    #[arg(long, env = "TAPRI_LEDGER_MAX_AGE", hide_env_values = true, value_name = "TIME", default_value = "90d", value_parser = quantity::duration)]
    ledger_max_age: Duration,
    /// Quote what changed in the explanations of the ledger and of answers, not only its kind and place
    #[arg(long)]
    explain_values: bool,
}

impl LedgerArgs {
    /// Opens the ledger. One that can't be opened is a warning, and the calls go on: their records are dropped and
    /// counted until it can.
    pub(crate) fn recorder(&self, prices: &PriceList) -> Recorder {
        if self.no_ledger {
            return Recorder::default();
        }
        match self.writer() {
            Ok((writer, error)) => {
                if let Some(error) = error {
                    warn(&error.into());
                } else if let Some(aside) = writer.aside() {
                    eprintln!(
                        "warning: the ledger was corrupt and is now {}; a new one is begun",
                        aside.display()
                    );
                }
                Recorder::new(writer, Some(pricing(prices.clone())))
            }
            Err(error) => {
                warn(&error);
                Recorder::default()
            }
        }
    }

    /// Explains calls, also against those of earlier runs that the ledger remembers. To be asked for after the recorder,
    /// which makes a ledger where there is none.
    pub(crate) fn explainer(&self) -> Explainer {
        let config = ExplainConfig { values: self.explain_values, ..ExplainConfig::default() };
        match self.file.path() {
            Ok(path) if !self.no_ledger && path.exists() => Explainer::with_past(config, &path),
            _ => Explainer::new(config),
        }
    }

    fn writer(&self) -> Result<(Writer, Option<OpenError>)> {
        let config = WriterConfig {
            keep_text: self.ledger_text,
            limits: Limits { bytes: self.ledger_max_size, age: self.ledger_max_age },
            ..WriterConfig::new(self.file.path()?)
        };
        Ok(Writer::open_or_retry(config, Arc::new(SystemClock))?)
    }
}

fn warn(error: &anyhow::Error) {
    eprintln!("warning: calls are not recorded: {}", failure::chain(error));
    if let Some(error) = error.downcast_ref::<OpenError>() {
        eprintln!("hint: {}", error.hint());
    }
}

/// Writes the last records, and says what was lost.
pub(crate) fn close(recorder: &Recorder) {
    let done = recorder.close(LAST_WORDS);
    let dropped = recorder.counts().map_or(0, |counts| counts.dropped);
    if let (1.., Some(error)) = (dropped, recorder.last_error()) {
        let calls = if dropped == 1 { "call was" } else { "calls were" };
        eprintln!("warning: {dropped} {calls} not recorded: {error}");
    }
    if !done {
        eprintln!("warning: the disk did not take the last records in time");
    }
}

/// What a call would cost at a price list.
fn pricing(list: PriceList) -> Pricing {
    Arc::new(move |record: &CallRecord| {
        let used = Billed::from_counts(&record.tokens)?;
        Some(Cost {
            paid: list.cost(&used),
            without_cache: list.without_cache(&used),
            price_list: list.name.clone(),
            price_date: list.date_text(),
        })
    })
}

/// The smallest ledger that holds more than its own tables.
const SMALLEST: u64 = 256 << 10;

fn size(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if bytes < SMALLEST => Err("it must be at least 256KiB".to_owned()),
        bytes => Ok(bytes),
    }
}
