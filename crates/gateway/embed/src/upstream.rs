//! An embedder behind an OpenAI-compatible `/v1/embeddings`.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;

use crate::embedder::{Embed, EmbedError, Embedding};
use crate::vector;

/// Texts that one request carries at most: within what OpenAI and the servers that speak its API take.
const TEXTS_AT_ONCE: usize = 64;

/// The largest answer that is read: 64 vectors of 4,096 numbers written out in full.
const LARGEST_ANSWER: u64 = 16 << 20;

/// How long it is left alone after it could not be reached or was too slow, so that one that is down costs the time
/// limit once in a while and not with each call.
const REST: Duration = Duration::from_secs(1);

/// Asks over HTTP, blocking. Its vectors are scaled to length 1, whatever comes.
pub struct UpstreamEmbedder {
    url: String,
    model: String,
    key: Option<String>,
    fingerprint: String,
    dimensions: OnceLock<usize>,
    agent: ureq::Agent,
    rests_until: Mutex<Option<Instant>>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Datum>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Datum {
    index: usize,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: usize,
}

impl UpstreamEmbedder {
    /// An embedder at a base URL (`http://host:port/v1`), of a model's name, with a key where it wants one.
    pub fn new(base_url: &str, model: &str, key: Option<String>, timeout: Duration) -> Self {
        let url = format!("{}/embeddings", base_url.trim_end_matches('/'));
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .build()
            .into();
        let fingerprint = format!("{url} {model}");
        UpstreamEmbedder {
            url,
            model: model.to_owned(),
            key,
            fingerprint,
            dimensions: OnceLock::new(),
            agent,
            rests_until: Mutex::new(None),
        }
    }

    fn rest(&self) {
        let mut until = self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(Instant::now() + REST);
    }

    fn is_resting(&self) -> bool {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn ask(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError> {
        let failed = |message: String| EmbedError::Upstream { url: self.url.clone(), message };
        let wrong = |found: String| EmbedError::Answer { url: self.url.clone(), found };
        if self.is_resting() {
            return Err(EmbedError::Resting { url: self.url.clone() });
        }
        let mut request = self.agent.post(&self.url);
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let mut response = request.send_json(&body).map_err(|error| {
            self.rest();
            failed(error.to_string())
        })?;
        let status = response.status();
        if !status.is_success() {
            self.rest();
            return Err(failed(format!("status {}", status.as_u16())));
        }
        let answer: Answer = response
            .body_mut()
            .with_config()
            .limit(LARGEST_ANSWER)
            .read_json()
            .map_err(|error| wrong(format!("no list of vectors ({error})")))?;
        if answer.data.len() != texts.len() {
            return Err(wrong(format!("{} vectors for {} texts", answer.data.len(), texts.len())));
        }
        let counted =
            if texts.len() == 1 { answer.usage.map_or(0, |u| u.prompt_tokens) } else { 0 };
        let mut out: Vec<Option<Embedding>> = vec![None; texts.len()];
        for mut datum in answer.data {
            let expected = *self.dimensions.get_or_init(|| datum.embedding.len());
            if datum.embedding.len() != expected {
                return Err(wrong(format!(
                    "a vector of {} numbers after one of {expected}",
                    datum.embedding.len()
                )));
            }
            vector::normalise(&mut datum.embedding);
            let place = out
                .get_mut(datum.index)
                .filter(|place| place.is_none())
                .ok_or_else(|| wrong(format!("a vector numbered {} out of turn", datum.index)))?;
            *place = Some(Embedding {
                vector: datum.embedding.into(),
                tokens: counted,
                truncated: false,
            });
        }
        // Every place is filled: there are as many vectors as texts, and no number came twice.
        Ok(out.into_iter().flatten().collect())
    }
}

impl Embed for UpstreamEmbedder {
    fn dimensions(&self) -> Option<usize> {
        self.dimensions.get().copied()
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Embedding>, EmbedError> {
        let mut out = Vec::with_capacity(texts.len());
        for batch in texts.chunks(TEXTS_AT_ONCE) {
            out.extend(self.ask(batch)?);
        }
        Ok(out)
    }
}

impl std::fmt::Debug for UpstreamEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamEmbedder")
            .field("url", &self.url)
            .field("model", &self.model)
            .field("key", &self.key.as_ref().map(|_| "***"))
            .finish_non_exhaustive()
    }
}
