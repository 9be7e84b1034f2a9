//! What must be the same in two questions before the answer to one may be given to the other.
//!
//! Each guard is a pure function of two [`Question`]s in a file of its own, and says what it objects to. All of them
//! must be silent. They overlap on purpose: `content` alone would stop most of what the others stop, and each of
//! the others names its reason and is measured on its own (`tapri semantic eval`).
//!
//! The guards know English. Of another language they know no word, so only the same words in the same order pass.

mod amounts;
mod antonyms;
mod content;
mod dates;
mod mood;
mod names;
mod negation;
mod numbers;
mod order;
mod prefixes;
mod qualifiers;
mod question_word;
mod scope;
mod sections;

use std::collections::BTreeMap;
use std::fmt;

use super::question::{Question, Term};

/// A guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Numbers.
    Numbers,
    /// Currencies, percentages, units.
    Amounts,
    /// Dates and times.
    Dates,
    /// Sections and articles.
    Sections,
    /// Negation.
    Negation,
    /// Opposites.
    Antonyms,
    /// `un-`, `non-` and the like.
    Prefixes,
    /// Named parties and things.
    Names,
    /// What kind of answer is asked for.
    QuestionWord,
    /// How far it reaches: before, after, with, without, first, all, only; whose.
    Scope,
    /// The same words the other way round.
    Order,
    /// One asks what the other asks, and more.
    Qualifiers,
    /// Tense, voice, and whether it can, should or will be.
    Mood,
    /// Every word of one has its counterpart in the other.
    Content,
}

/// Every guard, in the order in which an objection is named first.
pub const GUARDS: [Guard; 14] = [
    Guard::Numbers,
    Guard::Amounts,
    Guard::Dates,
    Guard::Sections,
    Guard::Negation,
    Guard::Antonyms,
    Guard::Prefixes,
    Guard::Names,
    Guard::QuestionWord,
    Guard::Scope,
    Guard::Order,
    Guard::Qualifiers,
    Guard::Mood,
    Guard::Content,
];

/// What a guard has against a pair.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Objection {
    /// Which guard.
    pub guard: Guard,
    /// What differs, for a person.
    pub what: String,
}

impl Guard {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Guard::Numbers => "numbers",
            Guard::Amounts => "amounts",
            Guard::Dates => "dates",
            Guard::Sections => "sections",
            Guard::Negation => "negation",
            Guard::Antonyms => "antonyms",
            Guard::Prefixes => "prefixes",
            Guard::Names => "names",
            Guard::QuestionWord => "question_word",
            Guard::Scope => "scope",
            Guard::Order => "order",
            Guard::Qualifiers => "qualifiers",
            Guard::Mood => "mood",
            Guard::Content => "content",
        }
    }

    /// What it has against the pair, if anything. The same whichever comes first.
    pub fn objects(self, a: &Question, b: &Question) -> Option<Objection> {
        let what = match self {
            Guard::Numbers => numbers::differ(a, b),
            Guard::Amounts => amounts::differ(a, b),
            Guard::Dates => dates::differ(a, b),
            Guard::Sections => sections::differ(a, b),
            Guard::Negation => negation::differ(a, b),
            Guard::Antonyms => antonyms::differ(a, b),
            Guard::Prefixes => prefixes::differ(a, b),
            Guard::Names => names::differ(a, b),
            Guard::QuestionWord => question_word::differ(a, b),
            Guard::Scope => scope::differ(a, b),
            Guard::Order => order::differ(a, b),
            Guard::Qualifiers => qualifiers::differ(a, b),
            Guard::Mood => mood::differ(a, b),
            Guard::Content => content::differ(a, b),
        }?;
        Some(Objection { guard: self, what })
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What all guards have against the pair; empty where its answers may be shared, as far as words can tell.
pub fn objections(a: &Question, b: &Question) -> Vec<Objection> {
    GUARDS.iter().filter_map(|guard| guard.objects(a, b)).collect()
}

/// How often each of these is said.
fn counted<'a>(said: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    said.for_each(|word| *counts.entry(word).or_default() += 1);
    counts
}

/// What is said in one and not, or not as often, in the other.
fn difference(a: &BTreeMap<&str, usize>, b: &BTreeMap<&str, usize>) -> Option<String> {
    let more = |a: &BTreeMap<&str, usize>, b: &BTreeMap<&str, usize>| -> Vec<String> {
        let more = a.iter().filter(|(word, n)| b.get(*word).is_none_or(|m| m < n));
        more.map(|(word, _)| (*word).to_owned()).collect()
    };
    let (only_a, only_b) = (more(a, b), more(b, a));
    if only_a.is_empty() && only_b.is_empty() {
        return None;
    }
    Some(against(&only_a.join(", "), &only_b.join(", ")))
}

fn against(a: &str, b: &str) -> String {
    let quote =
        |text: &str| if text.is_empty() { "nothing".to_owned() } else { format!("'{text}'") };
    format!("{} against {}", quote(a), quote(b))
}

/// The terms of each that no term of the other is, one for one.
fn unmatched<'a>(a: &'a Question, b: &'a Question) -> (Vec<&'a Term>, Vec<&'a Term>) {
    let mut right: Vec<&Term> = b.content().collect();
    let mut left = Vec::new();
    for term in a.content() {
        match right.iter().position(|other| term.is(other)) {
            Some(at) => {
                right.remove(at);
            }
            None => left.push(term),
        }
    }
    (left, right)
}
