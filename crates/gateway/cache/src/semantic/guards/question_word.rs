//! What kind of answer is asked for.

use crate::semantic::question::{Ask, Question};

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    // A statement asks for nothing that a word would tell; its verb is compared as any other word is.
    let kinds = |q: &Question| q.ask;
    (kinds(a) != kinds(b)).then(|| format!("{} against {}", name(a.ask), name(b.ask)))
}

fn name(ask: Ask) -> &'static str {
    match ask {
        Ask::HowTo => "'how do I'",
        Ask::How | Ask::HowWhat => "'how'",
        Ask::Price => "a price",
        Ask::HowMuch => "'how much'",
        Ask::HowMany => "'how many'",
        Ask::What => "'what'",
        Ask::WhatTime => "'what time'",
        Ask::When => "'when'",
        Ask::Where => "'where'",
        Ask::Who => "'who'",
        Ask::Whose => "'whose'",
        Ask::Why => "'why'",
        Ask::Exists => "'is there'",
        Ask::May => "'can I'",
        Ask::Whether => "yes or no",
        Ask::Says => "no question",
    }
}
