//! From files to a trace.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tapri_insight::lines::{Broken, Lines, decompressed};
use tapri_insight::simulate::{Format, ReadError, Reader, Trace};

use super::{SimulateArgs, ledger};
use crate::broken;
use crate::failure::Failure;
use crate::progress::Scanning;

/// What was read.
pub(super) struct Input {
    pub(super) trace: Trace,
    pub(super) format: Format,
    pub(super) files: usize,
    pub(super) broken: u64,
    pub(super) without_blocks: u64,
}

pub(super) fn read(args: &SimulateArgs) -> Result<Input> {
    if args.traces.is_empty() {
        return ledger::read(args);
    }
    let files = files(&args.traces)?;
    let total = files.iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum();
    let bar = Scanning::start(total);
    let mut reader = Reader::new(args.block_tokens, args.stagger.unwrap_or_default());
    let mut broken = 0;
    for path in &files {
        let found = read_file(&mut reader, path, &bar).map_err(|error| failed(path, error))?;
        broken::say(&path.display().to_string(), &found);
        broken += found.count;
    }
    drop(bar);
    let name = args.traces.first().map(|path| path.display().to_string()).unwrap_or_default();
    finish(reader, &name, files.len(), broken)
}

/// The trace of all that was read.
pub(super) fn finish(reader: Reader, name: &str, files: usize, broken: u64) -> Result<Input> {
    let (format, without_blocks) = (reader.format(), reader.without_blocks());
    let (Some(format), Ok(trace)) = (format, reader.finish()) else {
        return Err(nothing(name, without_blocks).into());
    };
    if without_blocks > 0 {
        eprintln!("note: calls whose blocks are not known were left out: {without_blocks}");
    }
    Ok(Input { trace, format, files, broken, without_blocks })
}

fn nothing(what: &str, without_blocks: u64) -> Failure {
    if without_blocks > 0 {
        return Failure::new(
            anyhow::anyhow!("{what}: none of {without_blocks} calls has a known list of blocks"),
            Some("only calls that an embedded model ran have one"),
        );
    }
    Failure::new(
        anyhow::anyhow!("{what} has no call that can be replayed"),
        Some(
            "it should be lines with hash_ids and input_length, recorded sessions with requests, or call records",
        ),
    )
}

fn failed(path: &Path, error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Session(error) if error.is_syntax() || error.is_data() || error.is_eof() => {
            let error = anyhow::Error::new(error)
                .context(format!("{} is no recorded session", path.display()));
            Failure::new(error, Some("files with one call a line are called .jsonl")).into()
        }
        ReadError::Session(error) => anyhow::Error::new(error).context(cannot_read(path)),
        ReadError::Io(error) => anyhow::Error::new(error).context(cannot_read(path)),
        error => anyhow::Error::new(error).context(path.display().to_string()),
    }
}

fn cannot_read(path: &Path) -> String {
    format!("{} could not be read", path.display())
}

/// The files themselves, and those of folders that look like traces, by name.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut within = Vec::new();
        for entry in fs::read_dir(path).with_context(|| cannot_read(path))? {
            let path = entry.with_context(|| cannot_read(path))?.path();
            if path.is_file() && kind(&path).is_some() {
                within.push(path);
            }
        }
        if within.is_empty() {
            let message = anyhow::anyhow!("{} has no traces", path.display());
            return Err(Failure::new(
                message,
                Some("they are called .jsonl or .json, with or without .gz"),
            )
            .into());
        }
        within.sort();
        files.extend(within);
    }
    Ok(files)
}

#[derive(PartialEq)]
enum Kind {
    Lines,
    Document,
}

/// What a file's name says, `.gz` aside.
fn kind(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    match Path::new(name).extension()?.to_str()? {
        "jsonl" | "ndjson" => Some(Kind::Lines),
        "json" => Some(Kind::Document),
        _ => None,
    }
}

fn read_file(reader: &mut Reader, path: &Path, bar: &Scanning) -> Result<Broken, ReadError> {
    let input = decompressed(bar.reader(File::open(path)?))?;
    if kind(path) == Some(Kind::Document) {
        return reader.read_session(input);
    }
    let mut lines = Lines::new(input);
    reader.read_lines(&mut lines)?;
    Ok(lines.broken)
}
