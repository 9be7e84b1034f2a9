//! Sentence embeddings: a vector for a text, so that texts that mean nearly the same lie near each other.
//!
//! Two things embed: [`MiniLm`] in this process (all-MiniLM-L6-v2 through candle), and [`UpstreamEmbedder`] behind an
//! OpenAI-compatible `/v1/embeddings`. Both are an [`Embed`]; [`Embedder`] puts a bounded store of vectors in front of
//! one, and refuses one that is degenerate (see [`check`](fn@check)) before anything relies on it.
//!
//! Invariants:
//! - Every vector has length 1 (within [`vector::TOLERANCE`]) and the embedder's one number of dimensions.
//! - A text's vector does not depend on what else is in its batch beyond rounding in the last bits.
//! - A text that is longer than the model reads is cut, and its [`Embedding::truncated`] says so.
//!
//! Map: [`embedder`] what the rest of Tapri uses; [`minilm`] the model, with its forward pass in `bert`; [`upstream`]
//! an embedder elsewhere; [`check`](mod@check) the check at the start; [`vector`] lengths and angles; `stored` the bounded store;
//! `letters` an embedder for tests (feature `letters`).
//!
//! ```no_run
//! use tapri_embed::{Embedder, MiniLm, vector};
//!
//! let model = MiniLm::open(std::path::Path::new("all-minilm-l6-v2.safetensors"))?;
//! let embedder = Embedder::checked(model)?;
//! let found = embedder.embed(&["When are you open?", "What are your opening hours?"])?;
//! assert!(vector::dot(&found[0].vector, &found[1].vector) > 0.7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bert;
pub mod check;
pub mod embedder;
#[cfg(any(test, feature = "letters"))]
pub mod letters;
pub mod minilm;
mod stored;
pub mod upstream;
pub mod vector;

pub use check::{CheckError, check};
pub use embedder::{Embed, EmbedError, Embedder, Embedding};
pub use minilm::{MiniLm, OpenError};
pub use upstream::UpstreamEmbedder;
