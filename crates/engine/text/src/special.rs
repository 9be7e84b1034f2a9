//! Finds the tokens that are taken out of text before merging: control tokens (where they are parsed) and
//! user-defined ones (always).
//!
//! The rule is llama.cpp's: the longest token takes all its occurrences from left to right, then the next longest
//! takes from what is left, and so on. Done literally that reads the text once for each token (Gemma has 6,400).
//! It comes to the same as leftmost-longest matching in one pass unless one token can begin inside another one that
//! is no longer than it; [`overlaps`] sees that when the vocabulary is loaded, and then the literal way is taken, over
//! the tokens that occur at all.

use std::{collections::HashMap, sync::OnceLock};

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memmem;
use tapri_gguf::TokenId;

use crate::vocab::{Kind, Vocab};

/// A token that is found in text as it is.
#[derive(Debug, Clone)]
struct Literal {
    id: TokenId,
    text: Box<str>,
    kind: Kind,
}

/// A piece of text after the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    Text(&'t str),
    Token(TokenId),
}

/// The literals that apply to one way of reading text.
#[derive(Debug)]
struct Set {
    /// The longest first, then by id.
    literals: Vec<Literal>,
    leftmost: AhoCorasick,
    /// Whether `leftmost` gives what the rule gives.
    simple: bool,
    /// Finds every occurrence, for the literal way. Seldom needed.
    every: OnceLock<Option<AhoCorasick>>,
}

/// Both sets: with control tokens and without.
#[derive(Debug)]
pub(crate) struct Specials {
    all: Set,
    user_defined: Set,
}

impl Specials {
    pub(crate) fn new(vocab: &Vocab) -> Specials {
        let mut all: Vec<Literal> = vocab
            .iter()
            .filter(|(_, text, kind)| {
                (kind.is_special() || *kind == Kind::UserDefined) && !text.is_empty()
            })
            .map(|(id, text, kind)| Literal { id, text: text.into(), kind })
            .collect();
        all.sort_by_key(|literal| (std::cmp::Reverse(literal.text.len()), literal.id));
        let user_defined =
            all.iter().filter(|literal| !literal.kind.is_special()).cloned().collect();
        Specials { all: Set::new(all), user_defined: Set::new(user_defined) }
    }

    /// The texts of the tokens that only a template may write.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = &str> {
        self.all
            .literals
            .iter()
            .filter(|literal| literal.kind.is_special())
            .map(|literal| &*literal.text)
    }

    /// The pieces of text in which control tokens are meant if `parsed`, except where they have one of `guards` (sorted
    /// byte offsets) inside.
    pub(crate) fn split<'t>(
        &self,
        parsed: bool,
        text: &'t str,
        guards: &[usize],
    ) -> Vec<Piece<'t>> {
        self.set(parsed).split(text, guards)
    }

    /// How many bytes behind the beginning of a token decide about it, if that is bounded: then the pieces of a text from
    /// the end of a token on, or from a place inside text, are those of the rest alone. (With leftmost-longest matching
    /// a match depends on where the last one ended and on its own bytes; guards only take candidates away.)
    pub(crate) fn reach(&self, parsed: bool) -> Option<usize> {
        let set = self.set(parsed);
        set.simple.then(|| set.literals.first().map_or(0, |longest| longest.text.len()))
    }

    fn set(&self, parsed: bool) -> &Set {
        if parsed { &self.all } else { &self.user_defined }
    }
}

impl Set {
    fn new(literals: Vec<Literal>) -> Set {
        let leftmost = automaton(&literals, MatchKind::LeftmostLongest);
        let simple = leftmost.is_some() && !overlaps(&literals);
        // An empty automaton finds nothing; `simple` is then false and the literal way is taken.
        let leftmost = leftmost.unwrap_or_else(nothing);
        Set { literals, leftmost, simple, every: OnceLock::new() }
    }

    fn split<'t>(&self, text: &'t str, guards: &[usize]) -> Vec<Piece<'t>> {
        if !self.simple || !guards.is_empty() {
            return self.split_literally(text, guards);
        }
        let mut pieces = Vec::new();
        let mut end = 0;
        for found in self.leftmost.find_iter(text) {
            if end < found.start() {
                pieces.push(Piece::Text(&text[end..found.start()]));
            }
            pieces.push(Piece::Token(self.literals[found.pattern().as_usize()].id));
            end = found.end();
        }
        if end < text.len() {
            pieces.push(Piece::Text(&text[end..]));
        }
        pieces
    }

    /// The rule as it is worded.
    fn split_literally<'t>(&self, text: &'t str, guards: &[usize]) -> Vec<Piece<'t>> {
        let mut pieces = vec![Piece::Text(text)];
        if text.is_empty() {
            pieces.clear();
        }
        for literal in self.occurring(text) {
            let finder = memmem::Finder::new(literal.text.as_bytes());
            let mut next = Vec::with_capacity(pieces.len());
            for piece in pieces {
                let Piece::Text(part) = piece else {
                    next.push(piece);
                    continue;
                };
                let offset = part.as_ptr() as usize - text.as_ptr() as usize;
                let (mut end, mut from) = (0, 0);
                while let Some(start) =
                    finder.find(&part.as_bytes()[from..]).map(|start| start + from)
                {
                    let found = start..start + literal.text.len();
                    if literal.kind.is_special()
                        && is_guarded(&literal.text, offset + found.start, guards)
                    {
                        // The text begins with a whole character, so the next place to look is one as well.
                        from = start + literal.text.chars().next().map_or(1, char::len_utf8);
                        continue;
                    }
                    if end < found.start {
                        next.push(Piece::Text(&part[end..found.start]));
                    }
                    next.push(Piece::Token(literal.id));
                    (end, from) = (found.end, found.end);
                }
                if end < part.len() {
                    next.push(Piece::Text(&part[end..]));
                }
            }
            pieces = next;
        }
        pieces
    }

    /// The literals that occur in `text`, in their order.
    fn occurring(&self, text: &str) -> impl Iterator<Item = &Literal> {
        let every = self.every.get_or_init(|| automaton(&self.literals, MatchKind::Standard));
        let mut occurs = vec![every.is_none(); self.literals.len()];
        if let Some(every) = every {
            every
                .find_overlapping_iter(text)
                .for_each(|found| occurs[found.pattern().as_usize()] = true);
        }
        self.literals.iter().zip(occurs).filter(|(_, occurs)| *occurs).map(|(literal, _)| literal)
    }
}

/// Whether the control token `text` at `start` is broken by a guard: one strictly inside, or, for a token of a single
/// character, which has no inside, one on both sides.
fn is_guarded(text: &str, start: usize, guards: &[usize]) -> bool {
    let end = start + text.len();
    let after_start = guards.partition_point(|guard| *guard <= start);
    let next = guards.get(after_start);
    let is_single = text.chars().nth(1).is_none();
    next.is_some_and(|guard| *guard < end)
        || (is_single && next == Some(&end) && guards[..after_start].last() == Some(&start))
}

/// An automaton over the literals, or nothing if they are too many for one.
fn automaton(literals: &[Literal], kind: MatchKind) -> Option<AhoCorasick> {
    AhoCorasick::builder()
        .match_kind(kind)
        .build(literals.iter().map(|literal| literal.text.as_bytes()))
        .ok()
}

#[expect(
    clippy::expect_used,
    reason = "an automaton without patterns has nothing that could be too large"
)]
fn nothing() -> AhoCorasick {
    AhoCorasick::new([""; 0]).expect("no patterns")
}

/// Whether some literal can begin inside an earlier one that is no longer than it, so that the longest-first rule
/// could prefer the later one. Runs of one character (of which the longest that fits is always at the left) are fine.
fn overlaps(literals: &[Literal]) -> bool {
    /// The longest literal that has a text as a proper beginning, and whether all that have it are runs.
    struct Beginning {
        longest: usize,
        runs: bool,
    }
    let is_run = |text: &str| {
        let mut characters = text.chars();
        characters.next().is_some_and(|first| characters.all(|other| other == first))
    };
    let mut beginnings: HashMap<&str, Beginning> = HashMap::new();
    for literal in literals {
        let runs = is_run(&literal.text);
        for (end, _) in literal.text.char_indices().skip(1) {
            let beginning = beginnings
                .entry(&literal.text[..end])
                .or_insert(Beginning { longest: 0, runs: true });
            beginning.longest = beginning.longest.max(literal.text.len());
            beginning.runs &= runs;
        }
    }
    literals.iter().any(|literal| {
        let runs = is_run(&literal.text);
        literal.text.char_indices().skip(1).any(|(start, _)| {
            beginnings.get(&literal.text[start..]).is_some_and(|beginning| {
                beginning.longest >= literal.text.len() && !(runs && beginning.runs)
            })
        })
    })
}

#[cfg(test)]
#[path = "special/tests.rs"]
mod tests;
