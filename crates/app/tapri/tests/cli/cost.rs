use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tapri_ledger::{CallRecord, Entry, SystemClock, Writer, WriterConfig};

use crate::Shell;

/// A file of 32,000 tokens, 20 questions.
const PLAN: [&str; 9] =
    ["cost", "--prefix", "32000", "--question", "200", "--answer", "500", "--calls", "20"];

#[test]
fn the_lawyers_bill() {
    let shell = Shell::new();
    let said = shell.run(&[&PLAN[..], &["--prices", "example"]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    for figure in ["Rs 68.40", "Rs 19.76", "71 percent less", "94 percent of the bill"] {
        assert!(said.out.contains(figure), "{figure} in {}", said.out);
    }
    let times = ["--ttft-miss", "4", "--ttft-hit", "0.5", "--answer-time", "5"];
    let said = shell.run(&[&PLAN[..], &times].concat());
    assert!(said.out.contains("9 s without") && said.out.contains("5.5 s from"), "{}", said.out);
    insta::assert_snapshot!("plan", said.all());
    insta::assert_snapshot!(
        "plan_json",
        shell.run(&[&PLAN[..], &times, &["--json"]].concat()).all()
    );
}

#[test]
fn plans_at_other_prices() {
    let shell = Shell::new();
    let said = [
        vec!["--prices", "claude-sonnet-4-5"],
        vec!["--prices", "bundled", "--model", "claude-sonnet-4-5", "--ttl", "1h", "--gap", "20m"],
        vec!["--prices", "claude-sonnet-4-5", "--gap", "20m"],
        vec!["--prices", "gpt-5.6", "--batch", "--ttl", "12h"],
    ]
    .map(|more| shell.run(&[&PLAN[..], &more].concat()).all());
    insta::assert_snapshot!("plans", said.join("\n"));
    let long = ["cost", "--prefix", "300000", "--input-tokens", "300100", "--prices", "gpt-5.6"];
    assert!(shell.run(&long).out.contains("in all                              USD 48.02"));
}

#[test]
fn plans_that_caching_does_not_help() {
    let shell = Shell::new();
    let said = [
        vec!["--prefix", "32000", "--question", "200", "--answer", "500", "--calls", "1"],
        vec!["--prefix", "800", "--question", "200", "--answer", "500"],
        vec!["--prefix", "32000", "--gap", "3h"],
        vec!["--prefix", "2000", "--question", "200", "--answer", "30000"],
        vec!["--prefix", "0", "--question", "200", "--answer", "500"],
    ]
    .map(|more| shell.run(&[&["cost", "--prices", "claude-sonnet-4-5"], &more[..]].concat()).out);
    let said: Vec<_> = said
        .iter()
        .map(|out| {
            let lines = out.lines().filter(|l| l.contains("does not help") || l.contains("in all"));
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
    insta::assert_snapshot!("plans_not_helped", said.join("\n"));
}

#[test]
fn bad_plans() {
    let shell = Shell::new();
    let said = [
        vec!["cost"],
        vec!["cost", "--prefix", "10", "--prices", "bundled"],
        vec!["cost", "--prefix", "10", "--prices", "bundled", "--model", "gpt-56"],
        vec!["cost", "--prefix", "10", "--batch"],
        vec!["cost", "--prefix", "10", "--prices", "claude-sonnet-4-5", "--ttl", "12h"],
        vec!["cost", "--prefix", "10", "--ttl", "2h"],
        vec!["cost", "--prefix", "10", "--input-tokens", "9"],
        vec!["cost", "--prefix", "10", "--ttft-miss", "-1", "--ttft-hit", "1"],
        vec!["cost", "--prefix", "10", "--ttft-miss", "1"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("bad_plans", said.join("\n"));
}

/// Three habits: questions about one file a minute apart, a report every 20 minutes, and a document a day.
fn ledger(path: &Path) {
    let writer = Writer::open(WriterConfig::new(path), Arc::new(SystemClock)).unwrap();
    let start: jiff::Timestamp = "2026-11-30T08:00:00Z".parse().unwrap();
    let habits = [("asks", 60, 250), ("reports", 1_200, 100), ("reads", 86_400, 60)];
    for (kind, (tenant, gap, blocks)) in (1u64..).zip(habits) {
        for n in 0..10u64 {
            let at = start + Duration::from_secs(n * gap);
            let mut record = CallRecord::new(format!("{kind}{n:031x}"), at);
            record.tenant = tenant.to_owned();
            record.route = "/v1/messages".to_owned();
            record.model = "claude-sonnet-4-5".to_owned();
            record.upstream = "anthropic".to_owned();
            record.tokens.prompt = Some(blocks * 128 + 200);
            record.tokens.answer = Some(500);
            record.ttft = Some(Duration::from_secs(2));
            record.trace = (0..blocks).map(|block| (kind << 32) + block).collect();
            record.trace.push((kind << 48) + n);
            writer.record(Entry::new(record));
        }
    }
    assert!(writer.close(Duration::from_secs(30)));
}

#[test]
fn the_cheapest_way_for_each_start_of_the_ledger() {
    let shell = Shell::new();
    ledger(&shell.dir.path().join("ledger.sqlite"));
    let cost = ["cost", "--from-ledger", "--ledger", "ledger.sqlite"];
    let said = shell.run(&cost);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for verdict in ["a marker kept for 5m", "a marker kept for 1h", "no marker (long gaps)"] {
        assert!(said.out.contains(verdict), "{verdict} in {}", said.out);
    }
    insta::assert_snapshot!("starts", said.all());
    let json = shell.run(&[&cost[..], &["--tenant", "reports", "--json"]].concat());
    insta::assert_snapshot!("starts_json", json.all());
    let since = shell.run(&[&cost[..], &["--since", "2026-12-01T00:00:00Z"]].concat());
    assert!(
        !since.out.contains("Tenant asks") && since.out.contains("Tenant reads"),
        "{}",
        since.out
    );
}

#[test]
fn the_cheapest_way_for_each_start_of_a_log() {
    let shell = Shell::new();
    let rules: String = (0..200)
        .map(|n| format!("Rule {n}: members who come in door {n} sign the book there. "))
        .collect();
    let line = |n: u64, top: &str| {
        let body = serde_json::json!({
            "timestamp": format!("2026-11-30T10:{n:02}:00Z"),
            "model": "claude-sonnet-4-5",
            "messages": [
                {"role": "system", "content": format!("{top}{rules}")},
                {"role": "user", "content": format!("What is rule {n}?")},
            ],
        });
        body.to_string() + "\n"
    };
    let shared: String = (0..20).map(|n| line(n, "")).collect();
    shell.file("shared.jsonl", shared + "{broken\n{\"messages\": []}\n");
    let fresh: String = (0..20).map(|n| line(n, &format!("It is 10:{n:02}:07. "))).collect();
    shell.file("fresh.jsonl", fresh);
    let said = [
        vec!["cost", "--from-log", "shared.jsonl"],
        vec!["cost", "--from-log", "fresh.jsonl"],
        vec!["cost", "--from-log", "fresh.jsonl", "--since", "2026-11-30T10:08:00Z"],
        vec!["cost", "--from-log", "fresh.jsonl", "--prices", "example"],
        vec!["cost", "--from-log", "missing.jsonl"],
        vec!["cost", "--from-ledger"],
    ]
    .map(|args| shell.run(&args).all().replace(shell.dir.path().to_str().unwrap(), "DIR"));
    insta::assert_snapshot!("starts_of_logs", said.join("\n"));
}
