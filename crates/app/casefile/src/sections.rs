//! A file's sections: what a person can choose from where not all of it fits.
//!
//! A PDF's sections are its pages. A text without pages is divided at its paragraphs into pieces of about a page.

use std::fmt;
use std::str::FromStr;

/// About as many characters as a page of a judgment has.
const PAGE: usize = 3000;

/// A text's sections, in order; joined again by [`join`] they are the text.
pub fn sections(text: &str) -> Vec<&str> {
    if text.contains('\u{c}') {
        return text.split('\u{c}').collect();
    }
    pieces(text, PAGE)
}

/// A text in pieces of at most so many bytes, divided at paragraphs, else at lines, else at words.
pub(crate) fn pieces(text: &str, most: usize) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let end = rest.floor_char_boundary(most);
        let head = &rest[..end];
        let at = head
            .rfind("\n\n")
            .map(|at| at + 2)
            .or_else(|| head.rfind('\n').map(|at| at + 1))
            .or_else(|| head.rfind(' ').map(|at| at + 1))
            .unwrap_or(end);
        let (piece, more) = rest.split_at(at);
        found.push(piece);
        rest = more;
    }
    if !rest.is_empty() || found.is_empty() {
        found.push(rest);
    }
    found
}

/// Some of a text's sections as one text. The pages of a PDF stay apart by their form feeds.
pub fn join(text: &str, chosen: &Sections) -> String {
    let all = sections(text);
    let between = if text.contains('\u{c}') { "\u{c}" } else { "" };
    let kept: Vec<&str> =
        (1..).zip(all).filter(|(n, _)| chosen.has(*n)).map(|(_, section)| section).collect();
    kept.join(between)
}

/// Numbers of sections, from 1: `1-17, 20`. In order, and none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sections(Vec<(u32, u32)>);

/// What stands for none of them.
const NONE: &str = "none";

/// Why a text names no sections.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SectionsError {
    /// Nothing is named.
    #[error("no page is named")]
    Empty,
    /// A part that is no number and no range.
    #[error("{0:?} is no page and no range of pages")]
    Part(String),
    /// A range whose end comes before its start.
    #[error("the range {0:?} ends before it begins")]
    Backwards(String),
}

impl Sections {
    /// The first so many.
    pub fn first(count: u32) -> Self {
        Sections(vec![(1, count.max(1))])
    }

    /// None of them: the file stays in the case, and the model doesn't read it.
    pub fn none() -> Self {
        Sections(Vec::new())
    }

    /// Whether a number is among them.
    pub fn has(&self, n: u32) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&n))
    }

    /// The largest number.
    pub fn last(&self) -> u32 {
        self.0.last().map_or(0, |(_, to)| *to)
    }
}

impl FromStr for Sections {
    type Err = SectionsError;

    fn from_str(text: &str) -> Result<Self, SectionsError> {
        if text.trim() == NONE {
            return Ok(Sections::none());
        }
        let mut ranges = Vec::new();
        for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || SectionsError::Part(part.chars().take(40).collect());
            let number =
                |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(wrong);
            let (from, to) = match part.split_once(['-', '\u{2013}']) {
                Some((from, to)) => (number(from)?, number(to)?),
                None => (number(part)?, number(part)?),
            };
            if to < from {
                return Err(SectionsError::Backwards(part.to_owned()));
            }
            ranges.push((from, to));
        }
        if ranges.is_empty() {
            return Err(SectionsError::Empty);
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (from, to) in ranges {
            match joined.last_mut() {
                Some((_, end)) if from <= end.saturating_add(1) => *end = (*end).max(to),
                _ => joined.push((from, to)),
            }
        }
        Ok(Sections(joined))
    }
}

impl fmt::Display for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(NONE);
        }
        for (i, (from, to)) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            if from == to {
                write!(f, "{comma}{from}")?;
            } else {
                write!(f, "{comma}{from}-{to}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_of_a_pdf() {
        let text = "one\u{c}two\u{c}three";
        assert_eq!(sections(text), ["one", "two", "three"]);
        assert_eq!(join(text, &"1,3".parse().unwrap()), "one\u{c}three");
    }

    #[test]
    fn what_people_write() {
        let read = |text: &str| text.parse::<Sections>().map(|it| it.to_string());
        assert_eq!(read(" 3, 1-2 ; 9 – 12,10").unwrap(), "1-3, 9-12");
        assert_eq!(read("none").unwrap(), "none");
        assert_eq!(read(" , "), Err(SectionsError::Empty));
        assert_eq!(read("0"), Err(SectionsError::Part("0".into())));
        assert_eq!(read("four"), Err(SectionsError::Part("four".into())));
        assert_eq!(read("7-2"), Err(SectionsError::Backwards("7-2".into())));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "([a-zé ]{0,900}\n{0,2}){0,12}") {
            let found = sections(&text);
            prop_assert_eq!(found.concat(), text.as_str());
            prop_assert!(found.iter().all(|section| section.len() <= PAGE));
            let all = Sections::first(found.len() as u32);
            prop_assert_eq!(join(&text, &all), text);
        }
    }
}
