//! The real `tapri-fake-upstream` as a child process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

/// A scripted upstream, ended when dropped.
pub struct Upstream {
    child: Child,
    url: String,
}

impl Upstream {
    /// Starts it on a free port.
    pub fn start(arguments: &[&str]) -> Upstream {
        let mut child =
            Command::new(binary()).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("it ended before it listened").unwrap();
        let url = line.strip_prefix("playing on ").unwrap().to_owned();
        Upstream { child, url }
    }

    /// Where it listens, as `http://host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary beside this package's own. `cargo test --workspace` builds it, and `cargo test -p tapri` doesn't: then it is
/// built here, when it is missing or older than its sources.
fn binary() -> PathBuf {
    let own = Path::new(env!("CARGO_BIN_EXE_tapri"));
    let binary = own.with_file_name(format!("tapri-fake-upstream{}", std::env::consts::EXE_SUFFIX));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fake-upstream");
    let made = fs::metadata(&binary).and_then(|data| data.modified());
    if made.is_ok_and(|made| newest(&sources) < made) {
        return binary;
    }
    let folder = own.parent().unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "tapri-fake-upstream", "--target-dir"]);
    build.arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
    if folder.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "tapri-fake-upstream can't be built");
    binary
}

/// When a file in a folder was last changed.
fn newest(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let data = entry.metadata().unwrap();
        let changed =
            if data.is_dir() { self::newest(&entry.path()) } else { data.modified().unwrap() };
        newest = newest.max(changed);
    }
    newest
}
