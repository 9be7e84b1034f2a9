//! Whether it is denied: by a word for it, or by a verb that says that something is not done.

use super::{counted, difference};
use crate::semantic::lexicon::Lexicon;
use crate::semantic::question::Question;

const NEGATORS: [&str; 20] = [
    "not",
    "no",
    "never",
    "none",
    "nobody",
    "nothing",
    "neither",
    "nor",
    "without",
    "except",
    "unless",
    "excluding",
    "hardly",
    "barely",
    "rarely",
    "seldom",
    "against",
    "instead",
    "nowhere",
    "non",
];

/// Verbs that deny the verb or the thing that follows.
const DENYING: [&str; 28] = [
    "stop", "avoid", "refuse", "prevent", "fail", "decline", "deny", "forbid", "ban", "exclude",
    "lack", "quit", "cease", "reject", "prohibit", "omit", "skip", "block", "refrain", "lose",
    "miss", "remove", "disallow", "withhold", "ignore", "abandon", "restrict", "oppose",
];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    difference(&counted(denials(a).into_iter()), &counted(denials(b).into_iter()))
}

fn denials(question: &Question) -> Vec<&'static str> {
    let lexicon = Lexicon::get();
    let mut found = Vec::new();
    for word in &question.words {
        let text = word.text.as_str();
        if let Some(negator) = NEGATORS.iter().find(|n| **n == text) {
            found.push(*negator);
        } else if let Some(verb) = DENYING
            .iter()
            .find(|verb| **verb == text || lexicon.bases(text).iter().any(|b| b == *verb))
        {
            found.push(*verb);
        }
    }
    found
}
