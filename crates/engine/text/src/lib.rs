//! Tokenizers and chat templates from GGUF metadata.
mod bpe;
mod cache;
mod detokenizer;
mod error;
mod merge;
mod special;
mod spm;
mod tokenizer;
mod vocab;

pub use detokenizer::Detokenizer;
pub use error::{TemplateError, TokenizerError, UnknownToken};
pub use tapri_gguf::TokenId;
pub use tokenizer::{ControlTokens, Special, Tokenizer};

/// A prompt.
#[derive(Debug)]
pub struct Rendered {
    text: String,
    guards: Vec<usize>,
}
impl Rendered {
    /// Text.
    pub fn text(&self) -> &str {
        &self.text
    }
    pub(crate) fn guards(&self) -> &[usize] {
        &self.guards
    }
}
