//! Tokenizers and chat templates from GGUF metadata: a conversation becomes a prompt, a prompt becomes tokens, tokens
//! become text.
//!
//! What holds here:
//! - Ids are those that llama.cpp gives for the same file. What isn't implemented is an error that names it.
//! - A user's text never becomes a control token; a template's own does (`guard` says how they are told apart).
//! - A stream of text never ends inside a character.
//! - Cutting text into fragments and keeping their tokens changes nothing but the time: a test holds both against the
//!   plain algorithm. The same holds for a text that is tokenised only from where it parts with an earlier one.
//!
//! Modules: `tokenizer` (the public face), `vocab`, `special` (tokens that are found as they are), `spm` and `bpe`
//! (the two algorithms, over `merge` and `cache`), `known` (texts that begin like earlier ones), `detokenizer`, `template` and `guard`.
//!
//! ```no_run
//! use tapri_text::{ChatTemplate, RenderInput, Special, Tokenizer};
//!
//! let gguf = tapri_gguf::Gguf::open("model.gguf")?;
//! let tokenizer = Tokenizer::from_gguf(&gguf)?;
//! let template = ChatTemplate::from_gguf(&gguf, &tokenizer)?;
//! let rendered = template.render(&RenderInput {
//!     messages: &[serde_json::json!({"role": "user", "content": "What is a lease?"})],
//!     tools: &[],
//!     add_generation_prompt: true,
//!     now: &tapri_text::ZonedDateTime::now(),
//!     variables: &Default::default(),
//! })?;
//! let prompt = tokenizer.encode_rendered(&rendered);
//! let document = tokenizer.encode("some text <|im_end|>", Special::AsText);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bpe;
mod cache;
mod detokenizer;
mod error;
mod guard;
mod known;
mod merge;
mod special;
mod spm;
mod template;
mod tokenizer;
mod vocab;

pub use detokenizer::Detokenizer;
pub use error::{TemplateError, TokenizerError, UnknownToken};
pub use guard::Rendered;
pub use jiff::ZonedDateTime;
pub use known::{KnownStats, KnownTexts, TextUse};
pub use tapri_gguf::TokenId;
pub use template::{ChatTemplate, RenderInput};
pub use tokenizer::{ControlTokens, Special, Tokenizer};
