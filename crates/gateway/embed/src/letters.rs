//! An embedder for tests: pairs of letters, counted. Crude, but near texts are near, and no model is needed.

use crate::embedder::{Embed, EmbedError, Embedding};
use crate::vector::normalise;

/// Pairs of letters, each a dimension; then bent by a fault.
#[derive(Debug, Clone, Copy)]
pub struct Letters(pub fn(&mut Vec<f32>));

impl Letters {
    /// Without a fault.
    pub fn sound() -> Self {
        Letters(|_| ())
    }
}

impl Embed for Letters {
    fn dimensions(&self) -> Option<usize> {
        Some(676)
    }

    fn fingerprint(&self) -> &str {
        "letters"
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError> {
        let vectors = texts.iter().map(|text| {
            let letters: Vec<usize> = text
                .bytes()
                .filter(u8::is_ascii_alphabetic)
                .map(|byte| usize::from(byte.to_ascii_lowercase() - b'a'))
                .collect();
            let mut vector = vec![0.0; 676];
            letters.windows(2).for_each(|pair| vector[pair[0] * 26 + pair[1]] += 1.0);
            normalise(&mut vector);
            (self.0)(&mut vector);
            Embedding { vector: vector.into(), tokens: 0, truncated: false }
        });
        Ok(vectors.collect())
    }
}
