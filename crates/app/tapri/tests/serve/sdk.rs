//! Runs the Python tests of `tests/sdk` in an environment of their own: in front of the embedded engine, and in front of
//! upstreams that are played by the real `tapri-fake-upstream`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Server;
use crate::upstream::Upstream;
use crate::venv::environment;

const KEY: &str = "tapri_team_team_team_team";
const UPSTREAM_KEY: &str = "sk-upstream";

#[test]
fn the_official_sdks_and_an_agent_framework_work_unchanged() {
    let encoder = tapri_registry::test_model("all-minilm-l6-v2");
    let server = Server::start(&["--embed-model", encoder.to_str().unwrap()]);
    let ignored = format!("--ignore={}", tests().join("upstreams").display());
    run(&server, "", &[], &[&ignored]);
}

/// Clients of one API in front of upstreams of the same and of the other one.
#[test]
fn the_official_sdks_and_an_agent_framework_work_in_front_of_upstreams() {
    let openai =
        Upstream::start(&["--model", "gpt-4o", "--cache", "openai", "--key", UPSTREAM_KEY]);
    let anthropic = Upstream::start(&[
        "--model",
        "claude-sonnet-5",
        "--cache",
        "anthropic",
        "--key",
        UPSTREAM_KEY,
    ]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("team"), KEY).unwrap();
    fs::write(folder.path().join("upstream"), UPSTREAM_KEY).unwrap();
    let path = folder.path().join("tapri.toml");
    fs::write(&path, config(&openai, &anthropic)).unwrap();
    let server = Server::start(&["--config", path.to_str().unwrap()]);
    let variables = [
        ("TAPRI_KEY", KEY),
        ("TAPRI_UPSTREAM_OPENAI", openai.url()),
        ("TAPRI_UPSTREAM_ANTHROPIC", anthropic.url()),
    ];
    run(&server, "upstreams", &variables, &[]);
}

/// Names that begin with `stored-` go by a route with the exact cache, `marked-` by one that sets cache markers, and `ill-`
/// to upstreams that are never asked twice and never left alone, so that each fault is seen as it came.
fn config(openai: &Upstream, anthropic: &Upstream) -> String {
    let mut text = "[[tenant]]\nname = \"team\"\nkeys = [\"file:team\"]\n".to_owned();
    for (name, upstream, more) in [
        ("openai", openai, "models = [\"gpt-4o\", \"stored-gpt-4o=gpt-4o\"]"),
        (
            "ill-openai",
            openai,
            "models = [\"ill-gpt-4o=gpt-4o\"]\nretries = 0\nbreaker_failures = 1000",
        ),
        (
            "anthropic",
            anthropic,
            "models = [\"claude-sonnet-5\", \"stored-claude-sonnet-5=claude-sonnet-5\"]",
        ),
        (
            "ill-anthropic",
            anthropic,
            "models = [\"ill-claude-sonnet-5=claude-sonnet-5\"]\nretries = 0\nbreaker_failures = 1000",
        ),
        ("marked", anthropic, "models = [\"marked-claude-sonnet-5=claude-sonnet-5\"]"),
    ] {
        let (kind, path) =
            if std::ptr::eq(upstream, openai) { ("openai", "/v1") } else { ("anthropic", "") };
        text.push_str(&format!(
            "[[upstream]]\nname = \"{name}\"\nkind = \"{kind}\"\nurl = \"{}{path}\"\nkey = \"file:upstream\"\n{more}\n",
            upstream.url()
        ));
    }
    text.push_str(
        r#"
[[route]]
name = "stored"
models = ["stored-*"]
[route.exact]
mode = "always"
[[route]]
name = "marked"
models = ["marked-*"]
upstreams = ["marked"]
cache_control = true
"#,
    );
    text
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/sdk")
}

/// Runs the tests of a folder against a server.
fn run(server: &Server, folder: &str, variables: &[(&str, &str)], more: &[&str]) {
    let python = environment("sdk-venv", &tests().join("requirements.txt"));
    let status = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(more)
        .arg(tests().join(folder))
        .env("TAPRI_URL", format!("http://{}", server.address()))
        .envs(variables.iter().copied())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .status()
        .unwrap();
    assert!(status.success(), "the SDK's tests failed; see above");
}
