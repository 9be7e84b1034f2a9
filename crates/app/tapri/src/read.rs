//! `tapri read-document`: the process in which `tapri serve` has a file from outside read.

use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use tapri_casefile::{Guard, guard};

/// How long a file may take by the clock: the machine may have much else to do.
const LIMIT: Duration = Duration::from_secs(120);

/// How long it may compute, in seconds. A thousand pages take some ten.
#[cfg(unix)]
const CPU: u64 = 60;

/// The most memory of the process, its program and the extractor's deep stack included.
#[cfg(unix)]
const MEMORY: u64 = 1 << 30;

/// What the process is told.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The file's name
    name: String,
}

/// Reads stdin, and answers on stdout.
pub(crate) fn run(args: &ReadArgs) -> Result<ExitCode> {
    limit()?;
    guard::serve(&args.name, stdin().lock(), stdout().lock())?;
    Ok(ExitCode::SUCCESS)
}

/// How this program reads files in a process of its own.
pub(crate) fn guard() -> Result<Guard> {
    let program = std::env::current_exe().context("this program's own file is not known")?;
    // On Linux the file may have been replaced by a newer one meanwhile; this is still the one that runs.
    let own = PathBuf::from("/proc/self/exe");
    let program = if own.exists() { own } else { program };
    Ok(Guard { program, arguments: vec!["read-document".into(), "--".into()], limit: LIMIT })
}

/// What the system holds this process to from here on. It writes no file, so that nothing it is made to do can.
#[cfg(unix)]
fn limit() -> Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    for (what, most) in [
        (Resource::As, MEMORY),
        (Resource::Cpu, CPU),
        (Resource::Core, 0),
        (Resource::Nofile, 16),
        (Resource::Fsize, 0),
    ] {
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })
            .context("the limits of this process can't be set")?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn limit() -> Result<()> {
    Ok(())
}
