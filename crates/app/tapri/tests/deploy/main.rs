//! What is in `deploy/`, checked by the tools that will read it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn promtool(args: &[&str], folder: &Path) -> Output {
    Command::new("promtool").args(args).current_dir(folder).output().unwrap_or_else(|error| {
        panic!("promtool: {error}\nhint: apt-get install prometheus, or take it from https://prometheus.io/download")
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn prometheus_takes_the_rules_and_they_say_what_they_should() {
    let folder = root().join("deploy/prometheus");
    let checked = promtool(&["check", "rules", "tapri.rules.yml"], &folder);
    assert!(checked.status.success(), "{}", said(&checked));
    let tested = promtool(&["test", "rules", "tapri.rules_test.yml"], &folder);
    assert!(tested.status.success(), "{}", said(&tested));
}

/// That the check above can fail: an alert that is expected and doesn't come.
#[test]
fn a_rule_that_says_nothing_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let deploy = root().join("deploy/prometheus");
    let rules = fs::read_to_string(deploy.join("tapri.rules.yml")).unwrap();
    let silent =
        rules.replace("expr: tapri_hit_rate_alert == 1", "expr: tapri_hit_rate_alert == 2");
    assert_ne!(rules, silent);
    fs::write(folder.path().join("tapri.rules.yml"), silent).unwrap();
    fs::copy(deploy.join("tapri.rules_test.yml"), folder.path().join("tapri.rules_test.yml"))
        .unwrap();
    let tested = promtool(&["test", "rules", "tapri.rules_test.yml"], folder.path());
    assert!(!tested.status.success(), "{}", said(&tested));
}

#[test]
fn grafana_reads_every_field_of_the_dashboard() {
    let checks = root().join("tests/deploy");
    let python = environment(&checks.join("requirements.txt"));
    let check = |dashboard: &Path| {
        Command::new(&python)
            .arg(checks.join("check_dashboard.py"))
            .arg(dashboard)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .unwrap()
    };
    let dashboard = root().join("deploy/grafana/tapri.json");
    let checked = check(&dashboard);
    assert!(checked.status.success(), "{}", said(&checked));
    // That it can fail: a field that Grafana doesn't know.
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.json");
    let text = fs::read_to_string(&dashboard).unwrap();
    fs::write(&wrong, text.replace("\"legendFormat\"", "\"legendFormt\"")).unwrap();
    let checked = check(&wrong);
    assert!(
        !checked.status.success() && said(&checked).contains("legendFormt: unknown to Grafana"),
        "{}",
        said(&checked)
    );
}

/// The Python of an environment with the pinned packages, made under `target` when it isn't there or is out of date.
fn environment(requirements: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deploy-venv");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let wanted = fs::read_to_string(requirements).unwrap();
    // Written last, so that an environment that was half made is made again.
    let stamp = folder.join("tapri-requirements.txt");
    if python.exists() && fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) {
        return python;
    }
    let base = if cfg!(windows) { "python" } else { "python3" };
    let run = |command: &mut Command, what: &str| {
        let output = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(output.status.success(), "{what}: {}", said(&output));
    };
    run(
        Command::new(base).args(["-m", "venv", "--clear"]).arg(&folder),
        "make a virtual environment",
    );
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--disable-pip-version-check", "-r"]).arg(requirements);
    run(&mut pip, "install Grafana's types");
    fs::write(stamp, wanted).unwrap();
    python
}
