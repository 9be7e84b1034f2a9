//! `tapri simulate` on the real traces, and on what it can't use.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tapri_ledger::{CallRecord, Entry, SystemClock, Writer, WriterConfig};

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

/// What a model's file says about its KV cache, and the plot.
#[test]
fn with_a_model_and_a_plot() {
    let shell = Shell::new();
    let model = tapri_registry::test_model("smollm2");
    let args = [
        "simulate",
        &trace(CONVERSATION),
        "--model",
        model.to_str().unwrap(),
        "--plot",
        "hits.svg",
    ];
    let said = shell
        .run(&[&args[..], &["--capacity", "100GiB,400GiB", "--prefill-rate", "5000"]].concat());
    insta::assert_snapshot!("model", said.all());
    let svg = std::fs::read_to_string(shell.dir.path().join("hits.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{}", &svg[..200]);
    for text in
        ["KV memory (GiB)", "least recently used", "exact replay", "FIFO", "Belady", "5 min"]
    {
        assert!(svg.contains(text), "{text}");
    }
}

/// A cache of 8 bits holds nearly twice the tokens: 34 bytes for 32 numbers, where bf16 takes 64.
#[test]
fn a_model_s_kv_bytes_are_those_of_the_type_that_is_given() {
    let shell = Shell::new();
    let call = r#"{"timestamp": 0, "input_length": 1000, "output_length": 1, "hash_ids": [1, 2]}"#;
    shell.file("calls.jsonl", format!("{call}\n{call}\n"));
    let model = tapri_registry::test_model("smollm2");
    let bytes = |more: &[&str]| {
        let args = ["simulate", "calls.jsonl", "--json", "--model", model.to_str().unwrap()];
        let said = shell.run(&[&args[..], more].concat());
        assert_eq!(said.code, Some(0), "{}", said.all());
        let figures: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        figures["trace"]["kv_bytes_per_token"].as_u64().unwrap()
    };
    // 30 layers with 3 KV heads of 64 numbers, keys and values.
    let numbers = 2 * 30 * 3 * 64;
    assert_eq!((bytes(&[]), bytes(&["--kv-type", "bf16"])), (2 * numbers, 2 * numbers));
    assert_eq!(bytes(&["--kv-type", "q8_0"]), numbers / 32 * 34);
}

/// Calls as `ask` and `serve` leave them, of two tenants with the same document.
#[test]
fn the_ledger() {
    let shell = Shell::new();
    let path = shell.dir.path().join("calls.sqlite");
    let writer = Writer::open(WriterConfig::new(&path), Arc::new(SystemClock)).unwrap();
    for n in 0..12u32 {
        let at = format!("2026-11-30T10:{:02}:00Z", n * 2).parse().unwrap();
        let mut record = CallRecord::new(format!("{n:032x}"), at);
        record.model = "smollm2".to_owned();
        record.tenant = if n % 3 == 0 { "one" } else { "two" }.to_owned();
        // A document of 1,000 tokens and a question of its own; the last call was refused.
        let ids: Vec<u32> = (0..1000).chain((0..30).map(|t| 10_000 + n * 100 + t)).collect();
        record.tokens.prompt = (n < 11).then_some(1030);
        let mut entry = Entry::new(record);
        entry.prompt_ids = (n < 11).then(|| ids.into());
        writer.record(entry);
    }
    assert!(writer.close(Duration::from_secs(30)));
    let said =
        shell.run(&["simulate", "--ledger", "calls.sqlite", "--kv-bytes-per-token", "23040"]);
    insta::assert_snapshot!("ledger", said.all());
    // The same from its lines.
    let lines = shell.run(&["calls", "--ledger", "calls.sqlite", "--jsonl"]);
    shell.file("calls.jsonl", lines.out);
    let again = shell.run(&["simulate", "calls.jsonl", "--kv-bytes-per-token", "23040"]);
    assert_eq!((again.code, again.out), (Some(0), said.out), "{}", again.err);
    let none = shell.run(&["simulate", "--ledger", "none.sqlite"]);
    assert_eq!(none.code, Some(1));
    assert!(none.err.contains("hint: "), "{}", none.err);
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
        vec!["some.jsonl", "--plot", "empty"],
        vec!["some.jsonl", "--model", "list.json"],
    ]
    .iter()
    .map(|args| shell.run(&[&["simulate"], &args[..]].concat()).all())
    .collect();
    insta::assert_snapshot!("bad_traces", said.join("\n"));
}
