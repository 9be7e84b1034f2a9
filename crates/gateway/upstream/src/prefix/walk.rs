//! A prompt as a chain of hashes over everything that the model reads.
//!
//! Text is taken in blocks of bytes in the order that models read it: model, tools, the answer's schema, system,
//! messages. Each hash covers all blocks before, so two prompts have as many first hashes in common as they have text.
//! The chain begins with the tenant's scope and the client's salt: what an upstream keeps apart is apart here as well.
//! (Chained hashes over blocks of text are llm-d's approximation of an engine's block hashes. What others leave out of
//! it, tools and system prompt and salt, is at the very start of a prompt.)

use serde_json::{Map, Value};
use tapri_api::{Call, Format, Prompt};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a block: about 128 tokens, OpenAI's step.
pub const BLOCK: usize = 512;

/// Blocks that are hashed: 4 MiB of text. What is behind them is taken for new.
const MOST_BLOCKS: usize = 8192;

/// The start of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix {
    /// A hash for each full block, each over all blocks before it too.
    pub blocks: Vec<u64>,
    /// Bytes of text in all.
    pub bytes: usize,
    /// Bytes of text up to the last `cache_control` marker; `None` without one.
    pub marked: Option<usize>,
    /// A hash of what stands before the first message: tools, schema, system. It and [`Prefix::opening`] have no seed: every
    /// gateway finds the same ones.
    pub head: u128,
    /// A hash up to the end of the first message: the same in every turn of a conversation.
    pub opening: u64,
}

impl Prefix {
    /// Of a call, as seen by upstreams that get this model's name. The seed is the process's own, so that nobody outside
    /// can find prompts whose hashes meet.
    pub fn of(call: &Call, model: &str, seed: u64) -> Self {
        let mut walk = Walk::new(seed);
        walk.field(b"scope", &call.scope.0);
        let own = match &call.prompt {
            Prompt::Request(inbound) => inbound.body.get("cache_salt").and_then(Value::as_str),
            _ => None,
        };
        let salt = call.salt.as_ref().map(|salt| salt.as_str()).or(own);
        walk.field(b"salt", salt.unwrap_or("").as_bytes());
        walk.field(b"model", model.as_bytes());
        // What comes before is not text of the prompt.
        walk.begin();
        match &call.prompt {
            Prompt::Request(inbound) => {
                walk.request(inbound.format, |name| inbound.body.get(name));
            }
            Prompt::Chat(messages) => {
                walk.end_head();
                for message in messages {
                    walk.feed(message.role.as_str().as_bytes());
                    walk.feed(message.text().as_bytes());
                    walk.end_message();
                }
            }
            Prompt::Text(text) => walk.feed(text.as_bytes()),
            Prompt::Tokens(ids) => ids.iter().for_each(|id| walk.feed(&id.to_le_bytes())),
        }
        walk.end()
    }
}

/// Bytes of text up to the last marker of a body with some fields changed, counted as [`Prefix::marked`] counts them.
pub fn marked(
    format: Format,
    body: &Map<String, Value>,
    changed: &[(&str, Value)],
) -> Option<usize> {
    let mut walk = Walk::new(0);
    walk.request(format, |name| {
        let changed = changed.iter().find(|(field, _)| *field == name);
        changed.map(|(_, value)| value).or_else(|| body.get(name))
    });
    walk.marked
}

struct Walk {
    hasher: Xxh3,
    blocks: Vec<u64>,
    /// Bytes since the last full block.
    open: usize,
    bytes: usize,
    marked: Option<usize>,
    /// Without a seed, up to the opening's end.
    stable: Xxh3,
    head: Option<u128>,
    opening: Option<u64>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        Walk {
            hasher: Xxh3::with_seed(seed),
            blocks: Vec::new(),
            open: 0,
            bytes: 0,
            marked: None,
            stable: Xxh3::new(),
            head: None,
            opening: None,
        }
    }

    /// A part of the chain's root, with its length.
    fn field(&mut self, name: &[u8], value: &[u8]) {
        for part in [name, value] {
            self.hasher.update(&(part.len() as u64).to_le_bytes());
            self.hasher.update(part);
        }
    }

    fn begin(&mut self) {
        (self.open, self.bytes) = (0, 0);
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len();
        if self.opening.is_none() {
            self.stable.update(bytes);
        }
        while self.open + bytes.len() >= BLOCK {
            let (now, rest) = bytes.split_at(BLOCK - self.open);
            self.hasher.update(now);
            if self.blocks.len() < MOST_BLOCKS {
                self.blocks.push(self.hasher.digest());
            }
            self.open = 0;
            bytes = rest;
        }
        self.hasher.update(bytes);
        self.open += bytes.len();
    }

    fn request<'a>(&mut self, format: Format, field: impl Fn(&str) -> Option<&'a Value>) {
        self.list(field("tools"));
        for schema in ["response_format", "text", "output_config"] {
            if let Some(schema) = field(schema) {
                self.value(schema);
            }
        }
        match format {
            Format::Chat => {
                self.end_head();
                self.messages(field("messages"));
            }
            Format::Messages => {
                self.content(field("system"));
                self.end_head();
                self.messages(field("messages"));
            }
            Format::Responses => {
                self.content(field("instructions"));
                self.end_head();
                match field("input") {
                    list @ Some(Value::Array(_)) => self.messages(list),
                    other => self.content(other),
                }
            }
            Format::Completion => self.content(field("prompt")),
            Format::Embeddings => self.content(field("input")),
        }
        // At the top it stands for one on the last block.
        if field("cache_control").is_some() {
            self.marked = Some(self.bytes);
        }
    }

    fn end_head(&mut self) {
        self.head.get_or_insert_with(|| self.stable.digest128());
    }

    fn end_message(&mut self) {
        self.opening.get_or_insert_with(|| self.stable.digest());
    }

    fn list(&mut self, list: Option<&Value>) {
        for value in list.and_then(Value::as_array).into_iter().flatten() {
            self.value(value);
            self.mark(value);
        }
    }

    fn messages(&mut self, messages: Option<&Value>) {
        let mut instructing = true;
        for message in messages.and_then(Value::as_array).into_iter().flatten() {
            let role = message.get("role").and_then(Value::as_str).unwrap_or("");
            // Of a chat the system's messages are the head.
            if instructing && !matches!(role, "system" | "developer") {
                instructing = false;
                self.head = None;
                self.end_head();
            }
            self.feed(role.as_bytes());
            self.content(message.get("content"));
            for (name, value) in message.as_object().into_iter().flatten() {
                if !matches!(name.as_str(), "role" | "content" | "cache_control") {
                    self.feed(name.as_bytes());
                    self.value(value);
                }
            }
            self.mark(message);
            if !instructing {
                self.end_message();
            }
        }
    }

    /// Text as a string and text as the one block of a list read the same.
    fn content(&mut self, content: Option<&Value>) {
        match content {
            None | Some(Value::Null) => {}
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    match (block.get("type").and_then(Value::as_str), block.get("text")) {
                        (Some("text" | "input_text" | "output_text"), Some(text)) => {
                            self.value(text);
                        }
                        _ => self.value(block),
                    }
                    self.mark(block);
                }
            }
            Some(other) => self.value(other),
        }
    }

    fn mark(&mut self, value: &Value) {
        if value.get("cache_control").is_some_and(|marker| !marker.is_null()) {
            self.marked = Some(self.bytes);
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.feed(text.as_bytes());
                // No byte of UTF-8: a text's end can't be part of another.
                self.feed(&[0xFF]);
            }
            Value::Array(list) => {
                self.feed(b"[");
                list.iter().for_each(|value| self.value(value));
                self.feed(b"]");
            }
            Value::Object(map) => self.object(map),
            Value::Null => self.feed(b"null"),
            Value::Bool(true) => self.feed(b"true"),
            Value::Bool(false) => self.feed(b"false"),
            Value::Number(number) => {
                self.feed(number.to_string().as_bytes());
                self.feed(b",");
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>) {
        self.feed(b"{");
        for (name, value) in map {
            // A marker says what to keep; the model doesn't read it.
            if name != "cache_control" {
                self.feed(name.as_bytes());
                self.feed(b":");
                self.value(value);
            }
        }
        self.feed(b"}");
    }

    fn end(mut self) -> Prefix {
        self.end_head();
        self.end_message();
        Prefix {
            blocks: self.blocks,
            bytes: self.bytes,
            marked: self.marked,
            head: self.head.unwrap_or_default(),
            opening: self.opening.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use tapri_api::{Inbound, TenantScope};

    pub(crate) fn call(format: Format, body: Value) -> Call {
        let inbound = Inbound::read(format, body.to_string().into(), Vec::new()).unwrap();
        Call::request(Arc::new(inbound))
    }

    fn prefix(body: Value) -> Prefix {
        Prefix::of(&call(Format::Chat, body), "m", 7)
    }

    fn common(a: &Prefix, b: &Prefix) -> usize {
        a.blocks.iter().zip(&b.blocks).take_while(|(a, b)| a == b).count()
    }

    #[test]
    fn everything_the_model_reads_is_in_it() {
        let text = "law ".repeat(1000);
        let user = |text: &str| json!({"role": "user", "content": text});
        let base = prefix(json!({"messages": [user(&text)]}));
        assert!(base.blocks.len() == 7 && base.bytes > 4000);
        let asked = prefix(json!({"messages": [user(&text), user("And now?")], "temperature": 1}));
        assert_eq!(common(&base, &asked), 7);
        for other in [
            json!({"messages": [user(&text)], "tools": [{"type": "function"}]}),
            json!({"messages": [{"role": "system", "content": "Be brief."}, user(&text)]}),
            json!({"messages": [user(&text)], "cache_salt": "s"}),
            json!({"messages": [user(&text)], "response_format": {"type": "json_object"}}),
        ] {
            assert_eq!(common(&base, &prefix(other.clone())), 0, "{other}");
        }
        let mut scoped = call(Format::Chat, json!({"messages": [user(&text)]}));
        scoped.scope = TenantScope(vec![1]);
        assert_eq!(common(&base, &Prefix::of(&scoped, "m", 7)), 0, "another tenant");
        assert_eq!(common(&base, &Prefix::of(&scoped, "n", 7)), 0, "another model");
        let parts = json!([{"type": "text", "text": text}]);
        let parts = prefix(json!({"messages": [{"role": "user", "content": parts}]}));
        assert_eq!(common(&base, &parts), 7, "a text is a text, as a string and as a block");
    }

    #[test]
    fn head_and_opening_of_a_conversation() {
        let turns = |more: &[&str]| {
            let mut messages = vec![
                json!({"role": "system", "content": "You are a clerk."}),
                json!({"role": "user", "content": "Hello"}),
            ];
            messages.extend(more.iter().map(|text| json!({"role": "user", "content": text})));
            prefix(json!({"messages": messages}))
        };
        let (one, two) = (turns(&[]), turns(&["More"]));
        assert_eq!((one.head, one.opening), (two.head, two.opening));
        let system = json!({"role": "system", "content": "You are a clerk."});
        let other = prefix(json!({"messages": [system, {"role": "user", "content": "Bye"}]}));
        assert!(other.head == one.head && other.opening != one.opening);
    }

    #[test]
    fn markers_are_seen_and_not_read() {
        let body = |marker: bool| {
            let mut block = json!({"type": "text", "text": "x".repeat(3000)});
            if marker {
                block["cache_control"] = json!({"type": "ephemeral"});
            }
            let messages = json!([{"role": "user", "content": "y".repeat(2000)}]);
            let call = call(Format::Messages, json!({"system": [block], "messages": messages}));
            Prefix::of(&call, "m", 7)
        };
        let (plain, marked) = (body(false), body(true));
        assert_eq!(plain.blocks, marked.blocks);
        assert_eq!((plain.marked, marked.marked), (None, Some(3001)));
        let body =
            json!({"system": [{"type": "text", "text": "x".repeat(3000), "cache_control": {}}]});
        assert_eq!(super::marked(Format::Messages, body.as_object().unwrap(), &[]), Some(3001));
    }

    proptest! {
        /// Texts have as many first blocks in common as they have first bytes.
        #[test]
        fn common_blocks_are_common_text(a in "[ab]{0,3000}", cut in 0usize..3000, b in "[cd]{0,3000}") {
            let cut = cut.min(a.len());
            let other = format!("{}{b}", &a[..cut]);
            let of = |text: &str| Prefix::of(&Call::text(text), "m", 7);
            let same = a.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common(&of(&a), &of(&other)), same / BLOCK);
        }
    }
}
