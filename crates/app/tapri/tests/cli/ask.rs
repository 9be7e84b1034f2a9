//! `tapri ask` end to end, with smollm2.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::{Said, Shell};

/// A document of some 700 tokens.
fn lease(shell: &Shell) {
    let mut text =
        "# Lease\n\nThe tenant of the tea stall is Asha. The rent is 4,000 rupees a month.\n"
            .to_owned();
    for clause in 1..=40 {
        text.push_str(&format!(
            "\nClause {clause}. The tenant keeps part {clause} of the stall clean.\n"
        ));
    }
    shell.file("lease.md", text);
    shell.file("q.txt", "Who is the tenant?\n\nHow much is the rent?\nWhat does clause 7 say?\n");
}

fn args<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["ask", "lease.md", "--model", model, "--max-tokens", "12"], more].concat()
}

fn model() -> String {
    tapri_registry::test_model("smollm2").to_str().unwrap().to_owned()
}

fn json(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{}", said.err);
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.out))
}

#[test]
fn only_the_first_question_reads_the_document() {
    let (shell, model) = (Shell::new(), model());
    lease(&shell);
    let with = json(&shell.run(&args(&model, &["--questions", "q.txt", "--json"])));
    let without =
        json(&shell.run(&args(&model, &["--questions", "q.txt", "--json", "--no-prefix-cache"])));
    let (warm, cold) =
        (with["questions"].as_array().unwrap(), without["questions"].as_array().unwrap());
    assert_eq!((warm.len(), cold.len()), (3, 3));
    assert_eq!(warm[0]["cached_tokens"], 0);
    for (warm, cold) in warm.iter().zip(cold) {
        assert_eq!(warm["answer"], cold["answer"], "a hit changes nothing");
        assert_ne!(warm["answer"], "");
        assert_eq!(warm["prompt_tokens"], cold["prompt_tokens"]);
        assert_eq!(cold["cached_tokens"], 0);
        for field in ["ttft_seconds", "answer_seconds"] {
            assert!(warm[field].as_f64().unwrap() > 0.0, "{warm}");
        }
        assert!((1..=12).contains(&warm["answer_tokens"].as_u64().unwrap()));
    }
    for later in &warm[1..] {
        let (cached, prompt) =
            (later["cached_tokens"].as_u64().unwrap(), later["prompt_tokens"].as_u64().unwrap());
        assert!(prompt > 500 && prompt - cached < 48, "{cached} of {prompt}");
    }
    let summary = &with["summary"];
    let sum =
        |field: &str| warm.iter().map(|question| question[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!(summary["cached_tokens"], sum("cached_tokens"));
    assert_eq!(summary["prompt_tokens"], sum("prompt_tokens"));
    assert!(summary["estimated"].to_string().contains("cost"));
    let cost = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    assert!(cost(&summary["cost"]) < cost(&summary["cost_without_cache"]));
    assert_eq!(
        summary["cost_without_cache"], without["summary"]["cost"],
        "the same tokens, bought at full price"
    );
}

#[test]
fn rows_and_a_summary() {
    let (shell, model) = (Shell::new(), model());
    lease(&shell);
    shell.file(
        "p.toml",
        "name = 'mine'\ncurrency = 'EUR'\ninput = '1.5'\ncached_input = 0.15\noutput = 6\n",
    );
    let said = shell.run(&args(
        &model,
        &["--ask", "Who is the tenant?", "--ask", "And the rent?", "--prices", "p.toml"],
    ));
    assert_eq!(said.code, Some(0), "{}", said.err);
    for part in [
        "\n1. Who is the tenant?\n   ",
        "\n2. And the rent?\n   ",
        "prompt tokens, 0 cached (0.0 %); first token after",
        "EUR 0.00",
        "2 questions to SmolLM2-135M-Instruct.Q4_1:",
        "first token, median of the others",
        "measured",
        "estimate: measured tokens at the 'mine' price list; it was not run",
    ] {
        assert!(said.out.contains(part), "{part:?} is not in {}", said.out);
    }
    assert!(
        !said.out.contains("threads") && said.err.contains("KV memory"),
        "what is no data goes to stderr"
    );
}

#[test]
fn a_chat_keeps_its_turns() {
    let (shell, model) = (Shell::new(), model());
    lease(&shell);
    let chat = json(&shell.run(&args(&model, &["--questions", "q.txt", "--chat", "--json"])));
    let alone = json(&shell.run(&args(&model, &["--questions", "q.txt", "--json"])));
    let tokens =
        |value: &Value, at: usize| value["questions"][at]["prompt_tokens"].as_u64().unwrap();
    assert_eq!(tokens(&chat, 0), tokens(&alone, 0));
    assert!(tokens(&chat, 2) > tokens(&alone, 2) + 15, "two turns are behind the document");
    // The turns of the last prompt, answer included, are found again.
    let cached = chat["questions"][2]["cached_tokens"].as_u64().unwrap();
    assert!(cached + 48 > tokens(&chat, 1), "{cached} of {}", tokens(&chat, 1));
}

#[test]
fn a_chat_that_outgrows_the_context_says_so() {
    let (shell, model) = (Shell::new(), model());
    // The document takes 6,000 tokens of the context of 8,192, and each question 500.
    shell.file("lease.md", "The tenant keeps the stall clean and pays the rent. ".repeat(540));
    let long = "Tell me about the rent of the stall ".repeat(60);
    let questions: String = (0..5).map(|n| format!("{long} {n}?\n")).collect();
    shell.file("many.txt", questions);
    let said = shell.run(&args(&model, &["--questions", "many.txt", "--chat", "--json"]));
    let chat = json(&said);
    assert!(said.err.contains("note: the context is full: the oldest "), "{}", said.err);
    assert!(said.err.contains("the document stays"), "{}", said.err);
    for question in chat["questions"].as_array().unwrap() {
        let tokens = question["prompt_tokens"].as_u64().unwrap();
        assert!((6000..=8180).contains(&tokens), "{tokens}");
    }
}

#[test]
fn questions_from_stdin() {
    let (shell, model) = (Shell::new(), model());
    lease(&shell);
    let mut child = shell
        .command(&args(&model, &["--json"]))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"Who is the tenant?\n\n").unwrap();
    let said = json(&child.wait_with_output().unwrap().into());
    assert_eq!(said["questions"][0]["question"], "Who is the tenant?");
    assert_eq!(said["questions"].as_array().unwrap().len(), 1);
}

#[cfg(unix)]
#[test]
fn control_c_ends_cleanly() {
    let (shell, model) = (Shell::new(), model());
    // A prompt that takes seconds to read: the signal comes while it does.
    shell.file("lease.md", "The tenant keeps the stall clean and pays the rent. ".repeat(680));
    let mut child = shell
        .command(&args(&model, &["--ask", "Why?", "--threads", "1"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.contains("1. Why?\n") {
        assert_eq!(child.stdout.as_mut().unwrap().read(&mut byte).unwrap(), 1, "{seen}");
        seen.push(char::from(byte[0]));
    }
    let kill = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(said.err.contains("interrupted"), "{}", said.err);
}

#[test]
fn with_a_disk_the_next_run_does_not_read_the_document_again() {
    let (shell, model) = (Shell::new(), model());
    lease(&shell);
    let ask = |question: &str| {
        let said = json(&shell.run(&args(
            &model,
            &["--ask", question, "--json", "--kv-disk", "kv", "--kv-disk-size", "64MiB"],
        )));
        said["questions"][0].clone()
    };
    let first = ask("Who is the tenant?");
    assert_eq!(first["cached_tokens"], 0);
    let other = ask("How much is the rent?");
    let (cached, prompt) =
        (other["cached_tokens"].as_u64().unwrap(), other["prompt_tokens"].as_u64().unwrap());
    assert!(prompt > 500 && prompt - cached < 48, "{cached} of {prompt}");
    let again = ask("Who is the tenant?");
    assert!(again["cached_tokens"].as_u64().unwrap() >= cached);
    assert_eq!(again["answer"], first["answer"], "a hit changes nothing");
}
