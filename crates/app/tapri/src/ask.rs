//! `tapri ask`.

mod asking;
mod display;
mod questions;
mod record;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use tapri_casefile::{Document, Layout, Room, Session};

use crate::ask::asking::{Asked, Asker};
use crate::ask::display::Display;
use crate::ask::questions::Questions;
use crate::ask::record::Report;
use crate::cli::AskArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::ledger;
use crate::load;
use crate::prices;
use crate::quantity::show_count;

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(args: &AskArgs) -> Result<ExitCode> {
    // Whatever may be wrong with the arguments is said before a model is pulled and loaded.
    let mut questions = Questions::new(args)?;
    let adapter = adapter(args)?;
    let prices = prices::list(&args.prices, &args.model.to_string())?;
    let document = Document::open(&args.file).map_err(|error| {
        let hint = error.hint();
        Failure::new(error, hint)
    })?;
    let load::Recorded { pipeline, recorder, .. } =
        load::recorded(&args.model, &args.engine, &args.ledger, &prices)?;
    let card = pipeline.model(adapter).map_err(asking::failure)?;
    let layout = Layout::of(card.template);
    // An engine of our own knows its context.
    let room = Room { context: card.context.unwrap_or(usize::MAX), answer: args.max_tokens.get() };
    introduce(&document, layout);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = Session::new(document, layout, room);
    let mut display = Display::new(args.json);
    let mut report = Report::new(card.id.clone(), !args.engine.no_prefix_cache, prices);
    let mut asker = Asker::new(pipeline.clone(), session, args, adapter.map(str::to_owned));
    let ended = runtime.block_on(async {
        let interrupt = Interrupt::listen().await;
        while let Some(question) = questions.next(&interrupt).await? {
            match asker.ask(&question, &interrupt, &mut display).await? {
                Asked::Answered(record) => {
                    let cost = report.cost(&record);
                    display.row(&record, &cost)?;
                    report.add(record);
                }
                Asked::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            }
        }
        Ok(ExitCode::SUCCESS)
    });
    // A thread that reads from a terminal can't be waited for.
    runtime.shutdown_background();
    // What was read is kept for the next time, where there is a disk.
    pipeline.shutdown(Duration::ZERO);
    ledger::close(&recorder);
    // What was answered before an error or Ctrl-C is as true as before.
    display.summary(&report)?;
    ended
}

/// The adapter that all questions are asked with.
fn adapter(args: &AskArgs) -> Result<Option<&str>> {
    match &args.engine.lora[..] {
        [] => Ok(None),
        [one] => Ok(Some(&one.name)),
        _ => Err(Failure::usage(
            "'tapri ask' asks with one adapter, and --lora names several",
            "leave one, or load them all with 'tapri serve' and choose one by its name as the model",
        )
        .into()),
    }
}

fn introduce(document: &Document, layout: Layout) {
    let pages = document.pages().map_or_else(String::new, |pages| format!("{pages} pages, "));
    eprintln!(
        "{}: {pages}{} characters",
        document.name(),
        show_count(document.text().chars().count())
    );
    if layout == Layout::Completion {
        eprintln!(
            "note: the model has no chat template: it is asked as a base model, in plain text, and answers poorly"
        );
    }
}
