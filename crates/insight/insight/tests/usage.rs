//! Token counts in every shape, and lines that contradict themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fmt::Write;

use tapri_insight::usage::{Line, LoggedCall, UsageError, read};

fn call(line: &str) -> LoggedCall {
    match read(line) {
        Ok(Line::Call(call)) => *call,
        other => panic!("{other:?}: {line}"),
    }
}

#[test]
fn every_shape() {
    let mut table = String::new();
    for (number, line) in include_str!("data/usage/shapes.jsonl").lines().enumerate() {
        let call = call(line);
        let usage = call.usage;
        writeln!(
            table,
            "{:>2} {}: prompt {} cached {:?} written {:?} long {:?} answer {:?}\n   at {} tenant {:?} route {:?} model {:?} conversation {:?} ttft {:?} total {:?}",
            number + 1,
            usage.shape,
            usage.prompt,
            usage.cached,
            usage.written,
            usage.written_long,
            usage.answer,
            call.at.map_or("-".to_owned(), |at| at.to_string()),
            call.tenant,
            call.route,
            call.model,
            call.conversation,
            call.ttft,
            call.total,
        )
        .unwrap();
    }
    insta::assert_snapshot!(table.replace("Some(", "(").replace("None", "-"));
}

/// Absent, zero and reported are three things; `null` is absent.
#[test]
fn absent_is_not_zero() {
    let cached = |details: &str| {
        call(&format!(r#"{{"usage": {{"prompt_tokens": 10, "total_tokens": 12{details}}}}}"#))
            .usage
            .cached
    };
    assert_eq!(cached(""), None);
    assert_eq!(cached(r#", "prompt_tokens_details": null"#), None);
    assert_eq!(cached(r#", "prompt_tokens_details": {}"#), None);
    assert_eq!(cached(r#", "prompt_tokens_details": {"cached_tokens": null}"#), None);
    assert_eq!(cached(r#", "prompt_tokens_details": {"cached_tokens": 0}"#), Some(0));
    assert_eq!(cached(r#", "prompt_tokens_details": {"cached_tokens": 7}"#), Some(7));
}

/// The same prompt, said by two: Anthropic leaves the cached tokens out of its `input_tokens`, OpenAI doesn't.
#[test]
fn what_the_prompt_includes() {
    let anthropic = call(
        r#"{"usage": {"input_tokens": 100, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}}"#,
    );
    let openai = call(
        r#"{"usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 900}}}"#,
    );
    assert_eq!((anthropic.usage.prompt, anthropic.usage.cached), (1000, Some(900)));
    assert_eq!((openai.usage.prompt, openai.usage.cached), (1000, Some(900)));
}

#[test]
fn contradictions_are_broken_lines() {
    let said: Vec<String> = [
        r#"{"prompt_tokens": 10, "cached_tokens": 11}"#,
        r#"{"prompt_tokens": -1, "cached_tokens": 0}"#,
        r#"{"prompt_tokens": 10, "cached_tokens": -4}"#,
        r#"{"prompt_tokens": 10.5, "cached_tokens": 4}"#,
        r#"{"prompt_tokens": "many", "cached_tokens": 4}"#,
        r#"{"prompt_tokens": 1e300, "cached_tokens": 4}"#,
        r#"{"usage": {"prompt_tokens": 10, "total_tokens": 9}}"#,
        r#"{"usage": {"prompt_tokens": 10, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 4}}"#,
        r#"{"usage": {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 3}, "cache_read_input_tokens": 4}}"#,
        r#"{"usage": {"prompt_tokens": 10, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 6}}"#,
        r#"{"tokens_evaluated": 10, "timings": {"cache_n": 4, "prompt_n": 4}}"#,
        r#"{"tokens_evaluated": 10, "timings": {"prompt_n": 14}}"#,
        "[1, 2]",
        "{broken",
    ]
    .iter()
    .map(|line| read(line).expect_err(line).to_string())
    .collect();
    insta::assert_snapshot!(said.join("\n"));
    assert!(matches!(read("[1]"), Err(UsageError::NoObject)));
}

#[test]
fn what_is_no_call() {
    for line in [
        r#"{"type": "user", "message": {"role": "user", "content": "Hello"}}"#,
        r#"{"type": "message_delta", "delta": {}, "usage": {"input_tokens": 10, "output_tokens": 5}}"#,
        r#"{"type": "summary", "summary": "tokens were counted"}"#,
        r#"{"prompt": "How many tokens?", "usage": null}"#,
        "{}",
    ] {
        assert_eq!(read(line), Ok(Line::Other), "{line}");
    }
}

/// A real session: five answers with counts, none of them cached, among seven other lines.
#[test]
fn a_session_of_claude_code() {
    let lines: Vec<Line> = include_str!("data/usage/claude_code_messages.jsonl")
        .lines()
        .map(|line| read(line).unwrap())
        .collect();
    let calls: Vec<_> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Call(call) => Some((call.usage.prompt, call.usage.cached, call.usage.written)),
            Line::Other => None,
        })
        .collect();
    let zero = Some(0);
    assert_eq!(
        calls,
        [(25, zero, zero), (45, zero, zero), (78, zero, zero), (25, zero, zero), (45, zero, zero)]
    );
    assert_eq!(lines.len(), 12);
}

proptest::proptest! {
    /// Whatever the line, it is read or refused; what is read adds up.
    #[test]
    fn hostile_lines(line in "\\PC{0,80}") {
        let _ = read(&line);
    }

    #[test]
    fn counts_add_up(input in 0u64..1 << 40, read_tokens in 0u64..1 << 40, written in 0u64..1 << 40) {
        let line = format!(
            r#"{{"usage": {{"input_tokens": {input}, "cache_read_input_tokens": {read_tokens}, "cache_creation_input_tokens": {written}}}}}"#
        );
        let usage = call(&line).usage;
        proptest::prop_assert_eq!(usage.prompt, input + read_tokens + written);
        proptest::prop_assert_eq!(usage.cached, Some(read_tokens));
    }
}
