//! `tapri audit` against `tapri serve`: two salts, one salt, none.

use serde_json::Value;

use crate::process::{Server, tapri};

/// As few samples as the paper's threshold can be reached with, and short prompts, for the test's own time. Victim and
/// attacker share 97 tokens, six blocks and one more: a hit computes six tokens of 102.
pub fn audit(server: &Server, more: &[&str]) -> (Option<i32>, Value) {
    let url = format!("http://{}", server.address());
    let args = ["audit", "--url", &url, "--yes", "--json", "--delay", "0", "--samples", "16"];
    let short = ["--prompt-tokens", "102", "--api", "completions", "--level", "strangers"];
    let output = tapri(&args).args(short).args(more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    (output.status.code(), json)
}

#[test]
fn salts_keep_users_apart_and_nothing_else_does() {
    let server = Server::start(&[]);
    let (code, apart) = audit(&server, &["--victim-salt", "one", "--attacker-salt", "two"]);
    assert_eq!((code, &apart["sharing"]), (Some(0), &false.into()), "{apart}");
    assert_eq!(apart["tests"][0]["reported"]["hits_cached"], 0.0, "{apart}");
    let (code, one) = audit(&server, &["--victim-salt", "one", "--attacker-salt", "one"]);
    assert_eq!((code, &one["sharing"]), (Some(1), &true.into()), "{one}");
    assert_eq!(one["tests"][0]["reported"]["hits_cached"], 1.0, "{one}");
    // By the times as well, with a bar that a busy machine passes.
    assert!(one["tests"][0]["times"]["p"].as_f64().unwrap() < 1e-4, "{one}");
    drop(server);
    // Nothing tells users apart, and nothing is said about cached tokens: the times alone give it away.
    let server = Server::start(&["--hide-cached-tokens"]);
    let (code, none) = audit(&server, &["--threshold", "1e-4"]);
    assert_eq!((code, &none["sharing"]), (Some(1), &true.into()), "{none}");
    assert_eq!(none["tests"][0]["reported"]["hits"], 0, "{none}");
}
