//! Calls from logs.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tapri_insight::lines::{Lines, decompressed};
use tapri_insight::report::Observation;
use tapri_insight::usage::log::{Used, read_log};

use crate::broken;
use crate::failure::Failure;
use crate::progress::Scanning;
use crate::quantity::show_count;

/// Gives every call of some logs.
pub(super) fn read(files: &[PathBuf], on_call: &mut dyn FnMut(Observation)) -> Result<()> {
    let sizes = files.iter().filter_map(|file| file.metadata().ok()).map(|data| data.len());
    let scanning = Scanning::start(sizes.sum());
    let mut used = Used::default();
    let mut any_broken = false;
    for file in files {
        let (found, broken) = read_one(file, &scanning, on_call)?;
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

fn read_one(
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
