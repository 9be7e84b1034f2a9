//! Text that holds more than one thing: a transcript with labelled speakers, an answer with its reasoning in tags.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::build::{Builder, speaker};
use super::{Kind, Part, Speaker};

/// The start of a turn in a transcript: a blank line, then a label.
#[expect(clippy::unwrap_used, reason = "a constant pattern, compiled by a test")]
static LABEL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:\A|\n\n)(system|developer|user|human|assistant|ai|tool|function): ").unwrap()
});

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Adds a text that may be a transcript: one turn for each label, the blank line before a label its own. A text that
/// doesn't begin with a label is one part without a turn.
pub(super) fn add(builder: &mut Builder, path: &str, text: &str) {
    let mut starts: Vec<(usize, Speaker)> = LABEL
        .captures_iter(text)
        .filter_map(|found| Some((found.get(0)?.start(), speaker(Some(found.get(1)?.as_str())))))
        .collect();
    if starts.first().is_none_or(|(at, _)| *at != 0) {
        builder.push(Part::new(Kind::Text, path, text));
        return;
    }
    starts.push((text.len(), Speaker::Other));
    let mut offset = 0;
    for pair in starts.windows(2) {
        let piece = &text[pair[0].0..pair[1].0];
        builder.begin_turn(path, pair[0].1);
        let kind = if pair[0].1 == Speaker::System { Kind::System } else { Kind::Text };
        builder.push(Part { offset, ..Part::new(kind, path, piece) });
        offset += piece.chars().count() as u64;
    }
}

/// Adds the text of an answer, its reasoning in `<think>` tags as parts of their own.
pub(super) fn add_answer(builder: &mut Builder, path: &str, text: &str) {
    if !text.contains(CLOSE) {
        builder.push(Part::new(Kind::Text, path, text));
        return;
    }
    let mut offset = 0;
    let mut push = |kind, piece: &str| {
        if !piece.is_empty() {
            builder.push(Part { offset, ..Part::new(kind, path, Arc::<str>::from(piece)) });
            offset += piece.chars().count() as u64;
        }
    };
    let mut rest = text;
    while let Some(end) = rest.find(CLOSE).map(|at| at + CLOSE.len()) {
        // Some templates open the tag themselves, so an answer may only close it.
        let begin = rest[..end].find(OPEN).unwrap_or(0);
        push(Kind::Text, &rest[..begin]);
        push(Kind::Reasoning, &rest[begin..end]);
        rest = &rest[end..];
    }
    push(Kind::Text, rest);
}
