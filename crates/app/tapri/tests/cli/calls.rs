//! `tapri calls` on a ledger of known calls.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tapri_ledger::{
    CacheOutcome, CacheResult, CallRecord, Cost, Ending, Entry, Explanation, MissReason, Money,
    PartKind, PartPrint, Place, SetClock, Writer, WriterConfig,
};

use crate::Shell;

fn start() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().unwrap()
}

fn call(
    id: &str,
    seconds: i64,
    prompt: u64,
    cached: u64,
    outcome: CacheOutcome,
    why: &str,
) -> CallRecord {
    let mut call = CallRecord::new(id.repeat(16), start() + SignedDuration::from_secs(seconds));
    call.route = "/v1/chat/completions".to_owned();
    call.model = "gemma-3-270m".to_owned();
    call.upstream = "embedded".to_owned();
    call.tokens.prompt = Some(prompt);
    call.tokens.cached = Some(cached);
    call.tokens.joined = Some(0);
    call.tokens.written = Some((prompt - cached) / 16 * 16);
    call.tokens.answer = Some(64);
    call.ttft = Some(Duration::from_millis(if cached == 0 { 29_100 } else { 112 }));
    call.total = Duration::from_millis(31_000);
    call.prefix = Some(CacheResult { outcome, reason: Some(why.to_owned()) });
    let money = |amount: &str| Money::new(amount.parse().unwrap(), "Rs");
    call.cost = Some(Cost {
        paid: money(if cached == 0 { "3.09010" } else { "0.63354" }),
        without_cache: money("3.0901"),
        price_list: "example".to_owned(),
        price_date: None,
    });
    call
}

/// Four calls: a cold one, a warm one, one with a new time in its start, one that was refused.
fn shell() -> Shell {
    let shell = Shell::new();
    let config = WriterConfig::new(shell.dir.path().join("data/ledger.sqlite"));
    let writer = Writer::open(config, Arc::new(SetClock::new(start()))).unwrap();
    let mut cold = call("a1", 0, 30_645, 0, CacheOutcome::Miss, "never_seen");
    cold.conversation =
        Some("=HYPERLINK(\"http://example.com\",\"x\"), or \u{1b}[31mred".to_owned());
    cold.parts = vec![
        PartPrint {
            kind: PartKind::System,
            path: "messages[0].content".into(),
            chars: 104_233,
            print: 0x0123_4567_89ab_cdef,
        },
        PartPrint {
            kind: PartKind::Message,
            path: "messages[1].content".into(),
            chars: 41,
            print: 7,
        },
    ];
    cold.trace = vec![5; 239];
    let mut warm = call("a2", 40, 30_650, 30_592, CacheOutcome::Hit, "complete");
    warm.tokens.restored = Some(30_000);
    let mut changed = call("b3", 80, 30_650, 16, CacheOutcome::Partial, "first_difference");
    changed.tokens.joined = Some(512);
    changed.tokens.written = Some(30_112);
    changed.tenant = "chai & co".to_owned();
    changed.explanation = Some(Explanation {
        reason: MissReason::Time,
        nearest: Some("a2".repeat(16)),
        shared_tokens: Some(21),
        estimated: false,
        place: Some(Place { path: "messages[0].content".into(), character: Some(14), page: None }),
        new: Some("10:42:07".to_owned()),
        old: Some("10:41:55".to_owned()),
        looks_like: Some("looks like a time of day".to_owned()),
        suggestion: "Move it behind what stays the same.".to_owned(),
    });
    let mut refused = CallRecord::new("c4".repeat(16), start() + SignedDuration::from_secs(120));
    refused.route = "/v1/completions".to_owned();
    refused.model = "gpt-9".to_owned();
    refused.upstream = "embedded".to_owned();
    refused.ending = Ending::Error("model_not_found".to_owned());
    refused.total = Duration::from_micros(90);
    for record in [cold, warm, changed, refused] {
        writer.record(Entry::new(record));
    }
    assert!(writer.close(Duration::from_secs(60)));
    shell
}

#[test]
fn lists() {
    let shell = shell();
    let said = [
        vec!["calls", "--utc"],
        vec!["calls", "--zone", "Asia/Kolkata", "--oldest", "--limit", "2"],
        vec!["calls", "--tenant", "nobody"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("calls", said.join("\n"));
}

#[test]
fn one_call() {
    let shell = shell();
    let said = ["a1", "a2", "b3", "c4"].map(|id| shell.run(&["calls", "show", id, "--utc"]).all());
    insta::assert_snapshot!("calls_show", said.join("\n"));
    let said = shell.run(&["calls", "show", "b3", "--json"]);
    insta::assert_snapshot!("calls_show_json", said.all());
}

#[test]
fn ids_that_lead_nowhere_or_to_many() {
    let shell = shell();
    let said = ["a", "ff"].map(|id| shell.run(&["calls", "show", id, "--utc"]).all());
    insta::assert_snapshot!("calls_show_candidates", said.join("\n"));
}

#[test]
fn as_csv() {
    let said = shell().run(&["calls", "--csv", "--oldest"]);
    insta::assert_snapshot!("calls_csv", said.all());
    // What no formula may be made of, and every line as long as the first.
    assert!(
        said.out.contains("\"'=HYPERLINK(\"\"http://example.com\"\",\"\"x\"\"), or "),
        "{}",
        said.out
    );
    assert!(!said.out.contains(",=") && !said.out.contains(",\"="));
}

#[test]
fn as_json() {
    let shell = shell();
    let json: Value = serde_json::from_str(&shell.run(&["calls", "--json"]).out).unwrap();
    assert_eq!(json.as_object().unwrap().keys().next().unwrap(), "schema");
    assert_eq!(json["schema"], "tapri.calls/1");
    let calls = json["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 4);
    assert_eq!(calls[1]["explanation"]["reason"], "time_changed");
    let lines = shell.run(&["calls", "--jsonl"]).out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(&lines, calls, "the same calls, a line each");
    let none: Value =
        serde_json::from_str(&shell.run(&["calls", "--json", "--id", "ff"]).out).unwrap();
    assert_eq!(none["calls"], serde_json::json!([]));
}

#[test]
fn filters() {
    let shell = shell();
    let ids = |filter: &[&str]| {
        let said = shell.run(&[&["calls", "--jsonl", "--oldest"], filter].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let ids = said.out.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap()[..2].to_owned()
        });
        ids.collect::<Vec<_>>().join(" ")
    };
    for (filter, expected) in [
        (&["--since", "2026-11-30T10:00:40Z"][..], "a2 b3 c4"),
        (&["--since", "2026-11-30T10:00:40Z", "--until", "2026-11-30T10:01:20Z"], "a2"),
        (&["--since", "2026-11-30T15:30:40", "--zone", "Asia/Kolkata"], "a2 b3 c4"),
        (&["--tenant", "chai & co"], "b3"),
        (&["--route", "/v1/completions"], "c4"),
        (&["--model", "gemma-3-270m"], "a1 a2 b3"),
        (&["--upstream", "embedded"], "a1 a2 b3 c4"),
        (&["--outcome", "hit"], "a2"),
        (&["--outcome", "miss"], "a1"),
        (&["--reason", "time_changed"], "b3"),
        (&["--reason", "never_seen"], "a1"),
        (&["--ending", "error"], "c4"),
        (&["--min-tokens", "30650"], "a2 b3"),
        (&["--hit-below", "50%"], "a1 b3"),
        (&["--hit-above", "0.5"], "a2"),
        (&["--id", "a"], "a1 a2"),
        (&["--conversation", "none"], ""),
    ] {
        assert_eq!(ids(filter), expected, "{filter:?}");
    }
}

#[test]
fn what_is_refused() {
    let shell = Shell::new();
    shell.file("novel.txt", "It was a dark and stormy night. ".repeat(8));
    let said = [
        vec!["calls"],
        vec!["calls", "--ledger", "novel.txt"],
        vec!["calls", "--reason", "time_change"],
        vec!["calls", "--hit-below", "2"],
        vec!["calls", "--json", "--csv"],
        vec!["calls", "show"],
    ]
    .map(|args| {
        let said = shell.run(&args).all();
        said.replace(shell.dir.path().to_str().unwrap(), "[folder]")
    });
    insta::assert_snapshot!("calls_refused", said.join("\n"));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    use std::io::Read;
    use std::process::Stdio;
    let shell = shell();
    let mut child = shell.command(&["calls", "--jsonl"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut one = [0];
    child.stdout.take().unwrap().read_exact(&mut one).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
