//! `tapri explain`: two requests, logs, what is refused.

use std::path::Path;

use serde_json::{Value, json};

use crate::Shell;

fn body(time: &str, question: &str) -> Value {
    let rules = "Answer from the file only. Quote the page. ".repeat(120);
    json!({"model": "gpt-4o", "messages": [
        {"role": "system", "content": format!("It is now, by the clock, {time}. {rules}")},
        {"role": "user", "content": question},
    ]})
}

#[test]
fn two_requests() {
    let shell = Shell::new();
    shell.file("a.json", body("10:41:55", "Who signed?").to_string());
    shell.file("b.json", body("10:42:07", "Who signed?").to_string());
    let said = [
        vec!["explain", "a.json", "b.json"],
        vec!["explain", "a.json", "b.json", "--hide-values"],
        vec!["explain", "a.json", "b.json", "--json"],
        vec!["explain", "a.json", "a.json"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("explain_two", said.join("\n"));
}

#[test]
fn a_log() {
    let shell = Shell::new();
    let line = |session: &str, time: &str, question: &str| {
        json!({"session_id": session, "request": body(time, question)}).to_string()
    };
    let lines = [
        line("a", "10:41:55", "Who signed?"),
        line("a", "10:42:07", "Who was the witness?"),
        "{broken".to_owned(),
        json!({"something": "else"}).to_string(),
        line("b", "10:42:07", "When was it signed?"),
        line("b", "10:43:31", "Where?"),
    ];
    shell.file("log.jsonl", lines.join("\n"));
    let said = [
        vec!["explain", "log.jsonl", "--prices", "bundled"],
        vec!["explain", "log.jsonl", "--worst", "1", "--hide-values"],
        vec!["explain", "log.jsonl", "--json", "--worst", "1"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("explain_log", said.join("\n"));
}

#[test]
fn what_is_refused() {
    let shell = Shell::new();
    shell.file("a.json", body("10:41:55", "Who signed?").to_string());
    shell.file("none.json", r#"{"foo": 1}"#);
    shell.file("broken.json", "[{\"messages\": ");
    let two = format!("{}\n{}\n", body("1:00", "a"), body("2:00", "b"));
    shell.file("two.jsonl", two);
    shell.file("empty.json", "");
    let said = [
        vec!["explain"],
        vec!["explain", "a.json"],
        vec!["explain", "a.json", "none.json"],
        vec!["explain", "a.json", "broken.json"],
        vec!["explain", "a.json", "two.jsonl"],
        vec!["explain", "a.json", "missing.json"],
        vec!["explain", "empty.json"],
        vec!["explain", "none.json"],
        vec!["explain", "two.jsonl", "--format", "xml"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("explain_refused", said.join("\n"));
}

#[test]
fn laid_out_by_a_model() {
    let shell = Shell::new();
    let model = tapri_registry::test_model("smollm2").to_str().unwrap().to_owned();
    shell.file("a.json", body("10:41:55", "Who signed?").to_string());
    shell.file("b.json", body("10:42:07", "Who signed?").to_string());
    let line = |time: &str| format!("{}\n", body(time, "Who signed?"));
    shell.file("log.jsonl", [line("10:41:55"), line("10:41:55"), line("10:42:07")].concat());
    let said = [
        vec!["explain", "a.json", "b.json", "--model", &model],
        vec!["explain", "a.json", "b.json", "--model", &model, "--hide-values"],
        vec!["explain", "log.jsonl", "--model", &model],
        vec!["explain", "a.json", "b.json", "--model", "a.json"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("explain_model", said.join("\n"));
}

#[test]
fn real_agents() {
    let shell = Shell::new();
    let example = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/transcripts");
        folder.join(name).to_str().unwrap().to_owned()
    };
    let said = ["agent-text/magagent-1cd047e0.jsonl.gz", "airline_agent_18.json.gz"]
        .map(|name| shell.run(&["explain", &example(name), "--worst", "3"]).all());
    insta::assert_snapshot!("explain_real", said.join("\n"));
}

#[test]
fn a_providers_own_word() {
    let shell = Shell::new();
    let line = |system: &str, verdict: &str| {
        json!({
            "request": {"model": "claude-sonnet-4-5", "system": system, "messages": [{"role": "user", "content": "q"}]},
            "response": {"diagnostics": {"cache_miss_reason": {"type": verdict}}},
        })
        .to_string()
    };
    let rules = "Answer from the file only. Quote the page. ".repeat(20);
    let english = format!("Answer in English. {rules}");
    let german = format!("Answer in German. {rules}");
    let lines = [
        line(&english, "unavailable"),
        line(&german, "system_changed"),
        line(&german, "tools_changed"),
    ];
    shell.file("log.jsonl", lines.join("\n"));
    insta::assert_snapshot!("explain_hosted", shell.run(&["explain", "log.jsonl"]).all());
}
