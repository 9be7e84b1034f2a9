//! The requests in a better order, and what that would have reused.

use std::fs::File;
use std::io::{BufRead, Read, Write, stdout};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use tapri_insight::lines::{Lines, decompressed};
use tapri_insight::lint::suggest::{Changing, Reuse};
use tapri_insight::prompt::PromptDoc;

use crate::broken;
use crate::failure::Failure;
use crate::lint::files;
use crate::quantity::{show_count, show_share};

/// A file whose requests are read.
enum Requests {
    /// One document.
    One(Value),
    /// A request on each line.
    Lines,
}

pub(super) fn run(paths: &[PathBuf]) -> Result<()> {
    let paths = files::expand(paths)?;
    // What changes shows only over all of them, so they are read twice.
    let mut changing = Changing::default();
    for path in &paths {
        each(path, true, &mut |request| {
            changing.see(&request);
            Ok(())
        })?;
    }
    let (mut before, mut after) = (Reuse::default(), Reuse::default());
    let (mut requests, mut changed, mut lines, mut tools) = (0usize, 0usize, 0u64, 0usize);
    let mut out = stdout().lock();
    let single = paths.len() == 1;
    for path in &paths {
        let pretty = single && matches!(open(path)?, Requests::One(_));
        each(path, false, &mut |mut request| {
            let Ok(doc) = PromptDoc::from_value(&request) else { return Ok(()) };
            before.add(&doc);
            let moved = changing.reorder(&mut request);
            after.add(&PromptDoc::from_value(&request)?);
            requests += 1;
            changed += usize::from(!moved.nothing());
            lines += moved.lines;
            tools += usize::from(moved.tools);
            if pretty {
                writeln!(out, "{}", serde_json::to_string_pretty(&request)?)?;
            } else {
                writeln!(out, "{request}")?;
            }
            Ok(())
        })?;
    }
    out.flush()?;
    if requests == 0 {
        let hint =
            "a request has messages, input or prompt, as OpenAI's and Anthropic's APIs take it";
        return Err(Failure::new(anyhow!("there is no request to put in order"), Some(hint)).into());
    }
    eprintln!(
        "{} of {} requests in another order: {} lines moved to the end, tools sorted in {}",
        show_count(changed),
        show_count(requests),
        lines,
        show_count(tools)
    );
    let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
    for (what, reuse) in [("as they are", &before), ("in the better order", &after)] {
        eprintln!(
            "{what}: {} of {} prompt tokens ({}) would have been reused",
            show_count(size(reuse.reused)),
            show_count(size(reuse.prompt)),
            show_share(size(reuse.reused), size(reuse.prompt)),
        );
    }
    eprintln!(
        "estimate: tokens by the length of the text, with a cache that forgets nothing; no file was changed"
    );
    Ok(())
}

/// Gives every request of a file.
fn each(path: &Path, say: bool, on: &mut dyn FnMut(Value) -> Result<()>) -> Result<()> {
    let name = path.display().to_string();
    match open(path)? {
        Requests::One(Value::Array(items))
            if items.first().is_some_and(|item| item.get("role").is_none()) =>
        {
            items.into_iter().try_for_each(on)
        }
        Requests::One(request) => on(request),
        Requests::Lines => {
            let file = File::open(path).with_context(|| format!("{name} can't be read"))?;
            let mut lines = Lines::new(decompressed(file)?);
            while let Some(request) =
                lines.next_json::<Value>().with_context(|| format!("{name} can't be read"))?
            {
                on(request)?;
            }
            if say {
                broken::say(&name, &lines.broken);
            }
            Ok(())
        }
    }
}

/// One document, where the first line isn't a whole one.
fn open(path: &Path) -> Result<Requests> {
    let name = path.display().to_string();
    let unreadable = || format!("{name} can't be read");
    let mut reader =
        decompressed(File::open(path).with_context(unreadable)?).with_context(unreadable)?;
    let mut line = Vec::new();
    reader.by_ref().take(64 << 20).read_until(b'\n', &mut line).with_context(unreadable)?;
    let rest =
        reader.fill_buf().with_context(unreadable)?.iter().any(|byte| !byte.is_ascii_whitespace());
    match serde_json::from_slice::<Value>(&line) {
        Ok(_) if rest => Ok(Requests::Lines),
        Ok(value) => Ok(Requests::One(value)),
        Err(_) if line.starts_with(b"{") && line.trim_ascii_end().ends_with(b"}") => {
            Ok(Requests::Lines)
        }
        Err(_) => {
            reader.take(256 << 20).read_to_end(&mut line).with_context(unreadable)?;
            let value = serde_json::from_slice(&line).map_err(|error| {
                let error = anyhow!("{name} is not JSON: {error}");
                Failure::new(
                    error,
                    Some("give a request, an array of them, or a log with one on each line"),
                )
            })?;
            Ok(Requests::One(value))
        }
    }
}
