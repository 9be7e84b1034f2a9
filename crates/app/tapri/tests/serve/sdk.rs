//! Runs the Python tests of `tests/sdk` in an environment of their own.

use std::path::Path;
use std::process::Command;

use crate::process::Server;
use crate::venv::environment;

/// Runs them against a server.
pub fn run(server: &Server) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/sdk");
    let python = environment("sdk-venv", &tests.join("requirements.txt"));
    let status = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .arg(&tests)
        .env("TAPRI_URL", format!("http://{}", server.address()))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .unwrap();
    assert!(status.success(), "the SDK's tests failed; see above");
}
