//! This test binary once more as a process of its own, for what can't be tried on oneself: being killed, a full disk.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Names the ledger to a child, and tells it from a plain run of ignored tests.
const LEDGER: &str = "TAPRI_TEST_CHILD_LEDGER";

/// In a child: the ledger it is to write.
pub(crate) fn ledger() -> Option<PathBuf> {
    std::env::var_os(LEDGER).map(PathBuf::from)
}

/// In a child: says a line to the parent.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "child: {line}").unwrap();
    out.flush().unwrap();
}

/// A running child and what it says.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Runs an ignored test of this binary as a child. `shell` stands before `exec`: what the child is to inherit.
pub(crate) fn run(test: &str, ledger: &Path, shell: &str) -> Running {
    let mut child = Command::new("sh")
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(LEDGER, ledger)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Running { child, lines }
}

impl Running {
    /// What it says next; `None` at its end.
    pub(crate) fn next(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.ok()?;
            if let Some((_, said)) = line.split_once("child: ") {
                return Some(said.to_owned());
            }
        }
    }

    /// Waits for its end, which has to be a good one.
    pub(crate) fn end(mut self) {
        while self.next().is_some() {}
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
