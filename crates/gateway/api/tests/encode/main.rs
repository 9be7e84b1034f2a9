//! Writing answers: the events and bodies of each format as snapshots, what is passed on as it came, and that a reader
//! of each format finds in it what was said.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod formats;
mod passed_on;
mod read_again;

use tapri_api::encode::{Encoder, Head};
use tapri_api::{
    CallEvent, CallId, Delta, Finish, FinishReason, Format, Piece, Raw, Says, Timings, Usage,
};

fn head(format: Format) -> Head {
    Head { created: 1_700_000_000, ..Head::new(format, CallId(0xabc), "tiny") }
}

fn says(all: Vec<Says>) -> CallEvent {
    let deltas = all.into_iter().map(|says| Delta { choice: 0, says }).collect();
    CallEvent::Piece(Piece { raw: None, deltas })
}

fn end(reason: FinishReason) -> Says {
    Says::End { reason, matched_stop: None }
}

fn finish(reason: FinishReason, usage: Usage) -> Finish {
    Finish {
        reason,
        matched_stop: None,
        tail: String::new(),
        usage,
        raw: None,
        timings: Timings::default(),
    }
}

fn finished(reason: FinishReason) -> CallEvent {
    CallEvent::Finished(finish(reason, Usage::from_prompt(100, 64, 0, 9)))
}

fn raw(format: Format, event: Option<&str>, data: &str, whole: bool) -> Raw {
    Raw { format, event: event.map(str::to_owned), data: data.into(), whole }
}

/// A piece as it came, with what it says.
fn came(format: Format, event: Option<&str>, data: &str, whole: bool, all: Vec<Says>) -> CallEvent {
    let deltas = all.into_iter().map(|says| Delta { choice: 0, says }).collect();
    CallEvent::Piece(Piece { raw: Some(raw(format, event, data, whole)), deltas })
}

fn stream(head: Head, events: &[CallEvent]) -> String {
    let mut encoder = Encoder::stream(head);
    events.iter().filter_map(|event| encoder.event(event)).collect()
}

fn body(head: Head, events: &[CallEvent]) -> String {
    let mut encoder = Encoder::whole(head);
    events.iter().find_map(|event| encoder.event(event)).unwrap()
}

/// The names and data of a stream's events.
fn events(stream: &str) -> Vec<(Option<&str>, &str)> {
    stream
        .split_terminator("\n\n")
        .map(|frame| {
            let field = |name| frame.lines().find_map(|line| line.strip_prefix(name));
            (field("event: "), field("data: ").unwrap())
        })
        .collect()
}
