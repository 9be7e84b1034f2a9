//! Named parties and things: what is written as a name, and what no lexicon knows.

use super::content::is_misspelling;
use super::{against, unmatched};
use crate::semantic::question::{Kind, Question, Term};

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (left, right) = unmatched(a, b);
    let names = |terms: &[&Term], others: &[&Term]| -> Vec<String> {
        terms
            .iter()
            .filter(|t| t.kind == Kind::Word && (t.capital || t.bases.is_empty()))
            .filter(|t| !others.iter().any(|other| is_misspelling(t, other)))
            .map(|t| t.text.clone())
            .collect()
    };
    let (of_a, of_b) = (names(&left, &right), names(&right, &left));
    (!of_a.is_empty() || !of_b.is_empty()).then(|| against(&of_a.join(", "), &of_b.join(", ")))
}
