//! Requests from files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result};
use tapri_insight::history::{ReadError, Scanned, read};
use tapri_insight::lines::decompressed;
use tapri_insight::prompt::PromptDoc;

use super::ExplainArgs;
use crate::broken;
use crate::failure::Failure;
use crate::progress::Working;

/// What a request looks like, for who gave something else.
const REQUEST: &str = "a request has messages (OpenAI, Anthropic), input (responses) or prompt (completions), by itself \
                       or under request or body";

/// The one request of a file.
pub(super) fn one(path: &Path, args: &ExplainArgs) -> Result<PromptDoc> {
    let mut docs = Vec::new();
    let scanned = scan(path, args, &mut |doc, _| {
        if docs.is_empty() {
            docs.push(doc);
        }
    })?;
    match (docs.pop(), scanned.calls) {
        (Some(doc), 1) => Ok(doc),
        (Some(_), calls) => Err(Failure::usage(
            format!("{} holds {calls} requests; of two files each holds one", path.display()),
            "give the log alone to explain all of its calls",
        )
        .into()),
        (None, _) => {
            let why = scanned.broken.first.first().map(|(_, why)| why.clone());
            let error = anyhow::anyhow!("{}: {}", path.display(), why.unwrap_or_default());
            Err(Failure::new(error, Some(REQUEST)).into())
        }
    }
}

/// Every request of a file; what can't be used is said on stderr.
pub(super) fn all(
    path: &Path,
    args: &ExplainArgs,
    sink: &mut dyn FnMut(PromptDoc, String),
) -> Result<()> {
    let scanned = scan(path, args, sink)?;
    if !scanned.elements {
        broken::say(&path.display().to_string(), &scanned.broken);
        return Ok(());
    }
    if scanned.broken.count > 0 {
        eprintln!(
            "warning: {} elements of {} could not be used",
            scanned.broken.count,
            path.display()
        );
        for (number, why) in &scanned.broken.first {
            eprintln!("  element {number}: {why}");
        }
    }
    Ok(())
}

/// An error for a file without a request.
pub(super) fn no_call(path: &Path) -> Failure {
    Failure::new(anyhow::anyhow!("{} holds no request", path.display()), Some(REQUEST))
}

fn scan(
    path: &Path,
    args: &ExplainArgs,
    sink: &mut dyn FnMut(PromptDoc, String),
) -> Result<Scanned> {
    let unreadable = || format!("{} could not be read", path.display());
    let file = File::open(path).with_context(unreadable)?;
    let length = fs::metadata(path).map(|found| found.len()).unwrap_or(0);
    let bar = Working::start("reading", length);
    let counted = Counted { file, done: 0, bar };
    let reader = decompressed(counted).with_context(unreadable)?;
    read(reader, args.format.map(Into::into), sink).map_err(|error| match error {
        ReadError::Io(error) => anyhow::Error::new(error).context(unreadable()),
        error => {
            let error = anyhow::Error::new(error).context(format!("{}", path.display()));
            Failure::new(error, Some(REQUEST)).into()
        }
    })
}

/// A file that moves a bar while it is read.
struct Counted {
    file: File,
    done: u64,
    bar: Working,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.done += read as u64;
        self.bar.at(self.done);
        Ok(read)
    }
}
