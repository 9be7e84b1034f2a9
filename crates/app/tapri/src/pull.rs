//! `tapri pull`.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{Table, presets};
use tapri_registry::catalogue::{self, SUGGESTIONS};
use tapri_registry::{ModelRef, PullError, Puller, Recheck};

use crate::cli::PullArgs;
use crate::failure::Failure;
use crate::progress::Pulling;
use crate::quantity::show_bytes;

pub(crate) fn run(args: &PullArgs) -> Result<ExitCode> {
    match &args.model {
        // Who pulls a model that is there wants to know that it is right.
        Some(model) => {
            let path = pulled(model, Recheck::Yes)?;
            writeln!(stdout(), "{}", path.display())?;
        }
        None => list()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The model's file, pulled if it is missing.
pub(crate) fn pulled(model: &ModelRef, recheck: Recheck) -> Result<PathBuf> {
    let mut display = Pulling::default();
    let path = Puller::from_env()
        .and_then(|puller| puller.get(model, recheck, &mut |event| display.on(event)));
    display.finish();
    Ok(path.map_err(failure)?)
}

fn failure(error: PullError) -> Failure {
    let hint = error.hint();
    Failure::new(error, hint)
}

fn list() -> Result<()> {
    let puller = Puller::from_env().map_err(failure)?;
    let folder = puller.folder();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "size", "licence", "where"]);
    for model in catalogue::models() {
        let place = match folder.find(model) {
            Some(path) => path.display().to_string(),
            None => format!("not pulled ({} to download)", show_bytes(model.download_bytes())),
        };
        table.add_row([
            model.name.to_owned(),
            show_bytes(model.bytes),
            model.licence.name.to_owned(),
            place,
        ]);
    }
    for (path, bytes) in folder.files() {
        if !catalogue::models().iter().any(|model| folder.file_of(model) == path) {
            table.add_row([
                "-".to_owned(),
                show_bytes(bytes),
                "-".to_owned(),
                path.display().to_string(),
            ]);
        }
    }
    let mut out = stdout().lock();
    writeln!(out, "Models by name (in {}):\n", folder.path().display())?;
    writeln!(out, "{}\n", lines(&table))?;
    for model in catalogue::models() {
        writeln!(out, " {}: {}", model.name, model.about)?;
    }
    writeln!(
        out,
        "\nThose that answer are small and answer poorly: they are there to try the machinery with. Models worth having, \
         tuned to answer:\n"
    )?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "what", "licence"]);
    for suggestion in SUGGESTIONS {
        table.add_row([suggestion.reference, suggestion.about, suggestion.licence]);
    }
    writeln!(out, "{}\n", lines(&table))?;
    writeln!(out, "Bring one with: tapri pull NAME")?;
    Ok(())
}

/// A table without the spaces that fill up its last column.
pub(crate) fn lines(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
