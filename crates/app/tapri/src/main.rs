//! The command line of Tapri: `pull` brings models, `ask` asks questions about a document, `serve` serves a model
//! over HTTP. Wiring only; the work is done by the crates below.
//!
//! Data goes to stdout, progress and notes to stderr. Exit codes: 0 well, 1 failed, 2 wrongly used,
//! 130 interrupted.

// The only place that speaks to the person at the terminal.
#![expect(clippy::print_stderr, reason = "a command line prints")]

mod ask;
mod audit;
mod broken;
mod cache;
mod calls;
mod cli;
mod config;
mod cost;
mod data;
mod embed;
mod explain;
mod failure;
mod interrupt;
mod keys;
mod ledger;
mod lint;
mod load;
mod prices;
mod progress;
mod pull;
mod quantity;
mod read;
mod report;
mod semantic;
mod serve;
mod simulate;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    quiet_extraction();
    let result = match Cli::parse().command {
        Command::Ask(args) => ask::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Calls(args) => calls::run(&args),
        Command::Config(args) => config::command::run(&args),
        Command::Cost(args) => cost::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Prices(args) => prices::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::ReadDocument(args) => read::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Semantic(args) => semantic::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Simulate(args) => simulate::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) if reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", failure::chain(&error));
            let failure = error.downcast_ref::<Failure>();
            if let Some(hint) = failure.and_then(Failure::hint) {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(failure.map_or(1, Failure::code))
        }
    }
}

/// Whether stdout was closed by its reader (`tapri pull | head -1`), which is no failure.
fn reader_left(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Keeps panics of the PDF extractor from being printed: they come back as errors about the document.
fn quiet_extraction() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() != Some(tapri_casefile::EXTRACTION_THREAD) {
            print(info);
        }
    }));
}
