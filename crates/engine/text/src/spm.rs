//! SentencePiece's merging ("llama" in GGUF): of all neighbours that make a token, those that make the one with the
//! highest score are merged first. Text that no token covers is written as bytes.

use hashbrown::HashSet;
use tapri_gguf::{Metadata, TokenId};

use crate::{
    TokenizerError,
    cache::FragmentCache,
    known::Seams,
    merge::{Merger, Rules},
    vocab::{Kind, Vocab},
};

const SCORES: &str = "tokenizer.ggml.scores";

/// Stands for a space in the texts of tokens.
pub(crate) const SPACE: char = '▁';

#[derive(Debug)]
pub(crate) struct Spm {
    /// By token: 0 for the highest score. Equal scores have equal ranks.
    ranks: Vec<u32>,
    bytes: [TokenId; 256],
    joins: Joins,
    cache: FragmentCache,
    /// Whether a space goes before text that follows a special token or nothing.
    pub(crate) adds_space: bool,
}

impl Spm {
    pub(crate) fn from_metadata(
        metadata: Metadata<'_>,
        vocab: &Vocab,
        unknown: Option<TokenId>,
    ) -> Result<Spm, TokenizerError> {
        let scores = metadata.f32s(SCORES)?;
        if scores.len() != vocab.len() {
            return Err(TokenizerError::Length {
                key: SCORES,
                found: scores.len(),
                tokens: vocab.len(),
            });
        }
        let mut bytes = [TokenId::default(); 256];
        for (byte, token) in (0..=u8::MAX).zip(&mut bytes) {
            *token = vocab
                .find(&format!("<0x{byte:02X}>"))
                .or_else(|| vocab.find(std::str::from_utf8(&[byte]).ok()?))
                .or(unknown)
                .ok_or(TokenizerError::NoByte(byte))?;
        }
        Ok(Spm {
            ranks: scores.into_iter().map(rank).collect(),
            bytes,
            joins: Joins::new(vocab),
            cache: FragmentCache::new(),
            adds_space: metadata.find::<bool>("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
        })
    }

    /// Appends the tokens of `text`, in which special tokens have been found already. `keep`: its fragments may be kept.
    pub(crate) fn encode(
        &self,
        vocab: &Vocab,
        text: &str,
        keep: bool,
        out: &mut Vec<TokenId>,
        seams: &mut Seams,
    ) {
        let mut scratch = Scratch { escaped: String::new(), merger: Merger::new() };
        let mut at = 0;
        for fragment in self.joins.fragments(text) {
            // Two neighbours decide about a cut, so all of them are seams.
            if seams.wants(at) {
                seams.note(at, out.len());
            }
            at += fragment.len();
            self.cache.tokens(fragment, keep, out, |fragment, out| {
                self.merge(vocab, fragment, &mut scratch, out)
            });
        }
    }

    /// Forgets the fragments that were seen.
    pub(crate) fn forget(&self) {
        self.cache.clear();
    }

    fn merge(&self, vocab: &Vocab, fragment: &str, scratch: &mut Scratch, out: &mut Vec<TokenId>) {
        let Scratch { escaped, merger } = scratch;
        escaped.clear();
        escaped.extend(
            fragment.chars().map(|character| if character == ' ' { SPACE } else { character }),
        );
        let text = escaped.as_str();
        let characters = text.char_indices().map(|(start, character)| {
            let end = start + character.len_utf8();
            Span { start, end, token: NO_TOKEN }
        });
        merger.run(&Pieces { vocab, ranks: &self.ranks, text }, characters, |span| {
            let token = match span.token {
                NO_TOKEN => vocab.find_mergeable(&text[span.start..span.end]),
                token => Some(TokenId(token)),
            };
            match token {
                Some(token) => out.push(token),
                None => out.extend(
                    text[span.start..span.end].bytes().map(|byte| self.bytes[byte as usize]),
                ),
            }
        });
    }
}

/// Higher scores get lower ranks, in the order of the numbers (NaN after all of them).
fn rank(score: f32) -> u32 {
    if score.is_nan() {
        return u32::MAX;
    }
    // Adding zero turns -0 into 0. Then: the bits of positive floats rise with them, those of negative ones fall.
    let bits = (score + 0.0).to_bits();
    let rising = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    !rising
}

struct Scratch {
    escaped: String,
    merger: Merger<Span>,
}

/// Marks a single character, whose token is looked up only if it is left at the end.
const NO_TOKEN: u32 = u32::MAX;

/// A part of the escaped fragment and the token that it was merged into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: usize,
    end: usize,
    token: u32,
}

struct Pieces<'v> {
    vocab: &'v Vocab,
    ranks: &'v [u32],
    text: &'v str,
}

impl Rules for Pieces<'_> {
    type Symbol = Span;

    fn merge(&self, left: Span, right: Span) -> Option<(u32, Span)> {
        let token = self.vocab.find_mergeable(&self.text[left.start..right.end])?;
        Some((
            self.ranks[token.index()],
            Span { start: left.start, end: right.end, token: token.0 },
        ))
    }
}

/// Which characters stand next to each other inside some token.
///
/// Everything that is ever merged is a token, so where two characters are neighbours in no token, nothing merges
/// across them, and what is left and right of them can be treated apart with the same result.
#[derive(Debug)]
struct Joins {
    /// One bit for each pair of ASCII characters; a space stands for itself and for [`SPACE`].
    ascii: [u128; 128],
    /// The other pairs.
    others: HashSet<(char, char)>,
}

impl Joins {
    fn new(vocab: &Vocab) -> Joins {
        let mut joins = Joins { ascii: [0; 128], others: HashSet::new() };
        for (_, text, kind) in vocab.iter() {
            if kind == Kind::Normal || kind == Kind::UserDefined {
                let mut previous = None;
                for character in text.chars() {
                    // A literal space never meets escaped text, but taking it for an escaped one does no harm.
                    let character = if character == SPACE { ' ' } else { character };
                    if let Some(previous) = previous.replace(character) {
                        joins.add(previous, character);
                    }
                }
            }
        }
        joins
    }

    fn add(&mut self, left: char, right: char) {
        if left.is_ascii() && right.is_ascii() {
            self.ascii[left as usize] |= 1 << right as u32;
        } else {
            self.others.insert((left, right));
        }
    }

    fn contains(&self, left: char, right: char) -> bool {
        if left.is_ascii() && right.is_ascii() {
            return self.ascii[left as usize] >> right as u32 & 1 == 1;
        }
        self.others.contains(&(left, right))
    }

    /// Cuts `text` at every pair of characters that isn't joined.
    fn fragments<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let mut previous = None;
            for (index, character) in rest.char_indices() {
                let character = if character == SPACE { ' ' } else { character };
                match previous.replace(character) {
                    Some(previous) if !self.contains(previous, character) => {
                        let (fragment, after) = rest.split_at(index);
                        rest = after;
                        return Some(fragment);
                    }
                    _ => {}
                }
            }
            Some(std::mem::take(&mut rest)).filter(|fragment| !fragment.is_empty())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fall_as_scores_rise() {
        let scores =
            [f32::INFINITY, 3.5, 1e-30, 0.0, -1e-30, -2.0, -1000.0, f32::NEG_INFINITY, f32::NAN];
        assert!(scores.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
        assert_eq!(rank(0.0), rank(-0.0));
    }
}
