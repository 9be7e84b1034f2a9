//! The pages in a real browser: the real binary with the smollm2 model, and Debian's Chromium, headless, driven by
//! Playwright from `tests/pages`. Each test here is a file there.
//!
//! With `TAPRI_SCREENSHOTS` set, pictures of every page go into `docs/screenshots`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

#[path = "../python/venv.rs"]
mod venv;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use tapri_fake_upstream::{Fake, FakeConfig};
use venv::{check, environment};

/// One browser at a time: each takes as much of the machine as it finds.
static TURN: Mutex<()> = Mutex::new(());

/// The browser, installed where that may be done and it is missing.
fn chromium() -> PathBuf {
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let named = std::env::var_os("TAPRI_CHROMIUM").map(PathBuf::from);
    let find = || named.clone().into_iter().chain(known.map(PathBuf::from)).find(|it| it.exists());
    if let Some(found) = find() {
        return found;
    }
    eprintln!("installing Chromium for the tests of the pages");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.stdout(std::io::stderr());
        check(&mut command, "install Chromium; or name one in TAPRI_CHROMIUM");
    };
    apt(&["update", "-q"]);
    apt(&["install", "-y", "-q", "--no-install-recommends", "chromium", "fonts-dejavu-core"]);
    find().expect("Chromium was installed and is not there")
}

/// Runs a file of `tests/pages`.
fn run(file: &str) {
    run_with(file, &[]);
}

/// The same with variables of its own.
fn run_with(file: &str, variables: &[(&str, String)]) {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let tests = root.join("tests/pages");
    let python = environment("pages-venv", &tests.join("requirements.txt"));
    let model = tapri_registry::test_model("smollm2");
    let status = Command::new(python)
        .args(["-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider"])
        .arg(tests.join(file))
        .env("TAPRI_BINARY", env!("CARGO_BIN_EXE_tapri"))
        .env("TAPRI_TEST_MODEL", model)
        .env("TAPRI_TEST_CHROMIUM", chromium())
        .env("TAPRI_REPOSITORY", root)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().cloned())
        .status()
        .unwrap();
    assert!(status.success(), "a test of the pages failed; see above");
}

#[test]
fn files_questions_and_answers() {
    run("test_casefile.py");
}

#[test]
fn who_may_look_and_what_the_browser_is_held_to() {
    run("test_access.py");
}

#[test]
fn what_can_not_be_read_or_does_not_fit() {
    run("test_bad_input.py");
}

#[test]
fn tools_at_a_scripted_upstream() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let fake = runtime.block_on(Fake::start(FakeConfig::default())).unwrap();
    run_with("test_tools.py", &[("TAPRI_FAKE_UPSTREAM", fake.url())]);
    runtime.block_on(fake.stop());
}

#[test]
fn search_that_a_small_model_is_kept_to() {
    run("test_search.py");
}

#[test]
fn a_semantic_cache_with_the_real_encoder() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let fake = runtime.block_on(Fake::start(FakeConfig::default())).unwrap();
    let encoder = tapri_registry::test_model("all-minilm-l6-v2").to_str().unwrap().to_owned();
    let variables = [("TAPRI_FAKE_UPSTREAM", fake.url()), ("TAPRI_TEST_ENCODER", encoder)];
    run_with("test_semantic.py", &variables);
    runtime.block_on(fake.stop());
}

/// The case file of the examples is read three times, which takes minutes:
/// `cargo test -p tapri --test pages -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn the_whole_case_file_with_gemma() {
    let model = tapri_registry::test_model("gemma-3-270m");
    let model = model.to_str().unwrap().to_owned();
    run_with(
        "test_whole_case_file.py",
        &[("TAPRI_TEST_MODEL", model), ("TAPRI_TEST_PATIENCE", "900".to_owned())],
    );
}

#[test]
fn calls_caches_savings_and_comparisons() {
    run("test_operator.py");
}
