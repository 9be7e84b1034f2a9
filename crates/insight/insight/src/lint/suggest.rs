//! A better order of the same text: what stays the same first, what doesn't last.
//!
//! Only order changes. Tools are sorted by name. Lines of the instructions that change from request to request, or
//! that look as if they will, move into a last message; every line is still there, once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use crate::explain::fleeting;
use crate::prompt::PromptDoc;

/// Bytes of a piece in which reuse is measured: about a block of 16 tokens.
const PIECE: usize = 64;

/// Bytes of text for a token.
const BYTES_A_TOKEN: u64 = 4;

/// Fields that logs put a request under.
const WRAPPERS: [&str; 8] =
    ["request", "body", "request_body", "req", "payload", "params", "kwargs", "data"];

/// Which lines of instructions change, seen over a log.
#[derive(Debug, Clone, Default)]
pub struct Changing {
    /// Requests by the path of a text.
    texts: HashMap<String, u64>,
    /// Requests by path and line.
    lines: HashMap<(u64, u64), u64>,
}

/// What was moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved {
    /// Lines that now stand in the last message.
    pub lines: u64,
    /// Whether tools were put in order.
    pub tools: bool,
}

impl Moved {
    /// Whether the request is as it was.
    #[must_use]
    pub fn nothing(&self) -> bool {
        self.lines == 0 && !self.tools
    }
}

impl Changing {
    /// Looks at a request; `request` is the body itself, or a log's line around it.
    pub fn see(&mut self, request: &Value) {
        let mut request = request.clone();
        let Some(body) = body(&mut request) else { return };
        for (path, text) in texts(body) {
            *self.texts.entry(path.clone()).or_default() += 1;
            let mut own: Vec<_> = text.split_inclusive('\n').map(print).collect();
            own.sort_unstable();
            own.dedup();
            for line in own {
                *self.lines.entry((print(&path), line)).or_default() += 1;
            }
        }
    }

    /// Whether a line is likely to be another in the next request: it is in fewer than nine of ten of those seen, or,
    /// with none to compare, it has the look of the present.
    fn changes(&self, path: &str, line: &str) -> bool {
        let seen = self.texts.get(path).copied().unwrap_or(0);
        if seen >= 2 {
            let own = self.lines.get(&(print(path), print(line))).copied().unwrap_or(0);
            if own * 10 < seen * 9 {
                return true;
            }
        }
        !fleeting(line).is_empty()
    }

    /// Puts a request in a better order.
    pub fn reorder(&self, request: &mut Value) -> Moved {
        let Some(body) = body(request) else { return Moved::default() };
        let tools = ["tools", "functions"].iter().filter(|field| sort(body, field)).count() > 0;
        let plan = self.plan(&texts(body));
        let mut last = String::new();
        take(body, &plan, &mut last);
        let lines = last.split_inclusive('\n').count() as u64;
        if lines > 0 {
            append(body, last);
        }
        Moved { lines, tools }
    }

    /// What to take out of which text. Nothing where more changes than stays, as when the instructions themselves are
    /// others; and nothing that stands behind all that stays already.
    fn plan(&self, texts: &[(String, String)]) -> HashMap<String, Split> {
        let split = |(path, text): &(String, String)| {
            let mut split = Split::default();
            for line in text.split_inclusive('\n') {
                let changes = self.changes(path, line);
                if changes { &mut split.moved } else { &mut split.kept }.push_str(line);
            }
            split
        };
        let splits: Vec<_> = texts.iter().map(split).collect();
        let sum = |of: fn(&Split) -> usize| splits.iter().map(of).sum::<usize>();
        let Some(last) = splits.iter().rposition(|split| !split.kept.trim().is_empty()) else {
            return HashMap::new();
        };
        if sum(|split| split.kept.len()) < sum(|split| split.moved.len()) {
            return HashMap::new();
        }
        let ends_so = texts[last].1.ends_with(&splits[last].moved);
        let until = if ends_so { last } else { last + 1 };
        let paths = texts.iter().map(|(path, _)| path.clone());
        paths.zip(splits).take(until).filter(|(_, split)| !split.moved.is_empty()).collect()
    }
}

/// A text in two.
#[derive(Debug, Clone, Default)]
struct Split {
    kept: String,
    moved: String,
}

/// Takes out of a request what the plan says, and gathers it.
fn take(body: &mut Map<String, Value>, plan: &HashMap<String, Split>, last: &mut String) {
    for field in ["instructions", "system"] {
        if let Some(value) = body.get_mut(field) {
            take_from(field, value, plan, last);
        }
    }
    for field in ["messages", "input"] {
        let Some(Value::Array(messages)) = body.get_mut(field) else { continue };
        let systems = messages.iter().take_while(|message| is_system(message)).count();
        let mut emptied = Vec::new();
        for (index, message) in messages.iter_mut().enumerate().take(systems) {
            let Some(content) = message.get_mut("content") else { continue };
            let took = take_from(&format!("{field}[{index}].content"), content, plan, last);
            let nothing_left = content.as_str().is_some_and(str::is_empty)
                || content.as_array().is_some_and(Vec::is_empty);
            if took && nothing_left {
                emptied.push(index);
            }
        }
        for index in emptied.into_iter().rev() {
            messages.remove(index);
        }
    }
}

/// Takes out of a text, or of the texts of blocks; says whether there was anything.
fn take_from(
    path: &str,
    value: &mut Value,
    plan: &HashMap<String, Split>,
    last: &mut String,
) -> bool {
    let mut take_text = |path: &str, text: &mut String| {
        let Some(split) = plan.get(path) else { return false };
        if !last.is_empty() && !last.ends_with('\n') {
            last.push('\n');
        }
        last.push_str(&split.moved);
        text.clone_from(&split.kept);
        true
    };
    match value {
        Value::String(text) => take_text(path, text),
        Value::Array(blocks) => {
            let mut took = false;
            for (index, block) in blocks.iter_mut().enumerate() {
                if let Some(Value::String(text)) = block.get_mut("text") {
                    took |= take_text(&format!("{path}[{index}].text"), text);
                }
            }
            if took {
                drop_empty(blocks);
            }
            took
        }
        _ => false,
    }
}

fn print(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The request's body within a log's line.
fn body(value: &mut Value) -> Option<&mut Map<String, Value>> {
    let has = |object: &Map<String, Value>| {
        object.contains_key("messages") || object.get("input").is_some_and(Value::is_array)
    };
    let object = value.as_object()?;
    if has(object) || (object.contains_key("input") && object.contains_key("instructions")) {
        return value.as_object_mut();
    }
    let wrapper =
        WRAPPERS.into_iter().find(|wrapper| object.get(*wrapper).is_some_and(Value::is_object))?;
    body(value.get_mut(wrapper)?)
}

fn is_system(message: &Value) -> bool {
    matches!(message.get("role").and_then(Value::as_str), Some("system" | "developer"))
}

/// The texts of the instructions, with their paths.
fn texts(body: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut add = |path: String, value: &Value| match value {
        Value::String(text) => found.push((path, text.clone())),
        Value::Array(blocks) => {
            for (index, block) in blocks.iter().enumerate() {
                if let Some(text) = block.get("text").and_then(Value::as_str) {
                    found.push((format!("{path}[{index}].text"), text.to_owned()));
                }
            }
        }
        _ => {}
    };
    for field in ["instructions", "system"] {
        if let Some(value) = body.get(field) {
            add(field.to_owned(), value);
        }
    }
    for field in ["messages", "input"] {
        let messages = body.get(field).and_then(Value::as_array).into_iter().flatten();
        for (index, message) in messages.enumerate().take_while(|(_, message)| is_system(message)) {
            if let Some(content) = message.get("content") {
                add(format!("{field}[{index}].content"), content);
            }
        }
    }
    found
}

/// Removes blocks whose text was moved away; a marker on one goes to the block before it.
fn drop_empty(blocks: &mut Vec<Value>) {
    let mut index = 0;
    while index < blocks.len() {
        let empty = blocks[index].get("text").and_then(Value::as_str).is_some_and(str::is_empty);
        if !empty {
            index += 1;
            continue;
        }
        let gone = blocks.remove(index);
        let marker = gone.get("cache_control").cloned();
        if let (Some(marker), Some(before)) = (marker, index.checked_sub(1))
            && let Some(block) = blocks[before].as_object_mut()
        {
            block.entry("cache_control").or_insert(marker);
        }
    }
}

/// Sorts tools by name; says whether that changed anything.
fn sort(body: &mut Map<String, Value>, field: &str) -> bool {
    let Some(Value::Array(tools)) = body.get_mut(field) else { return false };
    let name = |tool: &Value| {
        let named = tool.get("function").unwrap_or(tool).get("name").and_then(Value::as_str);
        named.unwrap_or_default().to_owned()
    };
    if tools.is_sorted_by_key(name) {
        return false;
    }
    // A marker on the last tool covers all of them, and stays last.
    let marker =
        tools.last_mut().and_then(|tool| tool.as_object_mut()?.shift_remove("cache_control"));
    tools.sort_by_key(name);
    if let (Some(marker), Some(tool)) = (marker, tools.last_mut().and_then(Value::as_object_mut)) {
        tool.insert("cache_control".to_owned(), marker);
    }
    true
}

/// Adds what was moved as the last thing that the model reads.
fn append(body: &mut Map<String, Value>, text: String) {
    let hosted = body.contains_key("system");
    if let Some(Value::Array(messages)) = body.get_mut("messages") {
        if !hosted {
            messages.push(json!({"role": "system", "content": text}));
            return;
        }
        // Where instructions have a field of their own, only users and the model speak in messages.
        let block = json!({"type": "text", "text": text});
        let last = messages.last_mut().filter(|last| last.get("role") == Some(&json!("user")));
        match last.and_then(|last| last.get_mut("content")) {
            Some(Value::Array(blocks)) => blocks.push(block),
            Some(content @ Value::String(_)) => {
                let own = json!({"type": "text", "text": content.take()});
                *content = Value::Array(vec![own, block]);
            }
            _ => messages.push(json!({"role": "user", "content": [block]})),
        }
        return;
    }
    let message = json!({"role": "developer", "content": text});
    match body.get_mut("input") {
        Some(Value::Array(items)) => items.push(message),
        Some(input @ Value::String(_)) => {
            let own = json!({"role": "user", "content": input.take()});
            *input = Value::Array(vec![own, message]);
        }
        _ => {}
    }
}

/// Measures over requests how much of each had been the start of an earlier one, with an endless cache.
#[derive(Debug, Clone, Default)]
pub struct Reuse {
    seen: std::collections::HashSet<u64>,
    /// Tokens of all prompts, by the length of their text.
    pub prompt: u64,
    /// Tokens that an earlier prompt began with as well.
    pub reused: u64,
}

impl Reuse {
    /// Takes the next request.
    pub fn add(&mut self, doc: &PromptDoc) {
        let text = doc.canonical().text;
        let mut chain = DefaultHasher::new();
        doc.model.hash(&mut chain);
        let mut shared = true;
        let mut bytes = 0;
        for piece in text.as_bytes().chunks_exact(PIECE) {
            piece.hash(&mut chain);
            shared &= !self.seen.insert(chain.finish());
            if shared {
                bytes += piece.len() as u64;
            }
        }
        self.prompt += text.len() as u64 / BYTES_A_TOKEN;
        self.reused += bytes / BYTES_A_TOKEN;
    }
}

#[cfg(test)]
#[path = "suggest/tests.rs"]
mod tests;
