//! The vocabulary as llguidance walks it: the bytes of every token.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use tapri_gguf::TokenId;
use tapri_text::Tokenizer;

use super::ConstraintError;

/// Control tokens are no text: they are marked with a byte that UTF-8 doesn't have, so that no grammar's text reaches
/// them, only a grammar that names one.
pub(super) fn environment(tokenizer: &Tokenizer) -> Result<TokEnv, ConstraintError> {
    let size = tokenizer.vocab_size() as u32;
    let words: Vec<Vec<u8>> = (0..size)
        .map(|id| {
            let token = TokenId(id);
            let bytes = tokenizer.token_bytes(token).unwrap_or_default();
            if tokenizer.is_control(token) {
                [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes.as_slice()].concat()
            } else {
                bytes
            }
        })
        .collect();
    let ends: Vec<u32> =
        (0..size).filter(|&id| tokenizer.is_end_of_generation(TokenId(id))).collect();
    let first = *ends.first().ok_or(ConstraintError::NoEnd)?;
    let trie = TokTrie::from(&TokRxInfo::new(size, first), &words).with_eos_tokens(&ends);
    // Not canonical: the model chooses how a text is cut into tokens, and nothing is forced upon it.
    Ok(Arc::new(ApproximateTokEnv::new(trie)))
}
