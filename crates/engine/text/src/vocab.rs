//! The vocabulary: texts and kinds of tokens, and the tokens that mean something.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use tapri_gguf::{Metadata, TokenId};

use crate::TokenizerError;

const TOKENS: &str = "tokenizer.ggml.tokens";
const KINDS: &str = "tokenizer.ggml.token_type";

/// What a token is for. The numbers in a file are SentencePiece's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A piece of text.
    Normal,
    /// Stands for text that can't be written. Never made from text.
    Unknown,
    /// Steers the model (BOS, end of turn). Made from a template's text, never from a user's.
    Control,
    /// A piece of text that is found before all others (runs of newlines, HTML tags).
    UserDefined,
    /// One byte.
    Byte,
}

impl Kind {
    fn from_file(kind: i32) -> Kind {
        match kind {
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            6 => Kind::Byte,
            // Normal, unused and undefined: llama.cpp makes all of them from text.
            _ => Kind::Normal,
        }
    }

    /// Whether merging may make it. SentencePiece keeps the other kinds out of its table of pieces; llama.cpp
    /// doesn't, and there a user can spell some control tokens.
    pub(crate) fn is_mergeable(self) -> bool {
        matches!(self, Kind::Normal | Kind::UserDefined)
    }

    /// Whether it is only made where special tokens are parsed.
    pub(crate) fn is_special(self) -> bool {
        matches!(self, Kind::Control | Kind::Unknown)
    }
}

/// Texts and kinds by id, ids by text.
#[derive(Debug)]
pub(crate) struct Vocab {
    /// All texts, one after the other.
    texts: String,
    /// Where each text begins, and the end of the last.
    starts: Vec<u32>,
    kinds: Vec<Kind>,
    by_text: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Vocab {
    pub(crate) fn from_metadata(metadata: Metadata<'_>) -> Result<Vocab, TokenizerError> {
        let tokens = metadata.strs(TOKENS)?;
        if tokens.is_empty() {
            return Err(TokenizerError::Empty);
        }
        let bytes: usize = tokens.iter().map(str::len).sum();
        if u32::try_from(bytes).is_err() || u32::try_from(tokens.len()).is_err() {
            return Err(TokenizerError::TooLarge { tokens: tokens.len(), bytes });
        }
        let kinds = match metadata.find::<Vec<i32>>(KINDS)? {
            Some(kinds) if kinds.len() != tokens.len() => {
                return Err(TokenizerError::Length {
                    key: KINDS,
                    found: kinds.len(),
                    tokens: tokens.len(),
                });
            }
            Some(kinds) => kinds.into_iter().map(Kind::from_file).collect(),
            None => vec![Kind::Normal; tokens.len()],
        };
        let mut vocab = Vocab {
            texts: String::with_capacity(bytes),
            starts: Vec::with_capacity(tokens.len() + 1),
            kinds,
            by_text: HashTable::with_capacity(tokens.len()),
            hasher: DefaultHashBuilder::default(),
        };
        for text in tokens.iter() {
            vocab.starts.push(vocab.texts.len() as u32);
            vocab.texts.push_str(text);
        }
        vocab.starts.push(vocab.texts.len() as u32);
        vocab.index()?;
        Ok(vocab)
    }

    fn index(&mut self) -> Result<(), TokenizerError> {
        let Vocab { texts, starts, by_text, hasher, .. } = self;
        let text = |id: u32| &texts[starts[id as usize] as usize..starts[id as usize + 1] as usize];
        for id in 0..starts.len() as u32 - 1 {
            let word = text(id);
            if word.is_empty() {
                // Nothing is written as nothing: such a token is never made from text.
                continue;
            }
            let hash = hasher.hash_one(word);
            if let Some(first) = by_text.find(hash, |other| text(*other) == word) {
                let (first, second) = (TokenId(*first), TokenId(id));
                return Err(TokenizerError::Duplicate { text: word.to_owned(), first, second });
            }
            by_text.insert_unique(hash, id, |other| hasher.hash_one(text(*other)));
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The text as it stands in the file, or nothing for an id outside the vocabulary.
    pub(crate) fn text(&self, id: TokenId) -> Option<&str> {
        let start = *self.starts.get(id.index())?;
        let end = *self.starts.get(id.index().checked_add(1)?)?;
        self.texts.get(start as usize..end as usize)
    }

    pub(crate) fn kind(&self, id: TokenId) -> Option<Kind> {
        self.kinds.get(id.index()).copied()
    }

    /// The token whose text in the file is `text`.
    pub(crate) fn find(&self, text: &str) -> Option<TokenId> {
        let hash = self.hasher.hash_one(text);
        self.by_text.find(hash, |id| self.text(TokenId(*id)) == Some(text)).map(|id| TokenId(*id))
    }

    /// The token whose text is `text`, if merging may make it.
    pub(crate) fn find_mergeable(&self, text: &str) -> Option<TokenId> {
        self.find(text).filter(|id| self.kinds[id.index()].is_mergeable())
    }

    /// Every token with its text and kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TokenId, &str, Kind)> {
        self.kinds.iter().zip(self.starts.windows(2)).zip(0..).map(|((kind, ends), id)| {
            (TokenId(id), &self.texts[ends[0] as usize..ends[1] as usize], *kind)
        })
    }
}

/// Texts that end an answer where the file gives them the kind of a control token: the names that chat models use
/// (the list that llama.cpp keeps).
const END_TEXTS: [&str; 21] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
];

/// The tokens that the file names by their role.
#[derive(Debug)]
pub(crate) struct Roles {
    pub(crate) bos: Option<TokenId>,
    pub(crate) eos: Option<TokenId>,
    pub(crate) unknown: Option<TokenId>,
    pub(crate) adds_bos: bool,
    /// Sorted.
    pub(crate) ends: Vec<TokenId>,
}

impl Roles {
    /// `defaults` are the ids of BOS, EOS and unknown, and whether BOS is added, for a file that doesn't say.
    pub(crate) fn from_metadata(
        metadata: Metadata<'_>,
        vocab: &Vocab,
        defaults: ([Option<u32>; 3], bool),
    ) -> Result<Roles, TokenizerError> {
        let named = |name: &str, default: Option<u32>| {
            let key = format!("tokenizer.ggml.{name}_token_id");
            match metadata.find::<u32>(&key)? {
                Some(id) if id as usize >= vocab.len() => {
                    Err(TokenizerError::OutOfRange { key, id, tokens: vocab.len() })
                }
                Some(id) => Ok(Some(TokenId(id))),
                None => Ok(default.filter(|id| (*id as usize) < vocab.len()).map(TokenId)),
            }
        };
        let ([bos, eos, unknown], adds_bos) = defaults;
        let (bos, eos, unknown) =
            (named("bos", bos)?, named("eos", eos)?, named("unknown", unknown)?);
        let mut ends: Vec<TokenId> =
            [eos, named("eot", None)?, named("eom", None)?].into_iter().flatten().collect();
        ends.extend(
            END_TEXTS
                .iter()
                .filter_map(|text| vocab.find(text))
                .filter(|id| vocab.kind(*id) == Some(Kind::Control)),
        );
        ends.sort_unstable();
        ends.dedup();
        let adds_bos = metadata.find::<bool>("tokenizer.ggml.add_bos_token")?.unwrap_or(adds_bos);
        if adds_bos && bos.is_none() {
            return Err(TokenizerError::NoBos);
        }
        Ok(Roles { bos, eos, unknown, adds_bos, ends })
    }
}
