//! A played prefix cache: which tokens of a prompt would have been there.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_128;

use crate::asked::Api;

/// Bytes of a token.
pub const TOKEN: usize = 4;

/// Whose rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStyle {
    /// Blocks of 16 tokens, at most all tokens but the last, partitioned by `cache_salt` alone.
    Vllm,
    /// From 1,024 tokens in steps of 128, partitioned by credential.
    OpenAi,
    /// Up to `cache_control` markers, from 1,024 tokens, partitioned by credential.
    Anthropic,
}

/// The cache.
#[derive(Debug, Clone, Copy)]
pub struct CacheConfig {
    /// Whose rules.
    pub style: CacheStyle,
    /// Tokens that it holds; the oldest go first.
    pub tokens: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig { style: CacheStyle::Vllm, tokens: 4 << 20 }
    }
}

/// What was there of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Found {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Of them, found.
    pub cached: u64,
    /// Of them, stored now, where the provider says so.
    pub written: u64,
}

/// What is stored: hashes of starts, first in first out.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    config: CacheConfig,
    known: HashMap<u128, usize>,
    order: VecDeque<u128>,
    held: usize,
}

/// The bytes of a token block of each style.
const fn block(style: CacheStyle) -> usize {
    TOKEN
        * match style {
            CacheStyle::Vllm => 16,
            CacheStyle::OpenAi => 128,
            CacheStyle::Anthropic => 1,
        }
}

/// OpenAI and most of Anthropic's models cache nothing below.
const MINIMUM: usize = 1024;

impl PrefixCache {
    pub(crate) fn new(config: CacheConfig) -> Self {
        PrefixCache { config, known: HashMap::new(), order: VecDeque::new(), held: 0 }
    }

    /// Looks a prompt up and stores it.
    pub(crate) fn look(&mut self, prompt: &Prompt, credential: &str, salt: &str) -> Found {
        let bytes = prompt.text.as_bytes();
        let tokens = bytes.len().div_ceil(TOKEN);
        let style = self.config.style;
        let root = match style {
            CacheStyle::Vllm => salt,
            CacheStyle::OpenAi | CacheStyle::Anthropic => credential,
        };
        let mut hash = xxh3_128(root.as_bytes());
        let mut found = Found { prompt: tokens as u64, ..Found::default() };
        if style == CacheStyle::Anthropic {
            return self.marked(prompt, hash, found);
        }
        let size = block(style);
        let mut matching = true;
        for chunk in bytes.chunks_exact(size) {
            hash = step(hash, chunk);
            matching = matching && self.known.contains_key(&hash);
            if matching {
                found.cached += (size / TOKEN) as u64;
            } else {
                self.keep(hash, size / TOKEN);
            }
        }
        if style == CacheStyle::OpenAi && tokens < MINIMUM {
            found.cached = 0;
        }
        // The last token is always computed.
        if found.cached == found.prompt {
            found.cached = found.cached.saturating_sub((size / TOKEN) as u64);
        }
        found
    }

    fn marked(&mut self, prompt: &Prompt, root: u128, mut found: Found) -> Found {
        // Hashes at the end of each content block; a marker looks at its own and the 19 before.
        let mut ends = Vec::new();
        let (mut hash, mut at) = (root, 0);
        for &end in &prompt.ends {
            hash = step(hash, &prompt.text.as_bytes()[at..end]);
            ends.push((end, hash));
            at = end;
        }
        let mut longest = 0;
        for &mark in &prompt.marks {
            for &(end, hash) in ends[..=mark].iter().rev().take(20) {
                if self.known.contains_key(&hash) {
                    longest = longest.max(end);
                    break;
                }
            }
        }
        let mut furthest = longest;
        for &mark in &prompt.marks {
            let (end, hash) = ends[mark];
            if end / TOKEN >= MINIMUM && !self.known.contains_key(&hash) {
                self.keep(hash, end / TOKEN);
                furthest = furthest.max(end);
            }
        }
        found.cached = (longest / TOKEN) as u64;
        found.written = ((furthest - longest) / TOKEN) as u64;
        found
    }

    fn keep(&mut self, hash: u128, tokens: usize) {
        if self.known.insert(hash, tokens).is_none() {
            self.order.push_back(hash);
            self.held += tokens;
        }
        while self.held > self.config.tokens {
            let Some(oldest) = self.order.pop_front() else { break };
            self.held -= self.known.remove(&oldest).unwrap_or(0);
        }
    }
}

fn step(parent: u128, chunk: &[u8]) -> u128 {
    let mut bytes = Vec::with_capacity(16 + chunk.len());
    bytes.extend_from_slice(&parent.to_le_bytes());
    bytes.extend_from_slice(chunk);
    xxh3_128(&bytes)
}

/// A prompt's text in the order that models read it: tools, system, messages.
#[derive(Debug, Default)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Where its content blocks end.
    pub ends: Vec<usize>,
    /// The content blocks that have a marker.
    pub marks: Vec<usize>,
}

impl Prompt {
    /// Of a request.
    pub fn read(api: Api, body: &Map<String, Value>) -> Self {
        let mut prompt = Prompt::default();
        for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
            prompt.block("tool ", tool);
        }
        match api {
            Api::Responses => {
                prompt.contents("system ", body.get("instructions"));
                match body.get("input") {
                    Some(Value::Array(items)) => prompt.messages(items),
                    other => prompt.contents("user ", other),
                }
            }
            Api::Completion => prompt.contents("", body.get("prompt")),
            Api::Embeddings => prompt.contents("", body.get("input")),
            Api::Chat | Api::Messages | Api::CountTokens => {
                prompt.contents("system ", body.get("system"));
                if let Some(Value::Array(messages)) = body.get("messages") {
                    prompt.messages(messages);
                }
            }
        }
        // A marker at the top stands for one on the last block.
        if body.contains_key("cache_control") && !prompt.ends.is_empty() {
            let last = prompt.ends.len() - 1;
            if !prompt.marks.contains(&last) {
                prompt.marks.push(last);
            }
        }
        prompt
    }

    fn messages(&mut self, messages: &[Value]) {
        for message in messages {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("item");
            match message.get("content") {
                Some(content) => self.contents(&format!("{role} "), Some(content)),
                None => self.block(role, message),
            }
            if let Some(calls) = message.get("tool_calls") {
                self.block("calls ", calls);
            }
        }
    }

    fn contents(&mut self, head: &str, content: Option<&Value>) {
        match content {
            None | Some(Value::Null) => {}
            Some(Value::Array(blocks)) => blocks.iter().for_each(|block| self.block(head, block)),
            Some(other) => self.block(head, other),
        }
    }

    fn block(&mut self, head: &str, value: &Value) {
        let mut value = value.clone();
        let marked = value
            .as_object_mut()
            .is_some_and(|object| object.shift_remove("cache_control").is_some());
        self.text.push_str(head);
        // A text reads the same as a string and as a block of its own.
        match (&value, value.get("text")) {
            (Value::String(text), _) | (_, Some(Value::String(text))) => self.text.push_str(text),
            _ => self.text.push_str(&value.to_string()),
        }
        self.text.push('\n');
        if marked {
            self.marks.push(self.ends.len());
        }
        self.ends.push(self.text.len());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn prompt(body: Value) -> Prompt {
        Prompt::read(Api::Messages, body.as_object().unwrap())
    }

    #[test]
    fn blocks_and_salts_as_vllm() {
        let mut cache = PrefixCache::new(CacheConfig::default());
        let body = json!({"messages": [{"role": "user", "content": "a".repeat(1000)}]});
        let prompt = prompt(body);
        let mut look = |salt| cache.look(&prompt, "key", salt).cached;
        assert_eq!(look("one"), 0);
        let again = look("one");
        assert!(again >= 240 && again % 16 == 0, "{again}");
        assert_eq!(look("two"), 0);
    }

    #[test]
    fn markers_as_anthropic() {
        let config = CacheConfig { style: CacheStyle::Anthropic, tokens: 1 << 20 };
        let mut cache = PrefixCache::new(config);
        let ask = |question: &str, mark: bool| {
            let mut file = json!({"type": "text", "text": "word ".repeat(2000)});
            if mark {
                file["cache_control"] = json!({"type": "ephemeral"});
            }
            prompt(json!({"system": [file], "messages": [{"role": "user", "content": question}]}))
        };
        let mut look = |prompt: &Prompt, key| cache.look(prompt, key, "");
        assert_eq!(look(&ask("one", false), "k").written, 0);
        assert_eq!(look(&ask("one", true), "k").written, 2502);
        let two = look(&ask("two", true), "k");
        assert_eq!((two.cached, two.written), (2502, 0));
        assert_eq!(look(&ask("two", true), "another").cached, 0);
    }
}
