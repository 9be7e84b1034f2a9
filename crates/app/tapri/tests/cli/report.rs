//! `tapri report` on logs.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tapri_ledger::{CallRecord, Entry, Explanation, MissReason, SystemClock, Writer, WriterConfig};

use crate::Shell;

/// Twenty questions about one file of 32,000 tokens, two minutes apart.
fn twenty(day: &str, cached: impl Fn(u32) -> u64) -> String {
    (0..20)
        .map(|n| {
            format!(
                "{{\"timestamp\": \"{day}T10:{:02}:00Z\", \"tenant\": \"acme\", \"route\": \"/v1/chat/completions\", \
                 \"model\": \"example\", \"prompt_tokens\": 32200, \"cached_tokens\": {}, \"ttft_ms\": {}}}\n",
                n * 2,
                cached(n),
                if cached(n) > 0 { 480 + n } else { 4000 + n },
            )
        })
        .collect()
}

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../insight/insight/tests/data/usage")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_line_of_a_day() {
    let shell = Shell::new();
    shell.file("works.jsonl", twenty("2026-11-30", |_| 30_400));
    shell.file("broken.jsonl", twenty("2026-11-30", |_| 0));
    let said = shell.run(&["report", "works.jsonl", "--utc"]);
    let line = "  2026-11-30: 608,000 of 644,000 prompt tokens from cache (94%): OK\n";
    assert!(said.out.contains(line), "{}", said.out);
    let said = shell.run(&["report", "broken.jsonl", "--utc"]);
    let line = "  2026-11-30: 0 of 644,000 prompt tokens from cache (0%): ALERT: check the top of the prompt\n";
    assert!(said.out.contains(line), "{}", said.out);
}

#[test]
fn a_whole_report() {
    let shell = Shell::new();
    let two_days =
        twenty("2026-11-29", |n| if n == 0 { 0 } else { 32_000 }) + &twenty("2026-11-30", |_| 0);
    shell.file("calls.jsonl", two_days);
    let said = shell.run(&["report", "calls.jsonl", "--utc"]);
    insta::assert_snapshot!("report", said.all());
    let said = shell.run(&["report", "calls.jsonl", "--utc", "--json"]);
    insta::assert_snapshot!("report_json", said.all());
}

#[test]
fn every_shape_in_one_log() {
    let shell = Shell::new();
    shell.file("shapes.jsonl", data("shapes.jsonl"));
    insta::assert_snapshot!("report_shapes", shell.run(&["report", "shapes.jsonl", "--utc"]).all());
}

#[test]
fn a_session_of_claude_code() {
    let shell = Shell::new();
    shell.file("session.jsonl", data("claude_code_messages.jsonl"));
    insta::assert_snapshot!(
        "report_session",
        shell.run(&["report", "session.jsonl", "--utc"]).all()
    );
}

#[test]
fn the_last_calls() {
    let shell = Shell::new();
    shell.file("never.jsonl", twenty("2026-11-30", |_| 0).repeat(5));
    shell.file("stopped.jsonl", twenty("2026-11-30", |n| if n < 12 { 30_400 } else { 0 }));
    shell.file("works.jsonl", twenty("2026-11-30", |_| 30_400));
    shell.file(
        "silent.jsonl",
        "{\"usage\": {\"prompt_tokens\": 32200, \"prompt_tokens_details\": null}}\n".repeat(20),
    );
    let said = ["never.jsonl", "stopped.jsonl", "works.jsonl", "silent.jsonl"]
        .map(|file| shell.run(&["report", file, "--last", "100", "--fail-on-alert"]).all());
    insta::assert_snapshot!("report_last", said.join("\n"));
}

#[test]
fn alerts_can_fail() {
    let shell = Shell::new();
    shell.file("half.jsonl", twenty("2026-11-30", |_| 16_100));
    let code = |more: &[&str]| shell.run(&[&["report", "half.jsonl", "--utc"], more].concat()).code;
    assert_eq!(code(&["--fail-on-alert"]), Some(0));
    assert_eq!(code(&["--fail-on-alert", "--threshold", "51%"]), Some(1));
    assert_eq!(code(&["--deny", "--threshold", "0.51"]), Some(1));
    assert_eq!(code(&["--threshold", "51%"]), Some(0));
    assert_eq!(code(&["--threshold", "51"]), Some(2));
}

/// A day is a day of the zone: 25 hours where the clocks go back.
#[test]
fn days_of_a_zone() {
    let shell = Shell::new();
    // New York on the day before, at both ends of 1 November 2026, and on the day after.
    let calls: String = [
        "2026-11-01T03:59:59Z",
        "2026-11-01T04:00:00Z",
        "2026-11-02T04:59:59Z",
        "2026-11-02T05:00:00Z",
    ]
    .iter()
    .map(|at| format!("{{\"time\": \"{at}\", \"prompt_tokens\": 100, \"cached_tokens\": 90}}\n"))
    .collect();
    shell.file("calls.jsonl", calls);
    let days = |zone: &[&str]| -> Vec<String> {
        let said = shell.run(&[&["report", "calls.jsonl"], zone].concat());
        said.out.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let line = |day: &str, calls: u64| {
        format!("  {day}: {} of {} prompt tokens from cache (90%): OK", calls * 90, calls * 100)
    };
    assert_eq!(
        days(&["--zone", "America/New_York"]),
        [
            "By day (America/New_York)".to_owned(),
            line("2026-10-31", 1),
            line("2026-11-01", 2),
            line("2026-11-02", 1)
        ]
    );
    assert_eq!(
        days(&["--utc"]),
        ["By day (UTC)".to_owned(), line("2026-11-01", 2), line("2026-11-02", 2)]
    );
}

#[test]
fn broken_lines_and_gzip() {
    let shell = Shell::new();
    let mut log = twenty("2026-11-30", |_| 30_400);
    log.push_str("{broken\n\n{\"prompt_tokens\": 10, \"cached_tokens\": 11}\n{\"note\": \"no counts\"}\n[7]\n");
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(log.as_bytes()).unwrap();
    shell.file("calls.jsonl.gz", gz.finish().unwrap());
    insta::assert_snapshot!(
        "report_broken",
        shell.run(&["report", "calls.jsonl.gz", "--utc", "--last", "9"]).all()
    );
}

#[test]
fn a_period() {
    let shell = Shell::new();
    let log = twenty("2026-11-29", |_| 0)
        + &twenty("2026-11-30", |_| 30_400)
        + "{\"prompt_tokens\": 9}\n";
    shell.file("calls.jsonl", log);
    let said = shell.run(&["report", "calls.jsonl", "--utc", "--since", "2026-11-30"]);
    assert!(said.out.starts_with("By day (UTC)\n  2026-11-30: 608,000 of"), "{}", said.out);
    assert_eq!(said.err, "note: calls without a time were left out, since --since was given: 1\n");
}

/// Twenty calls, two minutes apart: the first reads the file, the next nine reuse it, then a date at the top changes
/// on every call. The last was refused.
fn ledger(path: &Path) {
    let writer = Writer::open(WriterConfig::new(path), Arc::new(SystemClock)).unwrap();
    for n in 0..21 {
        let at = format!("2026-11-30T10:{:02}:00Z", n * 2).parse().unwrap();
        let mut record = CallRecord::new(format!("{n:032x}"), at);
        record.route = "/v1/chat/completions".to_owned();
        record.model = "gemma-3-270m".to_owned();
        record.upstream = "embedded".to_owned();
        let cached = if (1..10).contains(&n) { 32_000 } else { 0 };
        if n < 20 {
            record.tokens.prompt = Some(32_200);
            record.tokens.cached = Some(cached);
            record.tokens.answer = Some(500);
            record.tokens.written = Some(32_128 - cached);
            record.ttft = Some(Duration::from_millis(if cached > 0 { 480 } else { 4000 }));
        }
        // The file's blocks, and after the tenth call other ones each time.
        let salt = if n < 10 { 0 } else { n << 32 };
        record.trace = (0..251).map(|block| salt + block).collect();
        if n == 0 || (10..20).contains(&n) {
            record.explanation = Some(Explanation {
                reason: if n == 0 { MissReason::NeverSeen } else { MissReason::Date },
                nearest: None,
                shared_tokens: Some(12),
                estimated: false,
                place: None,
                new: None,
                old: None,
                looks_like: None,
                suggestion: "Move it behind what stays the same.".to_owned(),
            });
        }
        writer.record(Entry::new(record));
    }
    assert!(writer.close(Duration::from_secs(30)));
}

#[test]
fn from_the_ledger() {
    let shell = Shell::new();
    ledger(&shell.dir.path().join("ledger.sqlite"));
    let report = ["report", "--ledger", "ledger.sqlite", "--utc", "--prices", "example"];
    insta::assert_snapshot!("report_ledger", shell.run(&report).all());
    let said = shell.run(&[&report[..], &["--since", "2026-11-30T10:20:00Z"]].concat());
    assert!(
        said.out.contains("  2026-11-30: 0 of 322,000 prompt tokens from cache (0%): ALERT"),
        "{}",
        said.out
    );
    assert!(said.out.contains("Rs 34.20 without: saved nothing\n"), "{}", said.out);
    let json = shell.run(&[&report[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["causes"][0]["reason"], "date_changed");
    assert_eq!(json["causes"][0]["tokens"], 322_000);
    assert_eq!(json["causes"][0]["estimate_at_most"]["Rs"], "25.76");
    assert_eq!(json["all"]["estimate"]["Rs"]["saved"], "23.04");
    let other = shell.run(&[&report[..], &["--tenant", "acme"]].concat());
    assert_eq!(other.code, Some(1));
    assert!(other.err.contains("error: there is no such call\nhint: "), "{}", other.err);
}

/// Without a file it is the ledger of the data folder; where there is none, that is said.
#[test]
fn where_the_ledger_is() {
    let shell = Shell::new();
    let run = || {
        let mut command = shell.command(&["report", "--last", "100"]);
        crate::Said::from(command.env("TAPRI_DATA", "data").output().unwrap())
    };
    let missing = run();
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.err.contains("ledger.sqlite") && missing.err.contains("hint: "),
        "{}",
        missing.err
    );
    std::fs::create_dir(shell.dir.path().join("data")).unwrap();
    ledger(&shell.dir.path().join("data/ledger.sqlite"));
    let found = run();
    assert_eq!(
        found.out,
        "there are only 20 calls\ncached tokens on 9 of the last 20 calls\nand on none of the last 10: ALERT: \
         look at what changed after the last hit (2026-11-30T10:18:00Z)\n"
    );
}

/// An estimate names the price list and its date, and a model without a price is said.
#[test]
fn prices_of_models() {
    let shell = Shell::new();
    let line = |model: &str| {
        format!(
            "{{\"model\": \"{model}\", \"session_id\": \"s\", \"usage\": {{\"input_tokens\": 50, \"output_tokens\": 500, \
             \"cache_read_input_tokens\": 0, \"cache_creation_input_tokens\": 50000}}}}\n"
        )
    };
    let log = line("claude-sonnet-4-5").repeat(10) + &line("nobody-knows-it");
    shell.file("calls.jsonl", log);
    insta::assert_snapshot!("report_prices", shell.run(&["report", "calls.jsonl", "--utc"]).all());
}

#[test]
fn a_plot() {
    let shell = Shell::new();
    let month: String = (1..=30)
        .map(|day| {
            twenty(&format!("2026-11-{day:02}"), |n| {
                if n == 0 || (20..23).contains(&day) { 0 } else { 32_000 }
            })
        })
        .collect();
    shell.file("calls.jsonl", month);
    let run = ["report", "calls.jsonl", "--utc", "--prices", "example", "--plot", "calls.svg"];
    let said = shell.run(&run);
    assert_eq!((said.code, said.err.as_str()), (Some(0), "drawn: calls.svg\n"));
    let drawn = std::fs::read_to_string(shell.dir.path().join("calls.svg")).unwrap();
    insta::assert_snapshot!("report_plot", drawn);
    shell.file("bare.jsonl", "{\"prompt_tokens\": 10, \"cached_tokens\": 0}\n");
    let said = shell.run(&["report", "bare.jsonl", "--utc", "--plot", "bare.svg"]);
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.contains("error: there is nothing to plot\nhint: a plot needs calls with a time"),
        "{}",
        said.err
    );
    let said = shell.run(&["report", "calls.jsonl", "--utc", "--plot", "missing/calls.svg"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("error: missing/calls.svg can't be written: "), "{}", said.err);
}

/// Eight days at 94 percent, then a template that begins with the time: the report says what fell, when, and that it
/// was no chance; and that hits of short prompts are slower than misses.
#[test]
fn changes_and_delays() {
    let shell = Shell::new();
    let mut log = String::new();
    for n in 0u64..1400 {
        let at = jiff::Timestamp::from_second(1_795_000_000 + n as i64 * 600).unwrap();
        let hit = n % 12 != 0 && n < 1150;
        // A number that looks random, and is the same each time.
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let ttft = if hit { 500 } else { 400 } + noise;
        log += &format!(
            "{{\"time\": \"{at}\", \"user\": \"acme\", \"prompt_tokens\": 800, \"cached_tokens\": {}, \"ttft_ms\": {ttft}}}\n",
            if hit { 768 } else { 0 }
        );
    }
    shell.file("calls.jsonl", log);
    insta::assert_snapshot!("report_changes", shell.run(&["report", "calls.jsonl", "--utc"]).all());
}

#[test]
fn from_stdin() {
    let shell = Shell::new();
    let log = shell.file("calls.jsonl", twenty("2026-11-30", |_| 30_400));
    let mut command = shell.command(&["report", "-", "--utc"]);
    let said =
        crate::Said::from(command.stdin(std::fs::File::open(log).unwrap()).output().unwrap());
    assert!(
        said.out.contains("608,000 of 644,000 prompt tokens from cache (94%): OK"),
        "{}",
        said.out
    );
}

#[test]
fn what_is_refused() {
    let shell = Shell::new();
    shell.file("empty.jsonl", "");
    shell.file("prompts.jsonl", "{\"messages\": []}\n{\"messages\": []}\n");
    shell.file("text.jsonl", "hello\nworld\n");
    shell.file("calls.jsonl", twenty("2026-11-30", |_| 0));
    let said = [
        vec!["empty.jsonl"],
        vec!["prompts.jsonl"],
        vec!["text.jsonl"],
        vec!["missing.jsonl"],
        vec!["."],
        vec!["calls.jsonl", "--since", "2030-01-01"],
        vec!["calls.jsonl", "--since", "yesterday"],
        vec!["calls.jsonl", "--zone", "Mars/Olympus"],
        vec!["calls.jsonl", "--last", "0"],
        vec!["calls.jsonl", "--threshold", "50"],
    ]
    .map(|args| shell.run(&[&["report"], &args[..]].concat()).all());
    insta::assert_snapshot!("report_refusals", said.join("\n"));
}
