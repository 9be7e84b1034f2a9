//! Text to tokens and back.

use std::{borrow::Cow, sync::Arc};

use tapri_gguf::{Gguf, TokenId};

use crate::{
    Rendered, TokenizerError, UnknownToken,
    bpe::{self, Bpe},
    known::{Encoded, Seam, Seams},
    special::{Piece, Specials},
    spm::{SPACE, Spm},
    vocab::{Kind, Roles, Vocab},
};

/// Whether control tokens that stand in a text are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// The text is somebody's text: what looks like a control token is written out in ordinary tokens.
    AsText,
    /// The text is a prompt in the model's own format: control tokens in it are parsed.
    Parse,
}

/// Whether control tokens are written when tokens become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlTokens {
    /// They are left out, as in an answer.
    Hide,
    /// They are written as they are called, as in a prompt that is shown.
    Show,
}

/// A model's tokenizer, from its GGUF metadata. Shared by threads; keeps the tokens of short fragments of text that it
/// has seen, within a bound.
///
/// Gives the same ids as llama.cpp, but for this: where merging ordinary pieces would spell a control token,
/// llama.cpp makes that token, and this doesn't (as SentencePiece).
#[derive(Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    roles: Roles,
    specials: Arc<Specials>,
    algorithm: Algorithm,
}

#[derive(Debug)]
enum Algorithm {
    Spm(Box<Spm>),
    Bpe(Box<Bpe>),
}

impl Tokenizer {
    /// The tokenizer of a model file.
    pub fn from_gguf(gguf: &Gguf) -> Result<Tokenizer, TokenizerError> {
        let metadata = gguf.metadata();
        // What llama.cpp takes for a file that doesn't name its BOS, EOS and unknown tokens or say whether BOS is added.
        let defaults = match metadata.str("tokenizer.ggml.model")? {
            "llama" => ([Some(1), Some(2), Some(0)], true),
            "gpt2" => ([Some(11), Some(11), None], false),
            other => return Err(TokenizerError::Model(other.to_owned())),
        };
        let (ids, is_spm) = defaults;
        let vocab = Vocab::from_metadata(metadata)?;
        let (roles, algorithm) = if is_spm {
            let roles = Roles::from_metadata(metadata, &vocab, defaults)?;
            let spm = Spm::from_metadata(metadata, &vocab, roles.unknown)?;
            (roles, Algorithm::Spm(spm.into()))
        } else {
            let bpe = Bpe::from_metadata(metadata, &vocab)?;
            let roles = Roles::from_metadata(metadata, &vocab, (ids, bpe.adds_bos()))?;
            (roles, Algorithm::Bpe(bpe.into()))
        };
        Ok(Tokenizer { specials: Arc::new(Specials::new(&vocab)), vocab, roles, algorithm })
    }

    /// The tokens of `text`, without BOS. Bytes that a byte-level vocabulary has no token for are left out.
    pub fn encode(&self, text: &str, special: Special) -> Vec<TokenId> {
        self.encode_from(special == Special::Parse, text, &[], None, true).tokens
    }

    /// The tokens of a whole prompt: BOS, if the model wants one and the text doesn't begin with it, and `text`.
    pub fn encode_prompt(&self, text: &str, special: Special) -> Vec<TokenId> {
        self.with_bos(self.encode(text, special))
    }

    /// The tokens of a whole prompt that a template has rendered: BOS as for [`encode_prompt`](Self::encode_prompt),
    /// the template's control tokens parsed, and those in the texts of its input not.
    pub fn encode_rendered(&self, rendered: &Rendered) -> Vec<TokenId> {
        let encoded = self.encode_from(true, rendered.text(), rendered.guards(), None, true);
        self.with_bos(encoded.tokens)
    }

    /// Forgets the fragments of text that were seen: what was erased elsewhere is not kept here.
    pub fn forget_fragments(&self) {
        match &self.algorithm {
            Algorithm::Bpe(bpe) => bpe.forget(),
            Algorithm::Spm(spm) => spm.forget(),
        }
    }

    /// How many bytes behind a seam decide about the tokens before it; `None` where there are no seams.
    pub(crate) fn reach(&self, parsed: bool) -> Option<usize> {
        // A character decides about the cuts of text.
        self.specials.reach(parsed).map(|reach| reach.max(char::MAX.len_utf8()))
    }

    pub(crate) fn with_bos(&self, mut tokens: Vec<TokenId>) -> Vec<TokenId> {
        match self.roles.bos {
            Some(bos) if self.roles.adds_bos && tokens.first() != Some(&bos) => {
                tokens.insert(0, bos)
            }
            _ => {}
        }
        tokens
    }

    /// The tokens of `text`, and its seams. `start`: a text that is the same up to [`reach`](Self::reach) bytes behind
    /// one of its seams, from which this one is tokenised on. `keep`: its fragments may be kept.
    pub(crate) fn encode_from(
        &self,
        parsed: bool,
        text: &str,
        guards: &[usize],
        start: Option<(&Encoded, Seam)>,
        keep: bool,
    ) -> Encoded {
        let begin = Seam { at: 0, tokens: 0, after_token: true };
        let Seam { at: from, tokens: known, mut after_token } =
            start.map_or(begin, |(_, seam)| seam);
        // Some three bytes make a token.
        let mut tokens = Vec::with_capacity(known + (text.len() - from) / 3);
        let mut seams = match start {
            Some((known, seam)) => {
                tokens.extend_from_slice(&known.tokens[..seam.tokens]);
                Seams::up_to(&known.seams, seam)
            }
            None => Seams::default(),
        };
        let guards: Vec<usize> = guards[guards.partition_point(|guard| *guard < from)..]
            .iter()
            .map(|guard| guard - from)
            .collect();
        let mut at = from;
        for piece in self.specials.split(parsed, &text[from..], &guards) {
            match (piece, &self.algorithm) {
                (Piece::Token(token), _) => {
                    tokens.push(token);
                    at += self.vocab.text(token).map_or(0, str::len);
                    seams.note_token(at, tokens.len());
                }
                (Piece::Text(text), Algorithm::Bpe(bpe)) => {
                    seams.part(at, 0);
                    bpe.encode(&self.vocab, text, keep, &mut tokens, &mut seams);
                    at += text.len();
                }
                (Piece::Text(text), Algorithm::Spm(spm)) => {
                    let lead = usize::from(spm.adds_space && after_token);
                    let spaced = match lead {
                        0 => Cow::Borrowed(text),
                        _ => Cow::Owned(format!(" {text}")),
                    };
                    seams.part(at, lead);
                    spm.encode(&self.vocab, &spaced, keep, &mut tokens, &mut seams);
                    at += text.len();
                }
            }
            after_token = matches!(piece, Piece::Token(_));
        }
        Encoded { tokens, seams: seams.into_found() }
    }

    /// The text of `tokens`. Bytes that are no valid UTF-8 become U+FFFD. A space that the tokenizer puts before a
    /// text is taken away again.
    pub fn decode(
        &self,
        tokens: &[TokenId],
        control: ControlTokens,
    ) -> Result<String, UnknownToken> {
        let mut bytes = Vec::with_capacity(tokens.len() * 4);
        for token in tokens {
            if token.index() >= self.vocab.len() {
                return Err(UnknownToken { id: *token, tokens: self.vocab.len() });
            }
            self.push_bytes(*token, control, &mut bytes);
        }
        let adds_space = matches!(&self.algorithm, Algorithm::Spm(spm) if spm.adds_space);
        let begins_with_text = tokens
            .iter()
            .find(|token| Some(**token) != self.roles.bos)
            .is_some_and(|token| self.vocab.kind(*token) == Some(Kind::Normal));
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if adds_space && begins_with_text {
            let bos_len = match tokens.first() {
                Some(first) if Some(*first) == self.roles.bos && control == ControlTokens::Show => {
                    self.vocab.text(*first).map_or(0, str::len)
                }
                _ => 0,
            };
            if text[bos_len..].starts_with(' ') {
                text.remove(bos_len);
            }
        }
        Ok(text)
    }

    /// Appends the bytes of a token; nothing for an id outside the vocabulary.
    pub(crate) fn push_bytes(&self, token: TokenId, control: ControlTokens, bytes: &mut Vec<u8>) {
        let (Some(text), Some(kind)) = (self.vocab.text(token), self.vocab.kind(token)) else {
            return;
        };
        match (kind, &self.algorithm) {
            (Kind::Control | Kind::Unknown, _) if control == ControlTokens::Hide => {}
            (Kind::Control | Kind::Unknown | Kind::UserDefined, _) => {
                bytes.extend_from_slice(text.as_bytes())
            }
            (Kind::Byte, _) => match parse_byte(text) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(text.as_bytes()),
            },
            (Kind::Normal, Algorithm::Bpe(_)) => bpe::decode(text, bytes),
            (Kind::Normal, Algorithm::Spm(_)) => {
                let mut parts = text.split(SPACE);
                bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
                for part in parts {
                    bytes.push(b' ');
                    bytes.extend_from_slice(part.as_bytes());
                }
            }
        }
    }

    /// The bytes that a token stands for (a control token's are its name), or nothing for an id outside the
    /// vocabulary. They need not be valid UTF-8.
    pub fn token_bytes(&self, token: TokenId) -> Option<Vec<u8>> {
        self.vocab.kind(token)?;
        let mut bytes = Vec::new();
        self.push_bytes(token, ControlTokens::Show, &mut bytes);
        Some(bytes)
    }

    /// The token whose text in the vocabulary is `text`, such as `<|im_end|>`.
    pub fn token(&self, text: &str) -> Option<TokenId> {
        self.vocab.find(text)
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<TokenId> {
        self.roles.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<TokenId> {
        self.roles.eos
    }

    /// Whether the model wants BOS before a prompt.
    pub fn adds_bos(&self) -> bool {
        self.roles.adds_bos
    }

    /// Whether the model means by this token that its answer is complete.
    pub fn is_end_of_generation(&self, token: TokenId) -> bool {
        self.roles.ends.binary_search(&token).is_ok()
    }

    /// Whether this is a control token: one that stands for no text.
    pub fn is_control(&self, token: TokenId) -> bool {
        self.vocab.kind(token).is_some_and(Kind::is_special)
    }

    /// The text of a token as the vocabulary has it.
    pub(crate) fn text(&self, token: TokenId) -> Option<&str> {
        self.vocab.text(token)
    }

    pub(crate) fn specials(&self) -> &Arc<Specials> {
        &self.specials
    }
}

/// The byte of a token that is called `<0x0A>`.
fn parse_byte(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}
