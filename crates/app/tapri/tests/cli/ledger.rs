//! What `tapri ask` leaves in the ledger, with smollm2.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tapri_ledger::{CacheOutcome, CallRecord, Ending, Filter, Ledger, PartKind, Secret};

use crate::Shell;

const QUESTIONS: [&str; 2] = ["Who rents the samovar?", "How long is the lease?"];

fn shell() -> Shell {
    let shell = Shell::new();
    let clauses: String =
        (1..=40).map(|n| format!("Clause {n}. Zubeida keeps samovar {n} polished.\n")).collect();
    // Two pages.
    shell.file("lease.txt", format!("{clauses}\u{c}The end of the lease is in Phalgun.\n"));
    shell
}

fn model() -> String {
    tapri_registry::test_model("smollm2").to_str().unwrap().to_owned()
}

fn args<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let questions = ["--ask", QUESTIONS[0], "--ask", QUESTIONS[1]];
    [&["ask", "lease.txt", "--model", model, "--max-tokens", "8", "--json"], &questions[..], more]
        .concat()
}

pub(crate) fn records(path: &Path) -> Vec<CallRecord> {
    Ledger::open_read(path).unwrap().records(&Filter::default()).unwrap()
}

/// Every file of a folder whose name begins so, with its bytes.
fn files(folder: &Path, start: &str) -> Vec<(PathBuf, Vec<u8>)> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|at| at == text.as_bytes())
}

#[test]
fn each_question_is_a_record() {
    let (shell, model) = (shell(), model());
    let said = shell.run(&args(&model, &[]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let json: Value = serde_json::from_str(&said.out).unwrap();
    let data = shell.dir.path().join("data");
    let ledger = data.join("ledger.sqlite");
    // What the program left behind, before anything else opens it.
    let left = files(&data, "ledger.sqlite");
    assert_eq!(left.len(), 2, "the database and its secret: {left:?}");
    for (path, bytes) in &left {
        for text in ["samovar", "Zubeida", "Phalgun", "How long", "Clause"] {
            assert!(!contains(bytes, text), "'{text}' is in {}", path.display());
        }
    }
    let records = records(&ledger);
    assert_eq!(records.len(), 2);
    let secret = Secret::of_ledger(&ledger).unwrap();
    for (n, (record, asked)) in
        records.iter().zip(json["questions"].as_array().unwrap()).enumerate()
    {
        let tokens = record.tokens;
        assert_eq!(asked["prompt_tokens"], tokens.prompt.unwrap());
        assert_eq!(asked["cached_tokens"], tokens.cached.unwrap());
        assert_eq!(asked["answer_tokens"], tokens.answer.unwrap());
        let cost = record.cost.as_ref().unwrap();
        assert_eq!(asked["cost"], cost.paid.amount.to_string());
        assert_eq!((cost.paid.currency.as_str(), cost.price_list.as_str()), ("Rs", "example"));
        assert_eq!(
            (&*record.route, &*record.tenant, &*record.upstream),
            ("ask", "default", "embedded")
        );
        assert_eq!(record.conversation, records[0].conversation, "one run is one conversation");
        assert!(record.conversation.is_some() && record.ttft.is_some());
        assert!(matches!(record.ending, Ending::Stop | Ending::Length));
        assert_eq!(record.text, None);
        let parts: Vec<_> = record.parts.iter().map(|part| (part.kind, &*part.path)).collect();
        assert_eq!(
            parts,
            [
                (PartKind::System, "instructions"),
                (PartKind::Page, "file.pages[0]"),
                (PartKind::Page, "file.pages[1]"),
                (PartKind::Message, "question"),
            ]
        );
        assert_eq!(record.parts[3].print, secret.print(QUESTIONS[n]));
    }
    assert_eq!(records[0].parts[..3], records[1].parts[..3]);
    let outcomes: Vec<_> = records.iter().map(|it| it.prefix.as_ref().unwrap().outcome).collect();
    assert_eq!(outcomes, [CacheOutcome::Miss, CacheOutcome::Partial]);
    let (first, second) = (records[0].tokens, records[1].tokens);
    assert_eq!(first.written, first.prompt.map(|tokens| tokens / 16 * 16), "all full blocks");
    assert!(second.written < Some(64), "{second:?}");
    assert_eq!(records[0].trace[..3], records[1].trace[..3], "they begin alike");
}

#[test]
fn text_and_place_are_the_persons_choice() {
    let (shell, model) = (shell(), model());
    let said = shell.run(&args(&model, &["--ledger", "deep/in/calls.db", "--ledger-text"]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!shell.dir.path().join("data").exists(), "nothing in the default place");
    let records = records(&shell.dir.path().join("deep/in/calls.db"));
    let text: Value = serde_json::from_str(records[0].text.as_ref().unwrap()).unwrap();
    assert_eq!(text["parts"][3]["text"], QUESTIONS[0]);
    assert!(text["parts"][1]["text"].as_str().unwrap().contains("Zubeida"));

    let said = shell.run(&args(&model, &["--no-ledger"]));
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!shell.dir.path().join("data").exists());
}

#[test]
fn a_document_that_is_too_long_is_a_record() {
    let (shell, model) = (Shell::new(), model());
    shell.file("lease.txt", "The tenant keeps the stall clean. ".repeat(3000));
    let said = shell.run(&args(&model, &[]));
    assert_eq!(said.code, Some(1), "{}", said.err);
    let records = records(&shell.dir.path().join("data/ledger.sqlite"));
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].ending, Ending::Error("context_length_exceeded".to_owned()));
    assert_eq!(records[0].model, "SmolLM2-135M-Instruct.Q4_1");
}

#[test]
fn without_a_ledger_the_questions_are_answered_all_the_same() {
    let (shell, model) = (shell(), model());
    shell.file("wall", "");
    shell.file("novel.txt", "It was a dark and stormy night.");
    for (path, why) in [
        ("wall/ledger.sqlite", "the ledger wall can't be opened"),
        ("novel.txt", "novel.txt is no ledger: it is no database"),
    ] {
        let said = shell.run(&args(&model, &["--ledger", path]));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let json: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(json["questions"].as_array().unwrap().len(), 2);
        let warning = format!("warning: calls are not recorded: {why}");
        assert!(said.err.contains(&warning), "{}", said.err);
        assert!(said.err.contains("\nhint: "), "{}", said.err);
        assert!(said.err.contains("warning: 2 calls were not recorded: "), "{}", said.err);
    }
    let novel = std::fs::read_to_string(shell.dir.path().join("novel.txt")).unwrap();
    assert_eq!(novel, "It was a dark and stormy night.");
}

#[test]
fn bad_sizes_and_ages_are_refused() {
    let shell = shell();
    let said = [
        vec!["--ledger-max-size", "4KiB"],
        vec!["--ledger-max-age", "soon"],
        vec!["--ledger-text", "--no-ledger"],
    ]
    .map(|more| shell.run(&[&["ask", "lease.txt", "--ask", "When?"], &more[..]].concat()).all());
    insta::assert_snapshot!("bad_ledger_settings", said.join("\n"));
}
