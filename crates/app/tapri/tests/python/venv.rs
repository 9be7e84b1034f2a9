//! Python environments for tests that need one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python of an environment with the pinned packages, made under `target` when it isn't there or is out of date.
pub fn environment(name: &str, requirements: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Tests run side by side, and one alone may make it. The lock goes with the file.
    let lock = File::create(root.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let python = root.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let wanted = fs::read_to_string(requirements).unwrap();
    // Written last, so that an environment that was half made is made again.
    let stamp = root.join("tapri-requirements.txt");
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return python;
    }
    eprintln!("installing Python packages for the tests into {}", root.display());
    let base = if cfg!(windows) { "python" } else { "python3" };
    check(
        Command::new(base).args(["-m", "venv", "--clear"]).arg(&root),
        "make a virtual environment",
    );
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "-r"]).arg(requirements);
    // Progress is for people: not to stdout, which is the test's own.
    pip.stdout(std::io::stderr());
    check(&mut pip, "install the packages");
    fs::write(stamp, wanted).unwrap();
    python
}

/// Runs a command that has to succeed.
pub fn check(command: &mut Command, what: &str) {
    let status = command.status().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(status.success(), "{what}: {status}");
}
