//! What the rest of Tapri uses.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::check::{CheckError, check};
use crate::stored::Stored;

/// A text's vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The vector, of length 1.
    pub vector: Arc<[f32]>,
    /// Tokens that were read, those that frame the text included; 0 where the embedder doesn't say.
    pub tokens: usize,
    /// Whether the text was longer than the model reads, and its end was left out.
    pub truncated: bool,
}

impl Default for Embedding {
    /// No vector.
    fn default() -> Self {
        Embedding { vector: Arc::new([]), tokens: 0, truncated: false }
    }
}

/// Why texts have no vectors.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The model in this process failed.
    #[error("the sentence encoder failed: {0}")]
    Model(String),
    /// The embedder elsewhere failed or could not be reached.
    #[error("the embedder at {url} failed: {message}")]
    Upstream {
        /// Its address.
        url: String,
        /// What it said.
        message: String,
    },
    /// It answered with something else than one vector for each text.
    #[error("the embedder at {url} sent {found}")]
    Answer {
        /// Its address.
        url: String,
        /// What it sent.
        found: String,
    },
    /// It failed a moment ago.
    #[error("the embedder at {url} failed a moment ago, and is left alone for another")]
    Resting {
        /// Its address.
        url: String,
    },
    /// It could not be checked at the start, and was found to be of no use since.
    #[error("{0}")]
    Refused(String),
}

/// Something that embeds. It may block: call it from a thread that may wait.
pub trait Embed: Send + Sync + 'static {
    /// Numbers in a vector; `None` until an embedder elsewhere has answered once.
    fn dimensions(&self) -> Option<usize>;

    /// What its vectors depend on: vectors of different fingerprints are never compared.
    fn fingerprint(&self) -> &str;

    /// A vector for each text, in their order.
    ///
    /// # Errors
    /// See [`EmbedError`].
    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError>;
}

/// The most bytes that the vectors kept in front of an embedder take, their texts' keys included: about 2,600 vectors
/// of 384 numbers.
pub const DEFAULT_STORED_BYTES: usize = 4 << 20;

/// An embedder that was found good, with the vectors of the latest texts in front of it. Cheap to clone; clones share
/// everything.
#[derive(Clone)]
pub struct Embedder {
    inner: Arc<dyn Embed>,
    stored: Arc<Mutex<Stored>>,
    /// What the check said, once it could be made.
    verdict: Arc<OnceLock<Result<(), String>>>,
}

impl Embedder {
    /// Checks an embedder, and takes it into use.
    ///
    /// # Errors
    /// When it fails, or is degenerate: see [`CheckError`].
    pub fn checked(inner: impl Embed) -> Result<Self, CheckError> {
        let embedder = Embedder::checked_later(inner);
        embedder.check()?;
        Ok(embedder)
    }

    /// Takes an embedder into use that is checked before its first text: one that is elsewhere, and may not be there
    /// yet. Until it was found sound it embeds nothing.
    pub fn checked_later(inner: impl Embed) -> Self {
        let stored = Arc::new(Mutex::new(Stored::new(DEFAULT_STORED_BYTES)));
        Embedder { inner: Arc::new(inner), stored, verdict: Arc::default() }
    }

    /// Checks it, unless that was done.
    ///
    /// # Errors
    /// When it fails, or is degenerate: see [`CheckError`].
    pub fn check(&self) -> Result<(), CheckError> {
        if let Some(verdict) = self.verdict.get() {
            return verdict.clone().map_err(CheckError::Degenerate);
        }
        let found = check(&*self.inner);
        match &found {
            Ok(()) => drop(self.verdict.set(Ok(()))),
            Err(CheckError::Degenerate(what)) => drop(self.verdict.set(Err(what.clone()))),
            // Asked again with the next text.
            Err(CheckError::Failed(_)) => {}
        }
        found
    }

    /// The same with room for so many bytes of vectors.
    #[must_use]
    pub fn storing(self, bytes: usize) -> Self {
        Embedder { stored: Arc::new(Mutex::new(Stored::new(bytes))), ..self }
    }

    /// Numbers in a vector.
    pub fn dimensions(&self) -> Option<usize> {
        self.inner.dimensions()
    }

    /// What its vectors depend on.
    pub fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    /// A vector for each text, in their order; those of texts that came lately are not computed again. Blocks.
    ///
    /// # Errors
    /// See [`EmbedError`].
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError> {
        let mut out = vec![Embedding::default(); texts.len()];
        let mut missing = Vec::new();
        {
            let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
            for (place, text) in texts.iter().enumerate() {
                match stored.get(text) {
                    Some(found) => out[place] = found,
                    None => missing.push(place),
                }
            }
        }
        if missing.is_empty() {
            return Ok(out);
        }
        self.check().map_err(|error| match error {
            CheckError::Failed(error) => error,
            refused => EmbedError::Refused(refused.to_string()),
        })?;
        let wanted: Vec<&str> = missing.iter().map(|place| texts[*place]).collect();
        let found = self.inner.embed(&wanted)?;
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        for (place, embedding) in missing.into_iter().zip(found) {
            stored.put(texts[place], embedding.clone());
            out[place] = embedding;
        }
        Ok(out)
    }

    /// [`Embedder::embed`] of one text.
    ///
    /// # Errors
    /// See [`EmbedError`].
    pub fn embed_one(&self, text: &str) -> Result<Embedding, EmbedError> {
        Ok(self.embed(&[text])?.pop().unwrap_or_default())
    }

    /// Forgets every stored vector: what was erased elsewhere leaves nothing here.
    pub fn forget(&self) {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl std::fmt::Debug for Embedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedder").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}
