//! Sections, articles, clauses: which one of a law, a contract or a form.

use super::against;
use crate::semantic::question::Question;

const DIVISIONS: [&str; 22] = [
    "section",
    "sections",
    "article",
    "articles",
    "clause",
    "clauses",
    "paragraph",
    "paragraphs",
    "rule",
    "rules",
    "schedule",
    "regulation",
    "chapter",
    "part",
    "annex",
    "appendix",
    "exhibit",
    "page",
    "§",
    "art",
    "sec",
    "para",
];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (a, b) = (references(a), references(b));
    (a != b).then(|| against(&a.join(", "), &b.join(", ")))
}

/// Each division with the word behind it, where that is a number, a code or a single letter.
fn references(question: &Question) -> Vec<String> {
    let mut found: Vec<String> = question
        .words
        .windows(2)
        .filter(|pair| DIVISIONS.contains(&pair[0].text.as_str()))
        .filter(|pair| {
            let reference = &pair[1].text;
            reference.chars().any(|c| c.is_ascii_digit())
                || (reference.chars().count() == 1 && reference != "a")
        })
        .map(|pair| format!("{} {}", pair[0].text.trim_end_matches('s'), pair[1].text))
        .collect();
    found.sort();
    found
}
