//! all-MiniLM-L6-v2 (Reimers and Gurevych, 2019; Wang et al., 2020) in this process.

use std::io::Read;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use sha2::{Digest, Sha256};
use tokenizers::{Tokenizer, TruncationParams};

use crate::bert::{Bert, Config, matrix};
use crate::embedder::{Embed, EmbedError, Embedding};
use crate::vector;

/// The most tokens that the model was trained to read, with the two that frame a text; what comes after them is cut.
pub const MAX_TOKENS: usize = 256;

/// Padded tokens that one pass computes at most: bounds its memory (about 40 MB).
const TOKENS_AT_ONCE: usize = 4096;

/// The model, ready to run. Reads and computes on the caller's thread.
pub struct MiniLm {
    tokenizer: Tokenizer,
    bert: Bert,
    dimensions: usize,
    fingerprint: String,
}

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file could not be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration is no JSON of the right shape.
    #[error("{path} is no configuration of an encoder")]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// An encoder of another kind.
    #[error(
        "{path} describes a {model_type} with {activation}; only BERT encoders with GELU are read"
    )]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        model_type: String,
        /// Its activation.
        activation: String,
    },
    /// The tokenizer could not be read.
    #[error("failed to read the tokenizer {path}: {message}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The library's words.
        message: String,
    },
    /// The weights could not be read, or some are missing.
    #[error("failed to read the weights {path}")]
    Weights {
        /// The file.
        path: PathBuf,
        /// Why.
        source: candle_core::Error,
    },
}

impl MiniLm {
    /// Opens `NAME.safetensors` with `NAME.tokenizer.json` and `NAME.config.json` beside it, as a pull leaves them.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(weights: &Path) -> Result<Self, OpenError> {
        let path = weights.with_extension("config.json");
        let text = std::fs::read(&path)
            .map_err(|source| OpenError::Read { path: path.clone(), source })?;
        let config: Config = serde_json::from_slice(&text)
            .map_err(|source| OpenError::Config { path: path.clone(), source })?;
        if config.model_type != "bert" || config.hidden_act != "gelu" {
            return Err(OpenError::Unsupported {
                path,
                model_type: config.model_type,
                activation: config.hidden_act,
            });
        }
        let path = weights.with_extension("tokenizer.json");
        let refused = |error: tokenizers::Error| OpenError::Tokenizer {
            path: path.clone(),
            message: error.to_string(),
        };
        let mut tokenizer = Tokenizer::from_file(&path).map_err(refused)?;
        // The file pads every text to 128 tokens and cuts it there; here a batch is padded to its longest text.
        tokenizer.with_padding(None);
        let max_length = MAX_TOKENS.min(config.max_position_embeddings);
        tokenizer
            .with_truncation(Some(TruncationParams { max_length, ..TruncationParams::default() }))
            .map_err(refused)?;

        let path = weights.to_owned();
        let fingerprint = fingerprint(weights)
            .map_err(|source| OpenError::Read { path: path.clone(), source })?;
        let wrong = |source| OpenError::Weights { path: path.clone(), source };
        let tensors = candle_core::safetensors::load(weights, &Device::Cpu).map_err(wrong)?;
        let bert = Bert::new(&config, &tensors).map_err(wrong)?;
        Ok(MiniLm { tokenizer, bert, dimensions: config.hidden_size, fingerprint })
    }

    fn pass(&self, batch: &[(usize, Encoded)], out: &mut [Embedding]) -> Result<(), EmbedError> {
        let tokens = batch.iter().map(|(_, text)| text.ids.len()).max().unwrap_or_default();
        let mut ids: Vec<u32> = Vec::with_capacity(batch.len() * tokens);
        let mut real: Vec<f32> = Vec::with_capacity(batch.len() * tokens);
        for (_, text) in batch {
            let padding = tokens - text.ids.len();
            ids.extend(text.ids.iter().copied().chain(std::iter::repeat_n(0, padding)));
            real.extend(
                std::iter::repeat_n(1.0, text.ids.len()).chain(std::iter::repeat_n(0.0, padding)),
            );
        }
        let rows = matrix(ids, tokens)
            .and_then(|ids| self.bert.mean_states(&ids, &matrix(real, tokens)?))
            .and_then(|means| means.to_dtype(DType::F32)?.to_vec2::<f32>())
            .map_err(|error| EmbedError::Model(error.to_string()))?;
        for ((place, text), mut vector) in batch.iter().zip(rows) {
            vector::normalise(&mut vector);
            out[*place] = Embedding {
                vector: vector.into(),
                tokens: text.ids.len(),
                truncated: text.truncated,
            };
        }
        Ok(())
    }
}

struct Encoded {
    ids: Vec<u32>,
    truncated: bool,
}

impl Embed for MiniLm {
    fn dimensions(&self) -> Option<usize> {
        Some(self.dimensions)
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError> {
        let mut encoded = Vec::with_capacity(texts.len());
        for (place, text) in texts.iter().enumerate() {
            let found = self
                .tokenizer
                .encode(*text, true)
                .map_err(|error| EmbedError::Model(error.to_string()))?;
            let truncated = !found.get_overflowing().is_empty();
            encoded.push((place, Encoded { ids: found.get_ids().to_vec(), truncated }));
        }
        // Texts of like length share a pass, so that little of it is padding.
        encoded.sort_by_key(|(_, text)| text.ids.len());
        let mut out = vec![Embedding::default(); texts.len()];
        let mut rest = encoded.as_slice();
        while !rest.is_empty() {
            let mut count = 1;
            while count < rest.len() && (count + 1) * rest[count].1.ids.len() <= TOKENS_AT_ONCE {
                count += 1;
            }
            let (batch, after) = rest.split_at(count);
            self.pass(batch, &mut out)?;
            rest = after;
        }
        Ok(out)
    }
}

impl std::fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MiniLm").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// The first half of the weights' SHA-256, in hexadecimal digits: other weights, other vectors.
fn fingerprint(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    let digest = hasher.finalize();
    Ok(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
}
