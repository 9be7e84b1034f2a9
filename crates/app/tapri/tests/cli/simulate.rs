//! `tapri simulate` on the real traces, and on what it can't use.

use std::path::Path;

use serde_json::Value;

use crate::Shell;

fn trace(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/traces").join(name);
    path.to_str().unwrap().to_owned()
}

const CONVERSATION: &str = "mooncake/conversation_trace.jsonl.gz";

#[test]
fn the_conversation_trace() {
    let said = Shell::new().run(&["simulate", &trace(CONVERSATION)]);
    insta::assert_snapshot!("conversation", said.all());
}

#[test]
fn shares_are_fractions_in_json() {
    let args = ["simulate", &trace(CONVERSATION), "--capacity", "20000,248", "--json"];
    let said = Shell::new().run(&args);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["schema"], "tapri.simulate/1");
    let near = |value: &Value, wanted: f64| (value.as_f64().unwrap() - wanted).abs() < 5e-5;
    assert!(near(&json["endless"]["block_hit"], 0.3664), "{}", json["endless"]);
    assert!(near(&json["endless"]["token_hit"], 0.3736), "{}", json["endless"]);
    assert_eq!(json["trace"]["distinct_blocks"], 182_790);
    assert_eq!(json["trace"]["calls"], 12_031);
    for at in json["capacities"].as_array().unwrap() {
        assert_eq!(at["lru"], at["replay"]);
    }
    insta::assert_snapshot!("conversation_json", said.out);
}

#[test]
fn recorded_sessions_in_memory() {
    let folder = trace("claude-code");
    let args = ["simulate", &folder, "--kv-bytes-per-token", "128KiB", "--count", "engine"];
    let more = ["--stagger", "10m", "--capacity", "40GiB,80GiB,160GiB", "--ttl", "5m"];
    let said = Shell::new().run(&[&args[..], &more[..]].concat());
    insta::assert_snapshot!("sessions", said.all());
}

#[test]
fn what_can_not_be_replayed() {
    let shell = Shell::new();
    shell.file("none.jsonl", "{\"a\": 1}\nnot json\n");
    shell.file(
        "some.jsonl",
        "{\"timestamp\": 0, \"input_length\": 700, \"hash_ids\": [1, 2]}\n{\"broken\n\
         {\"timestamp\": 5, \"input_length\": 9000, \"hash_ids\": [1, 2]}\n\
         {\"timestamp\": 9, \"input_length\": 1024, \"hash_ids\": [1, 2]}\n",
    );
    shell.file("list.json", "[1, 2]");
    std::fs::create_dir(shell.dir.path().join("empty")).unwrap();
    let said: Vec<String> = [
        vec!["none.jsonl"],
        vec!["some.jsonl"],
        vec!["missing.jsonl"],
        vec!["list.json"],
        vec!["empty"],
        vec!["some.jsonl", "--capacity", "8GiB"],
        vec!["some.jsonl", "--capacity", "0"],
        vec!["some.jsonl", "--capacity", "1KiB", "--kv-bytes-per-token", "1KiB"],
        vec!["some.jsonl", "--target", "90"],
        vec![],
    ]
    .iter()
    .map(|args| shell.run(&[&["simulate"], &args[..]].concat()).all())
    .collect();
    insta::assert_snapshot!("bad_traces", said.join("\n"));
}
