//! Every word of one has its counterpart in the other, in the same order.
//!
//! A counterpart is the same word in another form, a misspelling, or a word of which the lexicon says that both mean
//! the same in a usual sense of each. Opposites, a kind and what it is a kind of, and two kinds of one thing are none.

use super::against;
use crate::semantic::lexicon::Lexicon;
use crate::semantic::question::{Kind, Question, Term};

/// Words that may be replaced by others in one question: each replacement is a risk of its own, and they add up.
const MOST_REPLACED: usize = 1;

/// The share of each word's uses, in percent, that has a meaning of the other. Nearly half: the words of a question
/// are far more often than not used in the sense that is asked about.
const MEAN_THE_SAME: u32 = 40;

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    if a.content().next().is_none() || b.content().next().is_none() {
        return Some("there is no word that says what is asked".to_owned());
    }
    let (of_a, of_b) = (a.core.as_slice(), b.core.as_slice());
    let mut replaced = 0;
    let (mut i, mut j) = (0, 0);
    while i < of_a.len() && j < of_b.len() {
        let (x, y) = (&of_a[i], &of_b[j]);
        match counterpart(x, y) {
            Some(Counterpart::Same) => {}
            Some(Counterpart::Misspelt) => {}
            Some(Counterpart::Replaced) => replaced += 1,
            None => {
                let how = relation(x, y);
                return Some(format!("{}{how}", against(&x.text, &y.text)));
            }
        }
        (i, j) = (i + 1, j + 1);
    }
    if i < of_a.len() || j < of_b.len() {
        let rest = |terms: &[Term]| -> String {
            terms.iter().map(|t| t.text.as_str()).collect::<Vec<_>>().join(" ")
        };
        return Some(against(&rest(&of_a[i..]), &rest(&of_b[j..])));
    }
    (replaced > MOST_REPLACED).then(|| format!("{replaced} words are replaced by others"))
}

enum Counterpart {
    Same,
    Misspelt,
    Replaced,
}

fn counterpart(a: &Term, b: &Term) -> Option<Counterpart> {
    if a.closed || b.closed {
        return (a.closed == b.closed && a.text == b.text).then_some(Counterpart::Same);
    }
    if a.is(b) {
        return Some(Counterpart::Same);
    }
    if is_misspelling(a, b) {
        return Some(Counterpart::Misspelt);
    }
    replaces(a, b).then_some(Counterpart::Replaced)
}

/// Whether the lexicon lets one word stand for the other.
fn replaces(a: &Term, b: &Term) -> bool {
    if a.kind != Kind::Word || b.kind != Kind::Word || a.capital || b.capital {
        return false;
    }
    // Forms of one word that are not the same word are no synonyms of each other through that word.
    if a.bases.iter().any(|base| b.bases.contains(base)) {
        return false;
    }
    let lexicon = Lexicon::get();
    let same = |of_a: &[String], of_b: &[String]| {
        let opposites = of_a.iter().any(|a| of_b.iter().any(|b| lexicon.are_opposites(a, b)));
        let usual =
            of_a.iter().any(|a| of_b.iter().any(|b| lexicon.same_meaning(a, b) >= MEAN_THE_SAME));
        usual && !opposites
    };
    match (lexicon.degree(&a.text), lexicon.degree(&b.text)) {
        (Some((x, base_a)), Some((y, base_b))) => x == y && same(&[base_a], &[base_b]),
        (None, None) => same(&a.bases, &b.bases),
        _ => false,
    }
}

/// Whether one is a word and the other is none, but is one slip of the pen away from it: a letter too many, too few,
/// another one, or two changed places. Short words, names, and first letters are too easily something else.
pub(super) fn is_misspelling(a: &Term, b: &Term) -> bool {
    let fit =
        |t: &Term| t.kind == Kind::Word && !t.capital && !t.closed && t.text.chars().count() > 4;
    if !fit(a) || !fit(b) || a.bases.is_empty() == b.bases.is_empty() {
        return false;
    }
    let (x, y): (Vec<char>, Vec<char>) = (a.text.chars().collect(), b.text.chars().collect());
    x[0] == y[0] && one_slip(&x, &y)
}

fn one_slip(a: &[char], b: &[char]) -> bool {
    let (a, b) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    match b.len() - a.len() {
        0 => {
            let (x, y) = (&a[same..], &b[same..]);
            let changed = x.len() > 1 && x[0] == y[1] && x[1] == y[0] && x[2..] == y[2..];
            changed || x.get(1..) == y.get(1..)
        }
        1 => a[same..] == b[same + 1..],
        _ => false,
    }
}

fn relation(a: &Term, b: &Term) -> String {
    let lexicon = Lexicon::get();
    let found = a.bases.iter().find_map(|a| b.bases.iter().find_map(|b| lexicon.relation(a, b)));
    found.map_or_else(String::new, |how| format!(" ({how})"))
}
