//! The command line through the real binary: what it says, what it refuses, and `ask` end to end with smollm2.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod adapters;
mod ask;
mod audit;
mod calls;
mod config;
mod cost;
mod explain;
mod help;
mod ledger;
mod lint;
mod prices;
mod refusals;
mod report;
mod semantic;
mod simulate;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The binary, in a folder of its own, with none of the machine's settings.
pub(crate) struct Shell {
    pub(crate) dir: TempDir,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Shell { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tapri"));
        for (key, _) in
            std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("TAPRI_"))
        {
            command.env_remove(key);
        }
        command.env("TAPRI_DATA", self.dir.path().join("data"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::from(self.command(args).output().unwrap())
    }
}

/// What a run left behind.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Said {
    /// For a snapshot: everything.
    pub(crate) fn all(&self) -> String {
        let code = self.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        format!("exit code: {code}\n--- stdout\n{}--- stderr\n{}", self.out, self.err)
    }
}

pub(crate) fn case_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/case_file").join(name);
    path.to_str().unwrap().to_owned()
}
