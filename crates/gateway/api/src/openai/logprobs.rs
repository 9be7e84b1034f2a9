//! Logprobs, in the shape of either format.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::event::{Logprob, Token, TokenLogprobs};

/// Chat's: `{"content": [...], "refusal": null}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ChatLogprobs {
    content: Vec<ChatToken>,
    refusal: Option<()>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ChatToken {
    #[serde(flatten)]
    token: ChatLogprob,
    top_logprobs: Vec<ChatLogprob>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ChatLogprob {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl From<&Logprob> for ChatLogprob {
    fn from(it: &Logprob) -> Self {
        ChatLogprob {
            token: token_text(&it.bytes),
            logprob: finite(it.logprob),
            bytes: it.bytes.clone(),
        }
    }
}

impl ChatLogprobs {
    /// Adds a token's.
    pub(crate) fn push(&mut self, token: &Token) {
        if let Some(logprobs) = &token.logprobs {
            self.content.push(ChatToken {
                token: (&logprobs.chosen).into(),
                top_logprobs: logprobs.top.iter().map(ChatLogprob::from).collect(),
            });
        }
    }
}

/// A token's, as an entry of a response's list; nothing where it has none.
pub(crate) fn chat_list(token: &Token) -> Vec<serde_json::Value> {
    let mut logprobs = ChatLogprobs::default();
    logprobs.push(token);
    // By way of text, as JSON's own numbers are doubles, and 0.1f32 as one of them reads 0.10000000149.
    let entry = |it: &ChatToken| serde_json::from_str(&super::wire::json(it)).ok();
    logprobs.content.iter().filter_map(entry).collect()
}

/// Completions': four lists of the same length.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct TextLogprobs {
    tokens: Vec<String>,
    /// Nothing for the first token of a prompt.
    token_logprobs: Vec<Option<f32>>,
    top_logprobs: Vec<Option<TopLogprobs>>,
    text_offset: Vec<usize>,
}

/// A map from token to logprob, best first. Two tokens may read the same; the better one is kept, as a JSON
/// object's keys differ.
#[derive(Debug, Clone, Default, PartialEq)]
struct TopLogprobs(Vec<(String, f32)>);

impl Serialize for TopLogprobs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (token, logprob) in &self.0 {
            map.serialize_entry(token, logprob)?;
        }
        map.end()
    }
}

impl TextLogprobs {
    /// Adds a token's; `offset` is the number of characters of the answer that were certain before it.
    pub(crate) fn push(&mut self, token: &Token, offset: usize) {
        let Some(logprobs) = &token.logprobs else { return };
        self.tokens.push(token_text(&logprobs.chosen.bytes));
        self.token_logprobs.push(Some(finite(logprobs.chosen.logprob)));
        self.text_offset.push(offset);
        let mut top = TopLogprobs::default();
        // The chosen token is always among them, as in OpenAI's API, last where it isn't one of the likeliest.
        for it in logprobs.top.iter().chain([&logprobs.chosen]) {
            let text = token_text(&it.bytes);
            if !top.0.iter().any(|(other, _)| *other == text) {
                top.0.push((text, finite(it.logprob)));
            }
        }
        self.top_logprobs.push(Some(top));
    }

    /// Adds the first token of a prompt, which nothing predicts.
    pub(crate) fn push_first(&mut self, token: &Token, offset: usize) {
        self.tokens.push(token.text.clone());
        self.token_logprobs.push(None);
        self.top_logprobs.push(None);
        self.text_offset.push(offset);
    }
}

/// A prompt token's entry in vLLM's `prompt_logprobs`: its own logprob, then those of the `top` likeliest, each under
/// its id with its rank.
pub fn prompt_entry(logprobs: &TokenLogprobs, rank: usize, top: usize) -> serde_json::Value {
    let own = [(&logprobs.chosen, rank)];
    let ranked = logprobs.top.iter().take(top).zip(1..);
    let mut entry = serde_json::Map::new();
    for (it, rank) in own.into_iter().chain(ranked) {
        entry.entry(it.id.to_string()).or_insert_with(|| {
            // By way of text, as for `chat_list`.
            let logprob = super::wire::json(&finite(it.logprob));
            let logprob = serde_json::from_str::<serde_json::Value>(&logprob).unwrap_or_default();
            serde_json::json!({
                "logprob": logprob,
                "rank": rank,
                "decoded_token": token_text(&it.bytes),
            })
        });
    }
    serde_json::Value::Object(entry)
}

/// A token's text; bytes that are no UTF-8 on their own are written as OpenAI does: `bytes:\xf0\x9f`.
fn token_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            let mut text = String::from("bytes:");
            for byte in bytes {
                text.push_str(&format!("\\x{byte:02x}"));
            }
            text
        }
    }
}

/// JSON has no infinity; OpenAI writes -9999 for a token that is all but impossible.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}
