//! Opposites, by the lexicon and among particles.

use super::{against, unmatched};
use crate::semantic::lexicon::Lexicon;
use crate::semantic::question::{Question, Term};

/// Particles that turn a verb or a phrase round.
const PARTICLES: [(&str, &str); 12] = [
    ("on", "off"),
    ("in", "out"),
    ("up", "down"),
    ("over", "under"),
    ("above", "below"),
    ("before", "after"),
    ("with", "without"),
    ("from", "to"),
    ("inside", "outside"),
    ("more", "less"),
    ("most", "least"),
    ("first", "last"),
];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (left, right) = unmatched(a, b);
    let lexicon = Lexicon::get();
    let forms = |term: &Term| -> Vec<String> {
        let mut forms = term.bases.clone();
        forms.extend(lexicon.degree(&term.text).map(|(_, base)| base));
        forms
    };
    for a in &left {
        for b in &right {
            let (of_a, of_b) = (forms(a), forms(b));
            if of_a.iter().any(|a| of_b.iter().any(|b| lexicon.are_opposites(a, b))) {
                return Some(against(&a.text, &b.text));
            }
        }
    }
    let says =
        |q: &Question, text: &str| q.core.iter().filter(|t| t.closed && t.text == text).count();
    PARTICLES.iter().find_map(|(x, y)| {
        let turned =
            |a: &Question, b: &Question| says(a, x) > says(b, x) && says(b, y) > says(a, y);
        (turned(a, b) || turned(b, a)).then(|| against(x, y))
    })
}
