//! Files read in a process of their own.
//!
//! A file from outside may be made to harm its reader: to take all memory, to compute for ever, to end the process. So it
//! is read by a child that has nothing else to lose, whose memory, time and files are limited by the system before the
//! first byte is looked at, and which is ended when it takes too long.
//!
//! The child is the same program, told so by a hidden subcommand that calls [`serve`]. It gets the file on stdin and
//! answers one line of JSON on stdout.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Document, DocumentError, Format};

/// The longest answer of a child: far more text than any context takes.
const MOST_TEXT: u64 = 256 << 20;

/// How files are read in a process of their own.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The program that is its own child.
    pub program: PathBuf,
    /// What tells it so, before the file's name.
    pub arguments: Vec<OsString>,
    /// How long a file may take, by the clock.
    pub limit: Duration,
}

/// What a child answers.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Read { format: String, pages: Option<usize>, text: String },
    Empty,
    NotUtf8 { offset: usize },
    Unsupported { kind: String },
    Encrypted,
    Scanned { pages: usize },
    BrokenPdf { detail: String },
    BrokenPage { page: u32, detail: String },
    BrokenDocx { detail: String },
    Bomb,
    Failed { detail: String },
}

/// The child's part: reads a file from `input`, and writes what came of it to `output`. Limits are the caller's to set
/// before.
///
/// # Errors
/// Where the one can't be read or the other can't be written.
pub fn serve(name: &str, mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let answer = match Document::from_bytes(name, &bytes) {
        Ok(document) => Answer::Read {
            format: document.format().as_str().to_owned(),
            pages: document.pages(),
            text: document.into_text(),
        },
        Err(error) => told(error),
    };
    serde_json::to_writer(&mut output, &answer)?;
    output.write_all(b"\n")?;
    output.flush()
}

fn told(error: DocumentError) -> Answer {
    match error {
        DocumentError::Empty { .. } => Answer::Empty,
        DocumentError::NotUtf8 { offset, .. } => Answer::NotUtf8 { offset },
        DocumentError::Unsupported { kind, .. } => Answer::Unsupported { kind: kind.to_owned() },
        DocumentError::Encrypted { .. } => Answer::Encrypted,
        DocumentError::Scanned { pages, .. } => Answer::Scanned { pages },
        DocumentError::BrokenPdf { detail, .. } => Answer::BrokenPdf { detail },
        DocumentError::BrokenPage { page, detail, .. } => Answer::BrokenPage { page, detail },
        DocumentError::BrokenDocx { detail, .. } => Answer::BrokenDocx { detail },
        DocumentError::Bomb { .. } => Answer::Bomb,
        other => Answer::Failed { detail: other.to_string() },
    }
}

impl Guard {
    /// Reads a file's bytes in a child. Blocks until it ends or is ended.
    ///
    /// # Errors
    /// See [`DocumentError`]: those of [`Document::from_bytes`], and [`DocumentError::Costly`] for one that took too much.
    pub fn read(&self, name: &str, bytes: &[u8]) -> Result<Document, DocumentError> {
        let failed = |source: io::Error| DocumentError::Io { path: PathBuf::from(name), source };
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(name);
        // What the parent's environment holds (keys, addresses) is none of the child's business.
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().map_err(failed)?;
        let mut child = Ended(child);
        let (stdin, stdout) = (child.0.stdin.take(), child.0.stdout.take());
        let (sender, answered) = channel();
        let read = thread::scope(|scope| {
            scope.spawn(move || {
                // A child that ended early reads no further; its answer or its end says why.
                if let Some(mut stdin) = stdin {
                    let _ = stdin.write_all(bytes);
                }
            });
            scope.spawn(move || {
                let mut answer = Vec::new();
                if let Some(stdout) = stdout {
                    let _ = stdout.take(MOST_TEXT).read_to_end(&mut answer);
                }
                let _ = sender.send(answer);
            });
            let answer = answered.recv_timeout(self.limit);
            // Ended before the threads are waited for: that closes their pipes.
            if matches!(answer, Err(RecvTimeoutError::Timeout)) {
                let _ = child.0.kill();
            }
            answer
        });
        let status = child.0.wait().map_err(failed)?;
        let costly = || DocumentError::Costly { name: name.to_owned() };
        let answer = read.map_err(|_| costly())?;
        match serde_json::from_slice(&answer) {
            Ok(answer) if status.success() => understand(name, answer),
            _ if was_limited(status) => Err(costly()),
            _ => Err(DocumentError::BrokenPdf {
                name: name.to_owned(),
                detail: "its reader broke off".to_owned(),
            }),
        }
    }
}

fn understand(name: &str, answer: Answer) -> Result<Document, DocumentError> {
    let name = name.to_owned();
    Err(match answer {
        Answer::Read { format, pages, text } => {
            let format = Format::of(&format).unwrap_or(Format::Text);
            return Ok(Document::of_parts(name, format, pages, text));
        }
        Answer::Empty => DocumentError::Empty { name },
        Answer::NotUtf8 { offset } => DocumentError::NotUtf8 { name, offset },
        Answer::Unsupported { kind } => DocumentError::Unsupported { name, kind: kind_of(&kind) },
        Answer::Encrypted => DocumentError::Encrypted { name },
        Answer::Scanned { pages } => DocumentError::Scanned { name, pages },
        Answer::BrokenPdf { detail } | Answer::Failed { detail } => {
            DocumentError::BrokenPdf { name, detail }
        }
        Answer::BrokenPage { page, detail } => DocumentError::BrokenPage { name, page, detail },
        Answer::BrokenDocx { detail } => DocumentError::BrokenDocx { name, detail },
        Answer::Bomb => DocumentError::Bomb { name },
    })
}

/// The kinds are few and known; a child can't bring words of its own.
fn kind_of(kind: &str) -> &'static str {
    crate::document::KINDS
        .into_iter()
        .find(|known| *known == kind)
        .unwrap_or("another kind of file")
}

/// Whether the system ended it: for its time (SIGXCPU, SIGKILL), or since it got no more memory (SIGABRT, SIGSEGV).
#[cfg(unix)]
fn was_limited(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal().is_some()
}

#[cfg(not(unix))]
fn was_limited(_: ExitStatus) -> bool {
    false
}

/// A child that doesn't outlive the reading.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
