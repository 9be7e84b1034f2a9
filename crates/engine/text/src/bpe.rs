//! Byte-level BPE ("gpt2" in GGUF): text is cut into words, each byte of a word is a symbol, and neighbours are merged
//! in the order of a list of rules.

use hashbrown::HashMap;
use tapri_gguf::{Metadata, TokenId};

use crate::{
    TokenizerError,
    cache::FragmentCache,
    known::Seams,
    merge::{Merger, Rules},
    vocab::Vocab,
};

mod alphabet;
mod seam;
mod words;

pub(crate) use alphabet::decode;
use words::PreTokenizer;

/// The names of the ways to cut words that are known, for messages.
pub(crate) const PRE_TOKENIZERS: &str = PreTokenizer::SUPPORTED;

/// Stands for a byte without a token. No vocabulary is that large, so no merge has it on either side.
const ABSENT: TokenId = TokenId(u32::MAX);

#[derive(Debug)]
pub(crate) struct Bpe {
    words: PreTokenizer,
    /// The token of each byte, or [`ABSENT`]. A vocabulary may lack bytes (SmolLM2's has none for 0xf1, which begins
    /// characters of unassigned planes). Such a byte is left out in the end: the unknown token is no stand-in, as in these
    /// vocabularies it is a control token. It stands between its neighbours while they are merged, as in llama.cpp
    /// (Hugging Face's tokenizers takes it out before, and merges across).
    bytes: [TokenId; 256],
    rules: MergeRules,
    cache: FragmentCache,
}

impl Bpe {
    pub(crate) fn from_metadata(
        metadata: Metadata<'_>,
        vocab: &Vocab,
    ) -> Result<Bpe, TokenizerError> {
        let name = metadata.str("tokenizer.ggml.pre")?;
        let words = PreTokenizer::from_name(name)
            .ok_or_else(|| TokenizerError::PreTokenizer(name.to_owned()))?;
        let mut bytes = [ABSENT; 256];
        for (byte, token) in (0..=u8::MAX).zip(&mut bytes) {
            let text = alphabet::character(byte);
            *token = vocab.find_mergeable(text.encode_utf8(&mut [0; 4])).unwrap_or(ABSENT);
        }
        let merges = metadata.strs("tokenizer.ggml.merges")?;
        let mut rules = MergeRules(HashMap::with_capacity(merges.len()));
        let mut joined = String::new();
        for (index, rule) in merges.iter().enumerate() {
            let ids = rule.split_once(' ').and_then(|(left, right)| {
                joined.clear();
                joined.extend([left, right]);
                Some((
                    (vocab.find_mergeable(left)?, vocab.find_mergeable(right)?),
                    vocab.find_mergeable(&joined)?,
                ))
            });
            let Some((pair, merged)) = ids else {
                return Err(TokenizerError::Merge { index, rule: rule.to_owned() });
            };
            // Of two equal rules the first counts.
            rules.0.entry(pair).or_insert((index as u32, merged));
        }
        Ok(Bpe { words, bytes, rules, cache: FragmentCache::new() })
    }

    /// Appends the tokens of `text`, in which special tokens have been found already. `keep`: its words may be kept.
    pub(crate) fn encode(
        &self,
        vocab: &Vocab,
        text: &str,
        keep: bool,
        out: &mut Vec<TokenId>,
        seams: &mut Seams,
    ) {
        let mut merger = Merger::new();
        let mut at = 0;
        for word in self.words.words(text) {
            if seams.wants(at) && seam::is_seam(text, at) {
                seams.note(at, out.len());
            }
            at += word.len();
            self.cache.tokens(word, keep, out, |word, out| {
                if let Some(token) = self.whole_word(vocab, word) {
                    return out.push(token);
                }
                let symbols = word.bytes().map(|byte| self.bytes[byte as usize]);
                merger.run(&self.rules, symbols, |token| {
                    if token != ABSENT {
                        out.push(token);
                    }
                });
            });
        }
    }

    /// Forgets the words that were seen.
    pub(crate) fn forget(&self) {
        self.cache.clear();
    }
}

impl Bpe {
    /// Whether a model with these words wants BOS before a prompt where its file doesn't say.
    pub(crate) fn adds_bos(&self) -> bool {
        self.words.takes_whole_words()
    }

    /// The token that a word is as a whole, for models that look for one before they merge.
    fn whole_word(&self, vocab: &Vocab, word: &str) -> Option<TokenId> {
        if !self.words.takes_whole_words() {
            return None;
        }
        let text: String = word.bytes().map(alphabet::character).collect();
        vocab.find_mergeable(&text)
    }
}

/// Which two tokens make which third, and the index of the rule.
#[derive(Debug)]
struct MergeRules(HashMap<(TokenId, TokenId), (u32, TokenId)>);

impl Rules for MergeRules {
    type Symbol = TokenId;

    fn merge(&self, left: TokenId, right: TokenId) -> Option<(u32, TokenId)> {
        self.0.get(&(left, right)).copied()
    }
}
