//! Tokens to text as they come.

use tapri_gguf::TokenId;

use crate::{ControlTokens, Tokenizer};

/// Makes text of the tokens of one answer as they are generated.
///
/// A character can be spread over several tokens; its bytes are held back until it is complete, so that no piece ever
/// ends inside a character. Bytes that can't become a character are U+FFFD. All pieces together are the lossy decoding
/// of all bytes together.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let tokenizer = tapri_text::Tokenizer::from_gguf(&tapri_gguf::Gguf::open("model.gguf")?)?;
/// # let answer: Vec<tapri_gguf::TokenId> = vec![];
/// let mut detokenizer = tapri_text::Detokenizer::new(&tokenizer, tapri_text::ControlTokens::Hide);
/// let mut text = String::new();
/// for token in answer {
///     text += detokenizer.push(token);
/// }
/// text += detokenizer.finish();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Detokenizer<T> {
    tokenizer: T,
    control: ControlTokens,
    /// The beginning of a character that isn't complete, at most 3 bytes between calls.
    held: Vec<u8>,
    out: String,
}

impl<T: std::ops::Deref<Target = Tokenizer>> Detokenizer<T> {
    /// `tokenizer` is a reference or an `Arc`.
    pub fn new(tokenizer: T, control: ControlTokens) -> Self {
        Self { tokenizer, control, held: Vec::new(), out: String::new() }
    }

    /// The text that `token` completes; often a word, sometimes nothing. An id outside the vocabulary (some models
    /// have more scores than tokens) has no text.
    pub fn push(&mut self, token: TokenId) -> &str {
        self.tokenizer.push_bytes(token, self.control, &mut self.held);
        self.out.clear();
        loop {
            match std::str::from_utf8(&self.held) {
                Ok(text) => {
                    self.out.push_str(text);
                    self.held.clear();
                    return &self.out;
                }
                Err(error) => {
                    let (valid, rest) = self.held.split_at(error.valid_up_to());
                    self.out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                    let Some(invalid) = error.error_len() else {
                        self.held = rest.to_vec();
                        return &self.out;
                    };
                    self.out.push(char::REPLACEMENT_CHARACTER);
                    self.held = rest[invalid..].to_vec();
                }
            }
        }
    }

    /// What is left at the end: U+FFFD if a character is incomplete, nothing otherwise.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.held).is_empty() { "" } else { "\u{fffd}" }
    }
}
