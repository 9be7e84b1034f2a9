//! Reading what upstreams answer: words, ends, errors, and the counts of each provider.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod errors;
mod usage;

use tapri_api::decode::{Decoder, Options};
use tapri_api::{CallEvent, Delta, Finish, Format, Says};

/// The events of a stream's data lines; a `name: ` before the brace is the event's.
fn stream(format: Format, options: Options, lines: &[&str]) -> Vec<CallEvent> {
    let mut decoder = Decoder::new(format, options);
    let mut events: Vec<CallEvent> =
        lines.iter().flat_map(|line| decoder.event(None, line).unwrap()).collect();
    events.extend(decoder.end());
    events
}

fn body(format: Format, body: &str) -> Vec<CallEvent> {
    let mut decoder = Decoder::new(format, Options::default());
    let events = decoder.body(body).unwrap();
    assert!(decoder.is_ended(), "{events:?}");
    events
}

fn finish(events: &[CallEvent]) -> &Finish {
    match events.last() {
        Some(CallEvent::Finished(finish)) => finish,
        other => panic!("no finish: {other:?}"),
    }
}

fn deltas(events: &[CallEvent]) -> Vec<&Delta> {
    events
        .iter()
        .filter_map(|event| match event {
            CallEvent::Piece(piece) => Some(&piece.deltas),
            _ => None,
        })
        .flatten()
        .collect()
}

/// What is said, with text, thinking and arguments that follow each other joined.
fn said(events: &[CallEvent]) -> Vec<(usize, Says)> {
    let mut all: Vec<(usize, Says)> = Vec::new();
    for delta in deltas(events) {
        match (all.last_mut(), &delta.says) {
            (Some((choice, Says::Text(text))), Says::Text(more))
            | (Some((choice, Says::Thinking(text))), Says::Thinking(more))
                if *choice == delta.choice =>
            {
                text.push_str(more);
            }
            (
                Some((choice, Says::ToolArguments { index, json })),
                Says::ToolArguments { index: more, json: part },
            ) if *choice == delta.choice && index == more => json.push_str(part),
            (_, says) => all.push((delta.choice, says.clone())),
        }
    }
    all
}

fn raws(events: &[CallEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            CallEvent::Piece(piece) => Some(&*piece.raw.as_ref()?.data),
            _ => None,
        })
        .collect()
}
