//! Sessions: the prompt's start stays, and the oldest turns go in one large step.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;

use proptest::prelude::*;
use tapri_casefile::{Document, Dropped, Layout, Prompt, Room, Session, SessionError};

/// A word is a token.
fn count(prompt: &Prompt) -> Result<usize, Infallible> {
    Ok(text(prompt).split_whitespace().count())
}

fn text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Chat(messages) => messages.iter().map(|m| m.text()).collect::<Vec<_>>().join("\n"),
        Prompt::Tokens(_) | Prompt::Request(_) => unreachable!(),
    }
}

fn session(layout: Layout, words: usize, room: Room) -> Session {
    let file = "file ".repeat(words);
    Session::new(Document::from_bytes("f.txt", file.as_bytes()).unwrap(), layout, room)
}

#[test]
fn the_oldest_turns_go_in_one_large_step() {
    for layout in [Layout::Chat, Layout::Completion] {
        let mut session = session(layout, 100, Room { context: 300, answer: 20 });
        let mut steps = Vec::new();
        let mut before: Option<String> = None;
        for n in 0..60 {
            let question = format!("what is {n} ?");
            let prepared = session.prepare(&question, count).unwrap();
            let text = text(&prepared.prompt);
            assert!(prepared.tokens <= 280);
            assert_eq!(count(&prepared.prompt), Ok(prepared.tokens));
            assert_eq!(text.matches("file").count(), 100, "the file is never touched");
            match prepared.dropped {
                Some(Dropped { turns, left }) => {
                    assert_eq!(left, session.turns().len());
                    steps.push(turns);
                    let room = 280 - 100;
                    assert!(
                        prepared.tokens - 100 <= room / 2 + 40,
                        "half of the room is free again"
                    );
                    assert!(turns > 5, "a large step, not one turn at a time: {turns}");
                }
                // Nothing went: this prompt goes on from the whole of the last one.
                None => assert!(before.is_none_or(|before| text.starts_with(&before))),
            }
            before = Some(text);
            session.keep(&question, " it is so ");
        }
        assert!(steps.len() >= 2, "{steps:?}");
    }
}

#[test]
fn a_document_that_does_not_fit() {
    let mut session = session(Layout::Completion, 500, Room { context: 300, answer: 20 });
    let error = session.prepare("why ?", count).unwrap_err();
    assert!(
        matches!(error, SessionError::TooLong { tokens: 513, room: 280, context: 300, answer: 20 }),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("513") && text.contains("280"), "{text}");
}

#[test]
fn a_question_that_does_not_fit_drops_nothing() {
    let mut session = session(Layout::Completion, 100, Room { context: 300, answer: 20 });
    session.keep("q", "a");
    let long = "word ".repeat(300);
    assert!(session.prepare(&long, count).is_err());
    assert_eq!(session.turns().len(), 1);
    assert!(session.prepare("short", count).unwrap().dropped.is_none());
}

#[test]
fn the_counters_own_error_comes_back() {
    let mut session = session(Layout::Completion, 1, Room { context: 300, answer: 20 });
    let error = session.prepare("q", |_| Err::<usize, _>("no tokenizer".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "no tokenizer");
}

proptest! {
    #[test]
    fn it_fits_or_it_says_so(words in 0usize..60, context in 1usize..120, answer in 0usize..30, turns in prop::collection::vec(0usize..20, 0..12)) {
        let mut session = session(Layout::Completion, words + 1, Room { context, answer });
        for turn in turns {
            session.keep("q", &"a ".repeat(turn));
        }
        match session.prepare("q", count) {
            Ok(prepared) => prop_assert!(prepared.tokens + answer <= context),
            Err(SessionError::TooLong { tokens, .. }) => prop_assert!(tokens + answer > context),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
