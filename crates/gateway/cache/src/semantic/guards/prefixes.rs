//! A word against the same word with a prefix that changes what it means: lock and unlock, member and non-member.

use super::{against, unmatched};
use crate::semantic::question::{Question, Term};

const PREFIXES: [&str; 30] = [
    "un", "in", "im", "il", "ir", "dis", "de", "non", "mis", "re", "pre", "post", "anti",
    "counter", "over", "under", "sub", "semi", "self", "ex", "co", "inter", "multi", "mal", "a",
    "ab", "bi", "tri", "mono", "out",
];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (left, right) = unmatched(a, b);
    let prefixed = |long: &Term, short: &Term| {
        forms(long).any(|long| {
            forms(short).any(|short| {
                short.len() > 2
                    && long.strip_suffix(short).is_some_and(|head| PREFIXES.contains(&head))
            })
        })
    };
    for a in &left {
        for b in &right {
            if prefixed(a, b) || prefixed(b, a) {
                return Some(against(&a.text, &b.text));
            }
        }
    }
    // Written apart: `non member`, `self employed`.
    let alone = |terms: &[&Term]| {
        terms.iter().find(|t| PREFIXES.contains(&t.text.as_str())).map(|t| t.text.clone())
    };
    match (alone(&left), alone(&right)) {
        (Some(x), None) => Some(against(&x, "")),
        (None, Some(y)) => Some(against("", &y)),
        (Some(x), Some(y)) => Some(against(&x, &y)),
        (None, None) => None,
    }
}

fn forms(term: &Term) -> impl Iterator<Item = &str> {
    term.bases.iter().map(String::as_str).chain([term.text.as_str()])
}
