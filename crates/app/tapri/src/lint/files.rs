//! Files and folders of requests, and the places of findings in them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use tapri_insight::history;
use tapri_insight::lines::{MAX_LINE, decompressed};
use tapri_insight::lint::locate::{Position, byte_of, position};
use tapri_insight::lint::sarif::Located;
use tapri_insight::lint::{Finding, Linter};
use tapri_insight::rules::Rules;

use crate::broken;
use crate::failure::Failure;
use crate::progress::Scanning;

/// What was found in a file.
pub(super) struct Linted {
    pub(super) requests: u64,
    pub(super) found: Vec<Located>,
}

/// A file longer than this that is one document has no lines and columns in its findings.
const LOCATED: u64 = 64 << 20;

/// The files that paths stand for: folders are walked for `.json`, `.jsonl` and `.ndjson`, also gzipped, in order.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            walk(path, &mut files)?;
            if files.len() == before {
                let error = anyhow!("the folder {} has no .json or .jsonl file", path.display());
                return Err(Failure::new(error, Some("name the files themselves")).into());
            }
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let unreadable = || format!("{} can't be read", folder.display());
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        entries.push(entry.with_context(unreadable)?.path());
    }
    entries.sort();
    for path in entries {
        // A link to a folder may lead in a circle.
        if path.is_dir() && !path.is_symlink() {
            walk(&path, files)?;
        } else if path.is_file() {
            let name = path.to_string_lossy().to_ascii_lowercase();
            let name = name.strip_suffix(".gz").unwrap_or(&name);
            if [".json", ".jsonl", ".ndjson"].iter().any(|ending| name.ends_with(ending)) {
                files.push(path);
            }
        }
    }
    Ok(())
}

/// Checks a file.
pub(super) fn lint(path: &Path, rules: &Rules) -> Result<Linted> {
    let name = path.display().to_string();
    let unreadable = || format!("{name} can't be read");
    let file = File::open(path).with_context(unreadable)?;
    let scanning = Scanning::start(file.metadata().map_or(0, |data| data.len()));
    let reader = decompressed(scanning.reader(file)).with_context(unreadable)?;
    let mut linter = Linter::new(Some(rules));
    let scanned = history::read(reader, None, &mut |doc, at| linter.add(doc, &at))
        .with_context(unreadable)?;
    drop(scanning);
    broken::say(&name, &scanned.broken);
    if scanned.calls == 0 {
        let hint =
            "a request has messages, input or prompt, as OpenAI's and Anthropic's APIs take it";
        return Err(Failure::new(anyhow!("there is no request in {name}"), Some(hint)).into());
    }
    let requests = linter.requests();
    let found = linter.finish();
    let places = places(path, &found).with_context(unreadable)?;
    let located = |(finding, position)| Located { file: name.clone(), position, finding };
    Ok(Linted { requests, found: found.into_iter().zip(places).map(located).collect() })
}

/// Line and column of each finding. The file is read a second time, since few of its lines matter.
fn places(path: &Path, found: &[Finding]) -> io::Result<Vec<Option<Position>>> {
    let mut places = vec![None; found.len()];
    let mut by_line: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut whole = Vec::new();
    for (index, finding) in found.iter().enumerate() {
        match finding.at.strip_prefix("line ").map(|at| at.split(',').next().unwrap_or(at)) {
            Some(line) => by_line.entry(line.parse().unwrap_or(0)).or_default().push(index),
            None => whole.push(index),
        }
    }
    if !whole.is_empty() {
        let mut text = String::new();
        let mut reader = decompressed(File::open(path)?)?.take(LOCATED);
        if reader.read_to_string(&mut text).is_ok() {
            for index in whole {
                places[index] = place(&text, &found[index], 1);
            }
        }
    }
    let Some(last) = by_line.keys().next_back().copied() else { return Ok(places) };
    let mut reader = decompressed(File::open(path)?)?;
    let mut line = Vec::new();
    for number in 1..=last {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        for index in by_line.get(&number).into_iter().flatten() {
            let line_number = usize::try_from(number).unwrap_or(usize::MAX);
            let text = std::str::from_utf8(&line).ok();
            places[*index] = text
                .and_then(|text| place(text, &found[*index], line_number))
                .or(Some(Position { line: line_number, column: 1 }));
        }
    }
    Ok(places)
}

/// The place of a finding in a document that begins on this line of the file.
fn place(text: &str, finding: &Finding, first_line: usize) -> Option<Position> {
    let element = finding
        .at
        .strip_prefix("element ")
        .and_then(|at| at.split(',').next()?.parse::<usize>().ok()?.checked_sub(1));
    let path = match element {
        Some(element) => format!("[{element}].{}", finding.path),
        None => finding.path.clone(),
    };
    let byte = byte_of(text, &path, finding.character)?;
    let at = position(text, byte);
    Some(Position { line: at.line + first_line - 1, ..at })
}
