//! Keeps a user's text from becoming control tokens after a template has rendered it.
//!
//! A template writes control tokens as text, and so can a user. After rendering the two look the same, so they are
//! told apart before: where a string of the input holds the text of a control token, or begins or ends with a part of
//! one (which the template's own text could complete), a marker goes into it. The marker is a noncharacter that occurs
//! in no input. It goes inside the control token's text, after the first character, so that trimming, searching for
//! other things and cutting at separators work as without it. After rendering the markers are taken out and where they
//! were is remembered: a control token may not reach across such a place.
//!
//! Case is ignored, as a template may change it. Input without such text, which is nearly all of it, is rendered as it
//! is.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};

use crate::{TemplateError, special::Specials};

/// A prompt that a template has rendered. It knows which control tokens in it are the template's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    text: String,
    guards: Vec<usize>,
}

impl Rendered {
    /// The prompt's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Byte offsets, sorted, that control tokens may not reach across.
    pub(crate) fn guards(&self) -> &[usize] {
        &self.guards
    }

    /// Takes the markers out of a rendered text.
    pub(crate) fn unmark(rendered: String, marker: Option<char>) -> Rendered {
        let Some(marker) = marker else { return Rendered { text: rendered, guards: Vec::new() } };
        let mut text = String::with_capacity(rendered.len());
        let mut guards = Vec::new();
        let mut parts = rendered.split(marker);
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            guards.push(text.len());
            text.push_str(part);
        }
        guards.dedup();
        Rendered { text, guards }
    }
}

/// Roles that templates compare with; never marked, whatever a vocabulary calls its tokens.
const ROLES: [&str; 8] =
    ["system", "developer", "user", "assistant", "tool", "function", "ipython", "model"];

#[derive(Debug)]
pub(crate) struct Guard {
    specials: Arc<Specials>,
    reserved: OnceLock<Reserved>,
}

/// The texts of control tokens, ready to be searched for.
#[derive(Debug)]
struct Reserved {
    /// Nothing if they are too many; then every place is marked.
    automaton: Option<AhoCorasick>,
    /// Proper beginnings and proper ends, in lower case.
    beginnings: HashSet<String>,
    ends: HashSet<String>,
    longest: usize,
}

impl Guard {
    pub(crate) fn new(specials: Arc<Specials>) -> Guard {
        Guard { specials, reserved: OnceLock::new() }
    }

    fn reserved(&self) -> &Reserved {
        self.reserved.get_or_init(|| {
            let texts: Vec<String> =
                self.specials.reserved().map(str::to_ascii_lowercase).collect();
            let inner = |text: &str| {
                text.char_indices().skip(1).map(|(index, _)| index).collect::<Vec<_>>()
            };
            let each = |part: fn(&str, usize) -> &str| {
                let parts = texts
                    .iter()
                    .flat_map(|text| inner(text).into_iter().map(move |index| part(text, index)));
                parts.map(str::to_owned).collect::<HashSet<String>>()
            };
            Reserved {
                automaton: AhoCorasick::builder().ascii_case_insensitive(true).build(&texts).ok(),
                beginnings: each(|text, index| &text[..index]),
                ends: each(|text, index| &text[index..]),
                longest: texts.iter().map(String::len).max().unwrap_or(0),
            }
        })
    }

    /// Puts markers into the strings of `inputs` where they are needed, and says what the marker is; nothing, and the
    /// inputs unchanged, where none is needed. `template` is searched for characters that can't be the marker.
    pub(crate) fn mark(
        &self,
        template: &str,
        inputs: &mut [Value],
    ) -> Result<Option<char>, TemplateError> {
        let reserved = self.reserved();
        let mut needed = false;
        for input in &mut *inputs {
            each_string(input, &mut |text| needed |= !reserved.places(text).is_empty());
        }
        if !needed {
            return Ok(None);
        }
        let mut taken: HashSet<char> =
            template.chars().filter(|taken| is_candidate(*taken)).collect();
        for input in &*inputs {
            each_string(input, &mut |text| {
                taken.extend(text.chars().filter(|taken| is_candidate(*taken)))
            });
        }
        let marker =
            candidates().find(|marker| !taken.contains(marker)).ok_or(TemplateError::NoMarker)?;
        for input in inputs {
            *input = reserved.marked(std::mem::take(input), marker);
        }
        Ok(Some(marker))
    }
}

impl Reserved {
    /// Where markers go in `text`, sorted.
    fn places(&self, text: &str) -> Vec<usize> {
        let Some(automaton) = &self.automaton else {
            return text.char_indices().map(|(index, _)| index).chain([text.len()]).collect();
        };
        let mut places = Vec::new();
        for found in automaton.find_overlapping_iter(text) {
            let inside =
                found.start() + text[found.range()].chars().next().map_or(0, char::len_utf8);
            places.push(inside);
            if inside == found.end() {
                // A single character has no inside: it is marked on both sides.
                places.push(found.start());
            }
        }
        let core = text.trim();
        let core_start = text.len() - text.trim_start().len();
        for (start, part) in [(0, text), (core_start, core)] {
            if self.ends_with_beginning(part) {
                places.push(start + part.len());
            }
            if self.begins_with_end(part) {
                places.push(start);
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn ends_with_beginning(&self, text: &str) -> bool {
        let ends = text.char_indices().rev().map(|(index, _)| &text[index..]);
        ends.take_while(|end| end.len() < self.longest)
            .any(|end| self.beginnings.contains(&end.to_ascii_lowercase()))
    }

    fn begins_with_end(&self, text: &str) -> bool {
        let beginnings =
            text.char_indices().map(|(index, character)| &text[..index + character.len_utf8()]);
        beginnings
            .take_while(|beginning| beginning.len() < self.longest)
            .any(|beginning| self.ends.contains(&beginning.to_ascii_lowercase()))
    }

    fn marked_text(&self, text: String, marker: char) -> String {
        let places = self.places(&text);
        if places.is_empty() {
            return text;
        }
        let mut marked = String::with_capacity(text.len() + places.len() * marker.len_utf8());
        let mut from = 0;
        for place in places {
            marked.push_str(&text[from..place]);
            marked.push(marker);
            from = place;
        }
        marked.push_str(&text[from..]);
        marked
    }

    fn marked(&self, value: Value, marker: char) -> Value {
        match value {
            Value::String(text) => Value::String(self.marked_text(text, marker)),
            Value::Array(values) => {
                Value::Array(values.into_iter().map(|value| self.marked(value, marker)).collect())
            }
            Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| match is_role(&key, &value) {
                    true => (key, value),
                    false => (self.marked_text(key, marker), self.marked(value, marker)),
                });
                Value::Object(entries.collect::<Map<_, _>>())
            }
            other => other,
        }
    }
}

fn is_role(key: &str, value: &Value) -> bool {
    key == "role" && value.as_str().is_some_and(|role| ROLES.contains(&role))
}

/// Every string of a value that may be marked, keys included.
fn each_string(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(values) => values.iter().for_each(|value| each_string(value, visit)),
        Value::Object(entries) => {
            for (key, value) in entries.iter().filter(|(key, value)| !is_role(key, value)) {
                visit(key);
                each_string(value, visit);
            }
        }
        _ => {}
    }
}

/// Characters that can be the marker: the noncharacters, which no text that is meant to be exchanged holds, and then,
/// for inputs that hold all of them on purpose, the private planes.
fn candidates() -> impl Iterator<Item = char> {
    let ends = (0..=16).flat_map(|plane| [plane << 16 | 0xfffe, plane << 16 | 0xffff]);
    (0xfdd0..=0xfdef)
        .chain(ends)
        .chain(0xf_0000..=0xf_fffd)
        .chain(0x10_0000..=0x10_fffd)
        .filter_map(char::from_u32)
}

fn is_candidate(character: char) -> bool {
    let code = character as u32;
    matches!(code, 0xfdd0..=0xfdef | 0xf_0000..) || code & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_known_as_one() {
        assert_eq!(candidates().take(66).filter(|character| is_candidate(*character)).count(), 66);
        assert!(candidates().all(is_candidate));
        assert!(
            !is_candidate('\u{fdcf}')
                && !is_candidate('a')
                && !is_candidate('\u{fffd}')
                && !is_candidate('🙂')
        );
    }

    #[test]
    fn unmarking_remembers_the_places() {
        let rendered =
            Rendered::unmark("<\u{fdd0}|a|>\u{fdd0}\u{fdd0}".to_owned(), Some('\u{fdd0}'));
        assert_eq!((rendered.text(), rendered.guards()), ("<|a|>", &[1, 5][..]));
    }
}
