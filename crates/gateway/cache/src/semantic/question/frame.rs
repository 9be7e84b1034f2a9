//! What kind of question it is, and its core.
//!
//! Ways to ask that English has for everything ("how do I", "how can I", "what is the process for"; "how much is",
//! "what does it cost") are one kind each. What is left is the core, in which an order means something.

use super::words::{Kind, Word};
use super::{Person, Question, Term};
use crate::semantic::lexicon::Lexicon;

/// What kind of answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// How the asker does something.
    HowTo,
    /// How something is done or happens, otherwise.
    How,
    /// What it costs.
    Price,
    /// How much.
    HowMuch,
    /// How many.
    HowMany,
    /// How long, how often, how far: the word after `how` is the core's first.
    HowWhat,
    /// What or which.
    What,
    /// At what time.
    WhatTime,
    /// When.
    When,
    /// Where.
    Where,
    /// Who or whom.
    Who,
    /// Whose.
    Whose,
    /// Why.
    Why,
    /// Whether someone has it, or it is there.
    Exists,
    /// Whether the asker may or can.
    May,
    /// Yes or no.
    Whether,
    /// An order or a statement.
    Says,
}

/// What an auxiliary verb says beside `do` and `be` in the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It was so.
    Past,
    /// It will be so.
    Will,
    /// It can be so.
    Can,
    /// It should or must be so.
    Should,
}

const PREPOSITIONS: [&str; 44] = [
    "of", "for", "at", "in", "on", "to", "from", "by", "with", "without", "under", "over", "above",
    "below", "before", "after", "during", "until", "till", "since", "between", "among", "against",
    "about", "around", "near", "off", "out", "up", "down", "into", "onto", "through", "across",
    "within", "outside", "inside", "beyond", "except", "despite", "per", "via", "as", "than",
];

const CONJUNCTIONS: [&str; 17] = [
    "and", "or", "but", "if", "because", "while", "although", "unless", "nor", "whether", "then",
    "though", "once", "where", "when", "who", "that",
];

const PRONOUNS: [&str; 30] = [
    "i",
    "me",
    "we",
    "us",
    "you",
    "he",
    "him",
    "she",
    "her",
    "they",
    "them",
    "it",
    "this",
    "that",
    "these",
    "those",
    "myself",
    "yourself",
    "ourselves",
    "themselves",
    "himself",
    "herself",
    "itself",
    "someone",
    "somebody",
    "anyone",
    "anybody",
    "something",
    "anything",
    "everyone",
];

/// Words that say how far a statement reaches; each means itself alone.
const QUANTIFIERS: [&str; 44] = [
    "all", "every", "each", "both", "either", "neither", "only", "ever", "never", "no", "not",
    "none", "nobody", "nothing", "more", "most", "less", "least", "few", "fewer", "many", "much",
    "other", "another", "else", "same", "first", "last", "next", "previous", "second", "third",
    "always", "still", "yet", "already", "again", "too", "also", "even", "half", "double", "twice",
    "enough",
];

/// Left out wherever they stand.
const DROPPED: [&str; 13] = [
    "a",
    "an",
    "the",
    "some",
    "any",
    "just",
    "really",
    "actually",
    "exactly",
    "simply",
    "basically",
    "currently",
    "possibly",
];

/// Builds a question of its words.
pub(super) fn build(words: Vec<Word>, lexicon: &Lexicon) -> Question {
    let mut rest = phrases_to_the_end(&words);
    rest.retain(|word| word.kind != Kind::Pause);
    let (ask, taken) = kind(&mut rest);
    let mut modes = Vec::new();
    let mut owners = Vec::new();
    let mut core: Vec<Term> = Vec::new();
    let mut helped = false;
    for (at, word) in rest.iter().enumerate().skip(taken) {
        if word.kind == Kind::Word {
            let text = word.text.as_str();
            if let Some(owner) = owner(text, rest.get(at + 1)) {
                if !owners.contains(&owner) {
                    owners.push(owner);
                }
                if owner != Person::First && owner != Person::Second {
                    core.push(closed(word));
                }
                continue;
            }
            if DROPPED.contains(&text) {
                continue;
            }
            let after_article = at > 0
                && rest[at - 1].is_one_of(&["a", "an", "the", "my", "your", "our", "their", "his"]);
            if matches!(text, "do" | "does" | "did") {
                if text == "did" && !modes.contains(&Mode::Past) {
                    modes.push(Mode::Past);
                }
                // The first helps another verb; a second is what is done.
                if std::mem::replace(&mut helped, true) && at > taken {
                    core.push(open(word, lexicon, false));
                }
                continue;
            }
            if matches!(text, "is" | "are" | "am" | "be" | "been" | "being" | "was" | "were") {
                if matches!(text, "was" | "were") && !modes.contains(&Mode::Past) {
                    modes.push(Mode::Past);
                }
                continue;
            }
            if !after_article
                && !word.capital
                && let Some(mode) = mode(text)
            {
                if !modes.contains(&mode) {
                    modes.push(mode);
                }
                continue;
            }
            if text == "had" && !modes.contains(&Mode::Past) {
                modes.push(Mode::Past);
            }
            let is_closed = PREPOSITIONS.contains(&text)
                || CONJUNCTIONS.contains(&text)
                || PRONOUNS.contains(&text)
                || QUANTIFIERS.contains(&text)
                || matches!(text, "what" | "which" | "why" | "how" | "whose" | "whom");
            if is_closed {
                core.push(closed(word));
                continue;
            }
        }
        // Within three words before it: is it paid, was I charged, get delayed.
        let passive = rest[at.saturating_sub(3)..at].iter().any(|before| {
            before.is_one_of(&["is", "are", "am", "be", "been", "being", "was", "were"])
        });
        core.push(open(word, lexicon, passive));
    }
    compound(&mut core);
    if ask == Ask::HowTo {
        // How should I, how can I and how do I ask for one thing.
        modes.retain(|mode| !matches!(mode, Mode::Can | Mode::Should));
    }
    if matches!(ask, Ask::Where | Ask::Who) {
        modes.retain(|mode| !matches!(mode, Mode::Can | Mode::Should));
    }
    if ask == Ask::Price {
        modes.retain(|mode| *mode != Mode::Will);
    }
    owners.sort_unstable();
    Question { words, ask, modes, owners, core }
}

/// `The password for guests`, at the end, is the guest password.
fn compound(core: &mut Vec<Term>) {
    let [.., joint, last] = core.as_slice() else { return };
    if joint.closed && matches!(joint.text.as_str(), "for" | "of") && !last.closed && !last.capital
    {
        let before = core.len() - 2;
        let begin = core[..before].iter().rposition(|t| t.closed).map_or(0, |at| at + 1);
        let Some(last) = core.pop() else { return };
        core.pop();
        core.insert(begin, last);
    }
}

fn closed(word: &Word) -> Term {
    let text = match word.text.as_str() {
        "me" | "us" | "we" | "myself" | "ourselves" => "i",
        "him" => "he",
        "them" => "they",
        other => other,
    };
    Term {
        text: text.to_owned(),
        kind: word.kind,
        closed: true,
        passive: false,
        capital: false,
        bases: Vec::new(),
    }
}

fn open(word: &Word, lexicon: &Lexicon, helped: bool) -> Term {
    let mut bases = if word.kind == Kind::Word { lexicon.bases(&word.text) } else { Vec::new() };
    // A name that is spelt like a word is no form of another word.
    if word.capital {
        bases.retain(|base| *base == word.text);
    }
    let participle = word.text.ends_with("ed") || word.text.ends_with("en") || {
        !word.text.ends_with('s')
            && !word.text.ends_with("ing")
            && bases.iter().any(|base| *base != word.text)
    };
    Term {
        text: word.text.clone(),
        kind: word.kind,
        closed: false,
        passive: helped && participle && bases.len() > usize::from(lexicon.has(&word.text)),
        capital: word.capital,
        bases,
    }
}

fn owner(text: &str, next: Option<&Word>) -> Option<Person> {
    Some(match text {
        "my" | "our" | "mine" | "ours" => Person::First,
        "your" | "yours" => Person::Second,
        "his" => Person::He,
        // `her` before a word may own it; alone it is a pronoun.
        "her" if next.is_some_and(|w| w.kind == Kind::Word) => Person::She,
        "their" | "theirs" => Person::They,
        _ => return None,
    })
}

fn mode(text: &str) -> Option<Mode> {
    Some(match text {
        "will" | "would" | "shall" => Mode::Will,
        "can" | "could" | "may" | "might" => Mode::Can,
        "should" | "must" | "ought" => Mode::Should,
        _ => return None,
    })
}

/// A phrase in front, up to its comma, goes to the end: `On trains, is there a discount` asks what `Is there a
/// discount on trains` asks.
fn phrases_to_the_end(words: &[Word]) -> Vec<Word> {
    let mut words = words.to_vec();
    let begins = words.first().is_some_and(|w| w.is_one_of(&PREPOSITIONS));
    if !begins {
        return words;
    }
    // In speech nobody hears a comma: a question word in the middle ends the phrase as well.
    let spoken = words
        .iter()
        .position(|w| w.is_one_of(&["what", "how", "why", "when", "where"]))
        .filter(|at| *at > 1 && words[..*at].iter().all(|w| w.kind != Kind::Pause));
    if let Some(at) = spoken {
        words.insert(at, Word { kind: Kind::Pause, ..words[at].clone() });
    }
    let Some(comma) = words.iter().position(|w| w.kind == Kind::Pause) else { return words };
    // Only where a question begins behind it, and the phrase is short and has no verb that helps.
    let asks = words.get(comma + 1).is_some_and(|w| {
        w.is_one_of(&[
            "what", "which", "who", "whose", "when", "where", "why", "how", "is", "are", "do",
            "does", "did", "can", "could", "will", "would", "should", "am", "was", "were", "have",
            "has",
        ])
    });
    if asks && comma <= 8 {
        let mut front: Vec<Word> = words.drain(..=comma).collect();
        front.pop();
        while words.last().is_some_and(|w| w.kind == Kind::Pause) {
            words.pop();
        }
        words.extend(front);
    }
    words
}

/// The kind of question, and how many of the words before the core say it. May rewrite what is left.
fn kind(words: &mut Vec<Word>) -> (Ask, usize) {
    let texts: Vec<String> = words.iter().map(|w| w.text.clone()).collect();
    let at = |i: usize| texts.get(i).map_or("", String::as_str);
    let is = |i: usize, any: &[&str]| any.contains(&at(i));
    const HELP: [&str; 8] = ["do", "can", "could", "should", "would", "may", "might", "must"];
    const I: [&str; 3] = ["i", "we", "one"];
    match at(0) {
        "how" => match at(1) {
            "to" => (Ask::HowTo, 2),
            "much" => price(words, &texts).unwrap_or((Ask::HowMuch, 2)),
            "many" => (Ask::HowMany, 2),
            _ if is(1, &HELP) && is(2, &I) => (Ask::HowTo, 3),
            _ if is(1, &I) => (Ask::HowTo, 2),
            _ if is(1, &HELP) || is(1, &["does", "did", "is", "are", "was", "were", "will"]) => {
                (Ask::How, 1)
            }
            _ => (Ask::HowWhat, 1),
        },
        "what" | "which" => {
            let be = usize::from(is(1, &["is", "are"]));
            let the = be + usize::from(is(1 + be, &["the", "a"]));
            let way = 1 + the;
            if be == 1
                && is(way, &["way", "process", "procedure", "steps"])
                && is(way + 1, &["to", "for", "of"])
            {
                return (Ask::HowTo, way + 2);
            }
            if is(1, &["do"])
                && is(2, &I)
                && at(3) == "need"
                && at(4) == "to"
                && at(5) == "do"
                && at(6) == "to"
            {
                return (Ask::HowTo, 7);
            }
            if at(0) == "what" && at(1) == "time" {
                return (Ask::WhatTime, 2);
            }
            if at(0) == "what"
                && let Some(price) = price(words, &texts)
            {
                return price;
            }
            (Ask::What, 1)
        }
        "when" => (Ask::When, 1),
        "where" => (Ask::Where, 1),
        "who" | "whom" => (Ask::Who, 1),
        "whose" => (Ask::Whose, 1),
        "why" => (Ask::Why, 1),
        "do" if at(1) == "you" && is(2, &["have", "offer", "sell", "provide"]) => (Ask::Exists, 3),
        "have" if at(1) == "you" && at(2) == "got" => (Ask::Exists, 3),
        "is" | "are" if at(1) == "there" => (Ask::Exists, 2),
        "can" | "could" | "may" | "might" if is(1, &I) => (Ask::May, 2),
        "am" | "are" if is(1, &I) && is(2, &["able", "allowed", "permitted"]) && at(3) == "to" => {
            (Ask::May, 4)
        }
        "is" | "would" if at(1) == "it" => {
            let be = 2 + usize::from(at(2) == "be");
            let whom = if at(be + 1) == "for" && is(be + 2, &["me", "us"]) { 2 } else { 0 };
            if at(be) == "possible" && at(be + 1 + whom) == "to" {
                return (Ask::May, be + 2 + whom);
            }
            (Ask::Whether, 1)
        }
        "is" | "are"
            if texts.len() > 3 && texts.iter().filter(|w| *w == "available").count() == 1 =>
        {
            words.retain(|w| !w.is("available"));
            (Ask::Exists, 1)
        }
        "do" | "does" | "did" | "is" | "are" | "am" | "was" | "were" | "will" | "would" | "can"
        | "could" | "should" | "must" | "may" | "might" | "has" | "have" | "shall" => {
            // The word itself still says when and whether.
            (Ask::Whether, usize::from(matches!(at(0), "do" | "does" | "is" | "are" | "am")))
        }
        _ => (Ask::Says, 0),
    }
}

/// `How much is X`, `how much does X cost`, `what does X cost`, `what is the price of X`: the price of X.
fn price(words: &mut Vec<Word>, texts: &[String]) -> Option<(Ask, usize)> {
    let at = |i: usize| texts.get(i).map_or("", String::as_str);
    let begin = if at(0) == "how" { 2 } else { 1 };
    let helps = matches!(at(begin), "do" | "does" | "would" | "will");
    let is = matches!(at(begin), "is" | "are");
    if at(0) == "what" && is {
        let the = begin + 1 + usize::from(at(begin + 1) == "the");
        let noun = matches!(at(the), "cost" | "price") && matches!(at(the + 1), "of" | "for");
        return noun.then_some((Ask::Price, the + 2));
    }
    if helps && let Some(cost) = texts.iter().position(|w| w == "cost") {
        words.remove(cost);
        return Some((Ask::Price, begin + 1));
    }
    (at(0) == "how" && is && !matches!(at(begin + 1), "i" | "we" | "you" | "left" | "owed"))
        .then_some((Ask::Price, begin + 1))
}
