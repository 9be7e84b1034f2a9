//! Anthropic's `cache_control`, put where a route asks for it and where it pays.
//!
//! Rules that hold whatever is asked (each has a test): a request never has more markers than the provider allows, the
//! caller's included; none stands below the model's minimum; one with a longer life never stands behind one with a
//! shorter; what the caller marked stays as it is. And a marker must pay: storing costs more than reading anew, so it
//! is left out where starts of its kind have not been coming back (see [`Reuse`]).

mod reuse;

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::rules::Rule;
use super::salt::code;
pub use reuse::Reuse;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inject {
    /// Where, the most important first.
    pub places: Vec<Place>,
    /// For how long.
    pub life: Life,
}

/// A place for a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Behind the last tool.
    Tools,
    /// Behind the last block of the system prompt.
    System,
    /// Behind the first message's last block but one: a document with a question behind it.
    Document,
    /// Behind the last block of the last message: the next turn reads it.
    Conversation,
}

/// How long a start is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Life {
    /// Five minutes, the default.
    #[default]
    Short,
    /// An hour.
    Long,
}

impl Life {
    /// As the API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Life::Short => "5m",
            Life::Long => "1h",
        }
    }

    fn seconds(self) -> u64 {
        match self {
            Life::Short => 300,
            Life::Long => 3600,
        }
    }

    fn of(marker: &Value) -> Self {
        if marker.get("ttl").and_then(Value::as_str) == Some("1h") {
            Life::Long
        } else {
            Life::Short
        }
    }
}

/// Where a block stands in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Tool(usize),
    /// `None` where the system prompt is one string.
    System(Option<usize>),
    /// A message, and its block; `None` where its content is one string.
    Message(usize, Option<usize>),
}

/// A block that can have a marker.
#[derive(Debug)]
struct Block {
    path: Path,
    /// Bytes of text up to its end.
    end: usize,
    hash: u64,
    marked: Option<Life>,
}

/// The fields that change, with their new values. `tokens` says how many tokens so many bytes are.
pub fn inject(
    body: &Map<String, Value>,
    inject: &Inject,
    rule: &Rule,
    reuse: &Reuse,
    scope: &[u8],
    tokens: impl Fn(usize) -> usize,
    now: Instant,
) -> Vec<(&'static str, Value)> {
    let (blocks, nested) = blocks(body, scope);
    let top = body.get("cache_control").filter(|marker| !marker.is_null());
    let own = blocks.iter().filter(|block| block.marked.is_some()).count()
        + nested
        + usize::from(top.is_some());
    let mut room = rule.most.saturating_sub(own);
    let (Some(read), Some(&write)) = (rule.read, rule.write.get(inject.life.as_str())) else {
        return Vec::new();
    };
    let mut chosen: Vec<Path> = Vec::new();
    for &place in &inject.places {
        let Some(at) = find(&blocks, place) else { continue };
        let block = &blocks[at];
        // An estimate of tokens may be a tenth too high.
        let long_enough = tokens(block.end) * 10 >= rule.minimum * 11;
        let taken = block.marked.is_some() || chosen.contains(&block.path);
        let last_is_theirs = place == Place::Conversation && top.is_some();
        if !long_enough || taken || last_is_theirs || !in_order(&blocks, at, inject.life, top, rule)
        {
            continue;
        }
        // A conversation comes back with its earlier end inside it, at most 19 blocks before the new one.
        let before: Vec<u64> = match place {
            Place::Conversation => {
                blocks[at.saturating_sub(19)..at].iter().map(|block| block.hash).collect()
            }
            _ => vec![block.hash],
        };
        let life = std::time::Duration::from_secs(inject.life.seconds());
        let pays = reuse.pays(place, scope, block.hash, &before, life, read, write, now, room > 0);
        if pays && room > 0 {
            room -= 1;
            chosen.push(block.path);
        }
    }
    write_markers(body, &chosen, inject.life)
}

/// Whether a marker of this life may stand here.
fn in_order(blocks: &[Block], at: usize, life: Life, top: Option<&Value>, rule: &Rule) -> bool {
    if !rule.long_first {
        return true;
    }
    let before = blocks[..at].iter().filter_map(|block| block.marked).all(|other| other >= life);
    let behind = blocks[at + 1..].iter().filter_map(|block| block.marked);
    before && behind.chain(top.map(Life::of)).all(|other| other <= life)
}

fn find(blocks: &[Block], place: Place) -> Option<usize> {
    match place {
        Place::Tools => blocks.iter().rposition(|block| matches!(block.path, Path::Tool(_))),
        Place::System => blocks.iter().rposition(|block| matches!(block.path, Path::System(_))),
        Place::Document => {
            let mut of_first = blocks
                .iter()
                .enumerate()
                .filter(|(_, block)| matches!(block.path, Path::Message(0, Some(_))))
                .map(|(at, _)| at)
                .rev();
            of_first.next()?;
            of_first.next()
        }
        Place::Conversation => {
            let last = blocks.len().checked_sub(1)?;
            matches!(blocks[last].path, Path::Message(..)).then_some(last)
        }
    }
}

/// The blocks that can have markers, and how many markers stand inside of tool results.
fn blocks(body: &Map<String, Value>, scope: &[u8]) -> (Vec<Block>, usize) {
    let mut walk = Blocks { hash: code(b"", &[scope]), end: 0, blocks: Vec::new(), nested: 0 };
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    for (at, tool) in list(body.get("tools")).iter().enumerate() {
        walk.block(Path::Tool(at), tool);
    }
    walk.content(body.get("system"), Path::System);
    for (message, value) in list(body.get("messages")).iter().enumerate() {
        walk.text(value.get("role").and_then(Value::as_str).unwrap_or(""));
        walk.content(value.get("content"), |block| Path::Message(message, block));
    }
    (walk.blocks, walk.nested)
}

struct Blocks {
    hash: [u8; 32],
    end: usize,
    blocks: Vec<Block>,
    nested: usize,
}

impl Blocks {
    fn text(&mut self, text: &str) {
        self.hash = code(&self.hash, &[text.as_bytes()]);
        self.end += text.len();
    }

    fn content(&mut self, content: Option<&Value>, path: impl Fn(Option<usize>) -> Path) {
        match content {
            Some(Value::String(text)) if !text.is_empty() => {
                self.text(text);
                self.add(path(None), None);
            }
            Some(Value::Array(blocks)) => {
                for (at, block) in blocks.iter().enumerate() {
                    self.block(path(Some(at)), block);
                }
            }
            _ => {}
        }
    }

    fn block(&mut self, path: Path, block: &Value) {
        let marker = block.get("cache_control").filter(|marker| !marker.is_null());
        for inner in block.get("content").and_then(Value::as_array).into_iter().flatten() {
            self.nested += usize::from(inner.get("cache_control").is_some());
        }
        match block.get("text").and_then(Value::as_str) {
            Some(text) => self.text(text),
            None => {
                let mut bare = block.clone();
                if let Some(object) = bare.as_object_mut() {
                    object.shift_remove("cache_control");
                }
                self.text(&bare.to_string());
            }
        }
        // Thinking can't be marked, and neither can an empty text.
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("");
        let empty = block.get("text").and_then(Value::as_str) == Some("");
        if !matches!(kind, "thinking" | "redacted_thinking") && !empty {
            self.add(path, marker.map(Life::of));
        }
    }

    fn add(&mut self, path: Path, marked: Option<Life>) {
        let mut first = [0; 8];
        first.copy_from_slice(&self.hash[..8]);
        let hash = u64::from_le_bytes(first);
        self.blocks.push(Block { path, end: self.end, hash, marked });
    }
}

fn write_markers(
    body: &Map<String, Value>,
    chosen: &[Path],
    life: Life,
) -> Vec<(&'static str, Value)> {
    let marker = match life {
        Life::Short => json!({"type": "ephemeral"}),
        Life::Long => json!({"type": "ephemeral", "ttl": "1h"}),
    };
    let mut changed: Vec<(&'static str, Value)> = Vec::new();
    for path in chosen {
        let field = match path {
            Path::Tool(_) => "tools",
            Path::System(_) => "system",
            Path::Message(..) => "messages",
        };
        if !changed.iter().any(|(name, _)| *name == field) {
            let Some(value) = body.get(field) else { continue };
            changed.push((field, value.clone()));
        }
        let Some((_, value)) = changed.iter_mut().find(|(name, _)| *name == field) else {
            continue;
        };
        let block = match *path {
            Path::Tool(at) => value.get_mut(at),
            Path::System(at) => block_of(value, at),
            Path::Message(message, at) => value
                .get_mut(message)
                .and_then(|m| m.get_mut("content"))
                .and_then(|c| block_of(c, at)),
        };
        if let Some(Value::Object(block)) = block {
            block.insert("cache_control".to_owned(), marker.clone());
        }
    }
    changed
}

/// A block of a content; a string becomes a list with one.
fn block_of(content: &mut Value, at: Option<usize>) -> Option<&mut Value> {
    if let Value::String(text) = content {
        *content = json!([{"type": "text", "text": std::mem::take(text)}]);
    }
    content.get_mut(at.unwrap_or(0))
}

#[cfg(test)]
#[path = "markers/tests.rs"]
mod tests;
