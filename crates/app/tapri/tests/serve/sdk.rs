//! Runs the Python tests of `tests/sdk` in an environment of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Server;

/// Runs them against a server.
pub fn run(server: &Server) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/sdk");
    let python = environment(&tests.join("requirements.txt"));
    let status = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(&tests)
        .env("TAPRI_URL", format!("http://{}", server.address()))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .unwrap();
    assert!(status.success(), "the SDK's tests failed; see above");
}

/// The Python of an environment with the pinned packages, made under `target` when it isn't there or is out of date.
fn environment(requirements: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-venv");
    let python = root.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let wanted = fs::read_to_string(requirements).unwrap();
    // Written last, so that an environment that was half made is made again.
    let stamp = root.join("tapri-requirements.txt");
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return python;
    }
    eprintln!("installing the SDKs for the tests into {}", root.display());
    let base = if cfg!(windows) { "python" } else { "python3" };
    check(
        Command::new(base).args(["-m", "venv", "--clear"]).arg(&root),
        "make a virtual environment",
    );
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "-r"]).arg(requirements);
    // Progress is for people: not to stdout, which is the test's own.
    pip.stdout(std::io::stderr());
    check(&mut pip, "install the SDKs");
    fs::write(stamp, wanted).unwrap();
    python
}

fn check(command: &mut Command, what: &str) {
    let status = command.status().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(status.success(), "{what}: {status}");
}
