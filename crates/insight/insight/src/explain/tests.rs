#![expect(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

fn doc(value: Value) -> PromptDoc {
    PromptDoc::from_value(&value).unwrap()
}

fn chat(system: &str, rest: &[(&str, &str)]) -> PromptDoc {
    let mut messages = vec![json!({"role": "system", "content": system})];
    messages.extend(rest.iter().map(|(role, text)| json!({"role": role, "content": text})));
    doc(json!({"messages": messages}))
}

fn found(old: &PromptDoc, new: &PromptDoc) -> Found {
    explain(old, new, &Evidence::default())
}

const RULES: &str = "You answer questions about the file. Quote the page. Never guess. Keep it short, and say where in the file you found it, so that a person can look it up.";

#[test]
fn a_grown_conversation_is_no_alarm() {
    let old = chat(RULES, &[("user", "Who signed?")]);
    let new = chat(RULES, &[("user", "Who signed?"), ("assistant", "Mia."), ("user", "When?")]);
    assert_eq!(found(&old, &new).reason, MissReason::Growth);
    assert_eq!(found(&old, &old).reason, MissReason::Growth);
    assert_eq!(found(&new, &old).reason, MissReason::CutAtEnd);
    let other = chat(RULES, &[("user", "Who was the witness?")]);
    let last = found(&old, &other);
    assert_eq!((last.reason, last.is_alarm()), (MissReason::LastMessage, false));
    assert_eq!(
        last.line(true),
        r#"messages[1].content, character 4: "was the witness" was "signed""#
    );
}

#[test]
fn dropped_and_summarised_turns() {
    let turns = [
        ("user", "one, a long question"),
        ("assistant", "an answer that is long enough to be worth a summary"),
        ("user", "three, another question"),
        ("assistant", "four, another answer that takes its room"),
        ("user", "five"),
    ];
    let old = chat(RULES, &turns);
    let new = chat(RULES, &[&turns[2..], &[("assistant", "six"), ("user", "seven")]].concat());
    let dropped = found(&old, &new);
    assert_eq!(dropped.reason, MissReason::TurnsShortened);
    assert_eq!(dropped.place.unwrap().path, "messages[1]");
    let summary = [("user", "Summary: a question and an answer.")];
    let new = chat(RULES, &[&summary[..], &turns[4..]].concat());
    assert_eq!(found(&old, &new).reason, MissReason::TurnsSummarised);
}

#[test]
fn a_template_that_rewrites_an_earlier_turn_shows_in_the_tokens() {
    let old = chat(RULES, &[("user", "Who signed?")]);
    let new = chat(RULES, &[("user", "Who signed?"), ("assistant", "Mia."), ("user", "When?")]);
    let ids = |count: u32| (0..count).collect::<Vec<u32>>();
    // The old prompt ends with what begins an answer; that is no turn.
    let evidence = Evidence::default().with_tokens(&[ids(100), vec![7, 7]].concat(), &ids(140));
    let grew = explain(&old, &new, &evidence);
    assert_eq!((grew.reason, grew.shared.count, grew.prompt.count), (MissReason::Growth, 100, 140));
    assert!(!grew.shared.estimated);
    let evidence = Evidence::default().with_tokens(&ids(100), &[ids(40), vec![7; 100]].concat());
    let rewritten = explain(&old, &new, &evidence);
    assert_eq!((rewritten.reason, rewritten.lost.count), (MissReason::ReasoningRewritten, 60));
}

#[test]
fn instructions_that_come_or_go_before_the_file_are_told_from_a_file_that_does() {
    use crate::prompt::{Kind, Part};
    let prompt = |parts: &[(Kind, &str)]| {
        let parts = parts.iter().map(|(kind, text)| {
            let path = if *kind == Kind::System { "instructions" } else { "file.pages[0]" };
            Part::new(*kind, path, *text)
        });
        PromptDoc::from_parts(None, parts.collect(), Vec::new())
    };
    let page = "The compact of 1943 divides the water of the river. ".repeat(20);
    let other = "An annex of another day, with nothing in it. ".repeat(20);
    let bare = prompt(&[(Kind::Document, &page)]);
    let told = prompt(&[(Kind::System, RULES), (Kind::Document, &page)]);
    let added = prompt(&[(Kind::Document, &other), (Kind::System, RULES), (Kind::Document, &page)]);
    assert_eq!(found(&bare, &told).reason, MissReason::InstructionsEdited);
    assert_eq!(found(&told, &bare).reason, MissReason::InstructionsEdited);
    assert_eq!(found(&told, &added).reason, MissReason::FileChanged);
    assert_eq!(found(&added, &told).reason, MissReason::FileChanged);
}
