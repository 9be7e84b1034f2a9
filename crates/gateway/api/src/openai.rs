//! OpenAI's formats: chat completions, completions, embeddings, models, errors; and vLLM's `/tokenize` and `/detokenize`.
//!
//! A request is read field by field rather than into a struct: so every refusal names its field and says what
//! would do, a field that changes the answer and isn't supported is refused by name ([`refused`]), and any other
//! is ignored, as OpenAI does. Answers are written by [`encode`](crate::encode).

pub mod chat;
pub mod completion;
pub mod embeddings;
pub mod error;
pub mod fields;
pub(crate) mod logprobs;
pub mod model;
pub mod options;
pub mod refused;
pub mod tokenize;
pub(crate) mod tools;
pub(crate) mod wire;

pub use logprobs::prompt_entry;
pub use options::Request;
