//! What is in `deploy/`, checked by the tools that will read it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Prometheus' own checker: the one on the path, else one taken out of Debian's package, which needs no rights.
/// Where there is neither, the checks can't be made: that fails in CI, and is said elsewhere.
fn promtool() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        if Command::new("promtool").arg("--version").output().is_ok() {
            return Some(PathBuf::from("promtool"));
        }
        let found = unpacked();
        if found.is_none() {
            let hint = "apt-get install prometheus, or take it from https://prometheus.io/download";
            assert!(std::env::var_os("CI").is_none(), "promtool is not there\nhint: {hint}");
            eprintln!("promtool is not there, so the alert rules are NOT checked\nhint: {hint}");
        }
        found
    });
    found.as_deref()
}

/// promtool out of Debian's package, under `target`.
fn unpacked() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prometheus");
    let tool = folder.join("usr/bin/promtool");
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).current_dir(&folder).output();
        done.is_ok_and(|output| output.status.success())
    };
    if tool.exists() {
        return Some(tool);
    }
    fs::create_dir_all(&folder).ok()?;
    // Without lists of packages there is nothing to take; only root can fetch them.
    if !run("apt-get", &["download", "prometheus"]) {
        run("apt-get", &["update", "-qq"]);
        run("apt-get", &["download", "prometheus"]);
    }
    let package = fs::read_dir(&folder).ok()?.flatten().map(|entry| entry.path());
    let package =
        package.into_iter().find(|path| path.extension().is_some_and(|it| it == "deb"))?;
    run("dpkg-deb", &["-x", package.to_str()?, "."]);
    tool.exists().then_some(tool)
}

fn checked(tool: &Path, args: &[&str], folder: &Path) -> Output {
    Command::new(tool).args(args).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn prometheus_takes_the_rules_and_they_say_what_they_should() {
    let Some(promtool) = promtool() else { return };
    let folder = root().join("deploy/prometheus");
    let read = checked(promtool, &["check", "rules", "tapri.rules.yml"], &folder);
    assert!(read.status.success(), "{}", said(&read));
    let tested = checked(promtool, &["test", "rules", "tapri.rules_test.yml"], &folder);
    assert!(tested.status.success(), "{}", said(&tested));
}

/// That the check above can fail: an alert that is expected and doesn't come.
#[test]
fn a_rule_that_says_nothing_is_found() {
    let Some(promtool) = promtool() else { return };
    let folder = tempfile::tempdir().unwrap();
    let deploy = root().join("deploy/prometheus");
    let rules = fs::read_to_string(deploy.join("tapri.rules.yml")).unwrap();
    let silent =
        rules.replace("expr: tapri_hit_rate_alert == 1", "expr: tapri_hit_rate_alert == 2");
    assert_ne!(rules, silent);
    fs::write(folder.path().join("tapri.rules.yml"), silent).unwrap();
    fs::copy(deploy.join("tapri.rules_test.yml"), folder.path().join("tapri.rules_test.yml"))
        .unwrap();
    let tested = checked(promtool, &["test", "rules", "tapri.rules_test.yml"], folder.path());
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
