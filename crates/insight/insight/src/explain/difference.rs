//! Where two prompts part: the first difference in reading order, found on the text the caller wrote.

use std::borrow::Cow;

use serde_json::Value;
use tapri_ledger::Place;

use crate::prompt::{Part, PromptDoc};

/// How two prompts go on behind what they share.
pub(super) enum Compared<'a> {
    /// They are the same.
    Same,
    /// The new one goes on where the old one ends.
    Grew,
    /// The new one ends where the old one goes on.
    Cut,
    /// They differ.
    Differs(Box<Difference<'a>>),
}

/// The first difference.
pub(super) struct Difference<'a> {
    /// The index of the first parts that aren't equal, in both.
    pub(super) part: usize,
    pub(super) old: &'a Part,
    pub(super) new: &'a Part,
    pub(super) place: Place,
    pub(super) what: What<'a>,
}

/// What differs there.
pub(super) enum What<'a> {
    /// Two strings of one path, equal up to a byte.
    Text { old: Cow<'a, str>, new: Cow<'a, str>, at: usize },
    /// The keys or the elements of a structure: as JSON, where there are any.
    Structure { old: Option<String>, new: Option<String> },
    /// Parts that have nothing to do with each other: another kind, another place.
    Parts,
    /// Who speaks.
    Speaker,
}

/// Compares two prompts and counts the characters that they share from the start.
pub(super) fn compare<'a>(old: &'a PromptDoc, new: &'a PromptDoc) -> (Compared<'a>, u64) {
    let equal = old.parts.iter().zip(&new.parts).take_while(|(a, b)| same(old, a, new, b)).count();
    let shared = chars(&new.parts[..equal]);
    match (old.parts.get(equal), new.parts.get(equal)) {
        (None, None) => (Compared::Same, shared),
        (None, Some(_)) => (Compared::Grew, shared),
        (Some(_), None) => (Compared::Cut, shared),
        (Some(a), Some(b)) => {
            let (compared, more) = inside(old, new, equal, a, b);
            (compared, shared + more)
        }
    }
}

/// Bytes that two prompts share from the start: quicker than [`compare`], to find the nearest of many.
pub(super) fn shared_bytes(old: &PromptDoc, new: &PromptDoc) -> usize {
    let mut shared = 0;
    for (a, b) in old.parts.iter().zip(&new.parts) {
        if same(old, a, new, b) {
            shared += b.text.len();
        } else {
            return shared + common(&a.text, &b.text);
        }
    }
    shared
}

pub(super) fn chars(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.text.chars().count() as u64).sum()
}

/// Whether two parts are the same for a model. Paths are the caller's and don't matter.
fn same(old: &PromptDoc, a: &Part, new: &PromptDoc, b: &Part) -> bool {
    let speaker = |doc: &PromptDoc, part: &Part| doc.turn_of(part).map(|turn| turn.speaker);
    a.kind == b.kind
        && a.turn == b.turn
        && speaker(old, a) == speaker(new, b)
        && (std::sync::Arc::ptr_eq(&a.text, &b.text) || a.text == b.text)
}

fn inside<'a>(
    old: &'a PromptDoc,
    new: &'a PromptDoc,
    part: usize,
    a: &'a Part,
    b: &'a Part,
) -> (Compared<'a>, u64) {
    let differs = |place: Place, what: What<'a>, shared: u64| {
        let difference = Difference { part, old: a, new: b, place, what };
        (Compared::Differs(Box::new(difference)), shared)
    };
    let place =
        |path: &str, character: Option<u64>| Place { path: path.to_owned(), character, page: None };
    if a.path != b.path || (a.turn != b.turn && a.offset != b.offset) {
        // Two formats of one API have other paths for the same part; what is said is said of the new one.
        let comparable = a.kind == b.kind && a.turn == b.turn && a.value.is_none();
        if !comparable || b.value.is_some() || old.dialect == new.dialect {
            return differs(place(&b.path, Some(b.offset)), What::Parts, 0);
        }
    }
    if a.text == b.text && a.kind == b.kind {
        let path = new.turn_of(b).map_or(b.path.as_str(), |turn| turn.path.as_str());
        return differs(place(&format!("{path}.role"), None), What::Speaker, 0);
    }
    if let (Some(before), Some(after)) = (&a.value, &b.value) {
        let found = walk(before, after, &b.path);
        let shared = common(&a.text, &b.text);
        let shared = a.text[..shared].chars().count() as u64;
        return match found {
            Some((path, leaf)) => {
                let character = match &leaf {
                    What::Text { old, at, .. } => Some(old[..*at].chars().count() as u64),
                    _ => None,
                };
                differs(place(&path, character), leaf, shared)
            }
            None => differs(place(&b.path, None), What::Parts, shared),
        };
    }
    let (before, after) = (rest(&old.parts, part), rest(&new.parts, part));
    let at = common(&before, &after);
    let shared = before[..at].chars().count() as u64;
    let ended = |doc: &PromptDoc, text: &str| {
        at == text.len() && pieces(&doc.parts, part) + part == doc.parts.len()
    };
    if ended(old, &before) && !ended(new, &after) {
        return (Compared::Grew, shared);
    }
    if ended(new, &after) && !ended(old, &before) {
        return (Compared::Cut, shared);
    }
    if before == after {
        // The same text divided otherwise: what differs comes behind it.
        return differs(place(&b.path, Some(b.offset + shared)), What::Parts, shared);
    }
    let place = if b.kind == crate::prompt::Kind::Tokens {
        let token = after[..at].matches(' ').count();
        place(&format!("{}[{token}]", b.path), None)
    } else {
        place(&b.path, Some(b.offset + shared))
    };
    differs(place, What::Text { old: before, new: after, at }, shared)
}

/// How many parts from this one on are pieces of one string.
fn pieces(parts: &[Part], from: usize) -> usize {
    let first = &parts[from];
    1 + parts[from + 1..]
        .iter()
        .take_while(|part| part.path == first.path && part.offset > first.offset)
        .count()
}

/// The rest of the string that a part is a piece of.
fn rest(parts: &[Part], from: usize) -> Cow<'_, str> {
    match pieces(parts, from) {
        1 => Cow::Borrowed(&parts[from].text),
        many => parts[from..from + many].iter().map(|part| &*part.text).collect(),
    }
}

/// Bytes that two texts share from the start, whole characters.
pub(crate) fn common(a: &str, b: &str) -> usize {
    let mut at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(at) || !b.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Bytes that two texts share at the end, whole characters.
pub(crate) fn common_end(a: &str, b: &str) -> usize {
    let mut back = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(a.len() - back) || !b.is_char_boundary(b.len() - back) {
        back -= 1;
    }
    back
}

/// The first difference of two structures, in the order in which they are written. Depth is bounded by the parser's.
pub(super) fn walk(old: &Value, new: &Value, path: &str) -> Option<(String, What<'static>)> {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            for ((key, before), (other, after)) in a.iter().zip(b.iter()) {
                if key != other {
                    let (old, new) = (Some(key.clone()), Some(other.clone()));
                    return Some((path.to_owned(), What::Structure { old, new }));
                }
                if let Some(found) = walk(before, after, &child(path, key)) {
                    return Some(found);
                }
            }
            let shorter = a.len().min(b.len());
            let old = a.keys().nth(shorter).cloned();
            let new = b.keys().nth(shorter).cloned();
            (a.len() != b.len()).then(|| (path.to_owned(), What::Structure { old, new }))
        }
        (Value::Array(a), Value::Array(b)) => {
            for (index, (before, after)) in a.iter().zip(b).enumerate() {
                if let Some(found) = walk(before, after, &format!("{path}[{index}]")) {
                    return Some(found);
                }
            }
            let shorter = a.len().min(b.len());
            let element = |items: &[Value]| items.get(shorter).map(Value::to_string);
            let what = What::Structure { old: element(a), new: element(b) };
            (a.len() != b.len()).then(|| (format!("{path}[{shorter}]"), what))
        }
        (Value::String(a), Value::String(b)) => {
            let at = common(a, b);
            let what = What::Text { old: a.clone().into(), new: b.clone().into(), at };
            (a != b).then(|| (path.to_owned(), what))
        }
        (a, b) if a == b => None,
        (a, b) => {
            let (old, new) = (Some(a.to_string()), Some(b.to_string()));
            Some((path.to_owned(), What::Structure { old, new }))
        }
    }
}

fn json(key: &str) -> String {
    Value::from(key).to_string()
}

/// The path of a field; names that aren't plain words are quoted.
fn child(path: &str, key: &str) -> String {
    let plain =
        !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    if plain { format!("{path}.{key}") } else { format!("{path}[{}]", json(key)) }
}
