//! Questions for a semantic cache: thousands that differ in a word or two, each in two wordings.

const HOW: [&str; 16] = [
    "wooden", "leather", "copper", "woollen", "granite", "velvet", "plastic", "ceramic", "marble",
    "silver", "paper", "rubber", "cotton", "bamboo", "concrete", "glass",
];

const WHAT: [&str; 16] = [
    "chair", "lamp", "carpet", "curtain", "bottle", "wallet", "helmet", "violin", "ladder",
    "bucket", "mirror", "drawer", "umbrella", "pillow", "clock", "basket",
];

const WHERE: [&str; 16] = [
    "kitchen",
    "garage",
    "library",
    "cellar",
    "hospital",
    "theatre",
    "bakery",
    "stadium",
    "harbour",
    "chapel",
    "museum",
    "airport",
    "prison",
    "stable",
    "office",
    "lighthouse",
];

/// Different questions that there are.
#[cfg(test)]
const ALL: u64 = 16 * 16 * 16;

fn core(question: u64) -> String {
    let word = |words: [&'static str; 16], step: u64| words[(question / step % 16) as usize];
    format!("clean the {} {} in the {}", word(HOW, 1), word(WHAT, 16), word(WHERE, 256))
}

/// A question as it is asked first.
pub(crate) fn first(question: u64) -> String {
    format!("How do I {}?", core(question))
}

/// The same in other words.
pub(crate) fn in_other_words(question: u64) -> String {
    format!("How can I {}?", core(question))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_question_is_another() {
        let mut all: HashSet<String> = (0..ALL).map(first).collect();
        all.extend((0..ALL).map(in_other_words));
        assert_eq!(all.len() as u64, 2 * ALL);
    }
}
