use std::fs;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::Shell;

/// Some 1,500 tokens that never change.
fn rules() -> String {
    (0..100)
        .map(|n| format!("Rule {n}: members who come in by door {n} sign the book.\n"))
        .collect()
}

fn chat(system: &str, question: &str) -> Value {
    json!({"model": "gpt-5", "messages": [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
    ]})
}

/// The airline agent's trajectories, as they were published.
fn airline() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../examples/transcripts/airline_agent_18.json.gz");
    let mut text = String::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Every request that the airline agent made, with what `change` does to the instructions.
fn requests(change: impl Fn(&str, usize) -> String) -> String {
    let mut log = String::new();
    let mut number = 0;
    for task in airline().as_array().unwrap() {
        let turns = task["traj"].as_array().unwrap();
        for (at, _) in turns.iter().enumerate().filter(|(_, turn)| turn["role"] == "assistant") {
            let mut messages = turns[..at].to_vec();
            let system = change(messages[0]["content"].as_str().unwrap(), number);
            messages[0]["content"] = json!(system);
            log += &format!("{}\n", json!({"model": "gpt-4o", "messages": messages}));
            number += 1;
        }
    }
    log
}

const CLOCK: &str = "2024-05-15 15:00:00 EST";

fn now(number: usize) -> String {
    format!("2024-05-15 {:02}:{:02}:07 EST", 15 + number / 60, number % 60)
}

#[test]
fn the_timestamp_in_the_airlines_third_line_is_found_and_nothing_else() {
    let shell = Shell::new();
    shell.file("airline.jsonl", requests(|system, n| system.replace(CLOCK, &now(n))));
    let said = shell.run(&["lint", "airline.jsonl", "--deny"]);
    assert_eq!(said.code, Some(1));
    // How much was lost is the explanations' figure, held in their own tests.
    let (before, after) = said.out.split_once("times, and about ").unwrap();
    let (lost, after) = after.split_once(' ').unwrap();
    assert!(lost.parse::<u64>().unwrap() > 700_000, "{lost}");
    insta::assert_snapshot!("lint_airline", format!("{before}times, and about N {after}"));
    // As it was published: one time in all of them, which will be another tomorrow.
    shell.file("airline.json", airline().to_string());
    let said = shell.run(&["lint", "airline.json", "--deny=TPL001"]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.out.contains("traj[0].content, character 44, in 264 requests"), "{}", said.out);
    // Without that line, 264 requests of 18 conversations have nothing.
    shell.file(
        "clean.jsonl",
        requests(|system, _| system.replace(&format!("The current time is {CLOCK}.\n"), "")),
    );
    let said = shell.run(&["lint", "clean.jsonl", "--deny"]);
    assert_eq!((said.code, said.out.lines().count()), (Some(0), 1), "{}", said.out);
}

#[test]
fn a_better_order_of_the_airlines_requests() {
    let shell = Shell::new();
    let log = shell.file("airline.jsonl", requests(|system, n| system.replace(CLOCK, &now(n))));
    let before = fs::read(&log).unwrap();
    let said = shell.run(&["lint", "airline.jsonl", "--suggest"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    insta::assert_snapshot!("lint_suggest_airline", said.err);
    assert_eq!(fs::read(&log).unwrap(), before);
    let better: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(better.len(), 264);
    for (number, request) in better.iter().enumerate() {
        let messages = request["messages"].as_array().unwrap();
        let last = format!("The current time is {}.\n", now(number));
        assert_eq!(messages.last().unwrap(), &json!({"role": "system", "content": last}));
        assert!(!messages[0]["content"].as_str().unwrap().contains("The current time"));
    }
    shell.file("better.jsonl", &said.out);
    assert_eq!(shell.run(&["lint", "better.jsonl", "--deny"]).code, Some(0));
}

/// A file with most of what can be wrong in one request.
fn bad() -> String {
    let block = |text: String, ttl: Option<&str>| match ttl {
        None => json!({"type": "text", "text": text}),
        Some(ttl) => {
            json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}})
        }
    };
    let body = json!({"model": "claude-sonnet-4-5", "system": [
        block("Today is Monday. Current user: Mia Li".to_owned(), Some("5m")),
        block(rules(), Some("1h")),
        block("session id: 3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab".to_owned(), Some("5m")),
        block("Be kind.".to_owned(), Some("5m")),
        block("Be quick.".to_owned(), Some("5m")),
        block(rules(), None),
    ], "messages": [{"role": "user", "content": "Why?"}]});
    serde_json::to_string_pretty(&body).unwrap()
}

#[test]
fn every_format() {
    let shell = Shell::new();
    let text = bad();
    shell.file("bad.json", &text);
    insta::assert_snapshot!("lint_text", shell.run(&["lint", "bad.json"]).all());
    insta::assert_snapshot!(
        "lint_json",
        shell.run(&["lint", "bad.json", "--format", "json"]).all()
    );
    let said = shell.run(&["lint", "bad.json", "--format", "sarif"]);
    insta::assert_snapshot!("lint_sarif", said.all());
    // A region points at the value itself.
    let log: Value = serde_json::from_str(&said.out).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    let time = results.iter().find(|result| result["ruleId"] == "TPL001").unwrap();
    let region = &time["locations"][0]["physicalLocation"]["region"];
    let line = usize::try_from(region["startLine"].as_u64().unwrap()).unwrap();
    let column = usize::try_from(region["startColumn"].as_u64().unwrap()).unwrap();
    let found: String = text.lines().nth(line - 1).unwrap().chars().skip(column - 1).collect();
    assert!(found.starts_with("Monday. Current user"), "{found}");
    insta::assert_snapshot!("lint_suggest", shell.run(&["lint", "bad.json", "--suggest"]).all());
}

#[test]
fn folders_logs_and_what_is_denied() {
    let shell = Shell::new();
    fs::create_dir_all(shell.dir.path().join("prompts/deeper")).unwrap();
    shell.file("prompts/good.json", chat(&rules(), "Why?").to_string());
    let timed = format!("The current time is 10:42:07.\n{}", rules());
    shell.file("prompts/deeper/timed.json", chat(&timed, "Why?").to_string());
    shell.file("prompts/notes.txt", "no request");
    let log: String = (0..4)
        .map(|n| {
            format!(
                "{}\n",
                json!({"ts": n, "request": chat(&format!("[10:4{n}:07] {}", rules()), "Why?")})
            )
        })
        .collect();
    shell.file("prompts/log.jsonl", format!("{log}{{broken\n"));
    let said = shell.run(&["lint", "prompts", "--deny"]);
    assert_eq!(said.code, Some(1));
    insta::assert_snapshot!("lint_folder", said.all());
    let code = |args: &[&str]| shell.run(&[&["lint"], args].concat()).code;
    // A bare --deny in front of a path denies everything; a note is not denied so.
    assert_eq!(code(&["--deny", "prompts/deeper/timed.json"]), Some(1));
    assert_eq!(code(&["prompts", "--deny", "TPL004"]), Some(0));
    assert_eq!(code(&["prompts", "--deny", "tpl001"]), Some(1));
    assert_eq!(code(&["prompts", "--deny", "TPL004", "--deny", "volatile-time"]), Some(1));
    assert_eq!(code(&["prompts"]), Some(0));
    shell.file("short.json", chat("Be kind.", "Why?").to_string());
    assert_eq!(code(&["short.json", "--deny"]), Some(0));
    assert_eq!(code(&["short.json", "--deny", "TPL006"]), Some(1));
    // Other rules: this model's provider caches short prompts as well.
    shell.file("own.toml", "[[provider]]\nname = 'own'\nmodels = ['gpt-5']\nminimum = 1\n");
    assert_eq!(code(&["short.json", "--deny", "TPL006", "--rules", "own.toml"]), Some(0));
}

#[test]
fn what_is_refused() {
    let shell = Shell::new();
    shell.file("good.json", chat(&rules(), "Why?").to_string());
    shell.file("none.json", "{\"a\": 1}");
    shell.file("text.txt", "no request");
    fs::create_dir(shell.dir.path().join("empty")).unwrap();
    let said = [
        vec!["lint"],
        vec!["lint", "missing.json"],
        vec!["lint", "none.json"],
        vec!["lint", "text.txt"],
        vec!["lint", "empty"],
        vec!["lint", "good.json", "--deny", "TPL099"],
        vec!["lint", "good.json", "--format", "xml"],
        vec!["lint", "good.json", "--rules", "missing.toml"],
        vec!["lint", "good.json", "--suggest", "--deny"],
        vec!["lint", "none.json", "--suggest"],
        vec!["lint", "text.txt", "--suggest"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("lint_refused", said.join("\n"));
}
