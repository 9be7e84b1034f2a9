//! The calls in a file: JSON lines, one JSON document, an array of requests, agents' trajectories. What it is shows in
//! its content.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::str::FromStr;

use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::Value;

use crate::lines::{Broken, Lines};
use crate::prompt::{PromptDoc, PromptError};

/// The form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A JSON object on every line.
    Lines,
    /// One request, or an array of requests or of log entries.
    Json,
    /// An array of trajectories (`traj`, as in tau-bench), each message of the assistant an answer to what is before
    /// it.
    Trajectories,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::Lines, Self::Json, Self::Trajectories];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Json => "json",
            Self::Trajectories => "trajectories",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|form| form.as_str() == name)
            .ok_or_else(|| format!("'{name}' is none of lines, json, trajectories"))
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The reader failed.
    #[error("failed to read")]
    Io(#[from] io::Error),
    /// It is no JSON.
    #[error("not JSON")]
    Json(#[source] serde_json::Error),
}

/// What was there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Lines or elements that hold no request, and why.
    pub broken: Broken,
    /// Calls that were handed on.
    pub calls: u64,
    /// Whether the entries are elements of an array, not lines.
    pub elements: bool,
}

/// How much of a file is looked at to see what it is.
const PEEK: usize = 1 << 16;

/// Reads the calls of a file one by one and hands each on with its place: `line 3`, `element 2, message 5`.
///
/// # Errors
/// [`ReadError`] where the file can't be read, or is one document that is no JSON. Lines and elements that can't be
/// used are counted in [`Scanned::broken`].
pub fn read(
    reader: impl BufRead,
    form: Option<Form>,
    sink: &mut dyn FnMut(PromptDoc, String),
) -> Result<Scanned, ReadError> {
    let mut head = Vec::new();
    let mut reader = reader;
    reader.by_ref().take(PEEK as u64).read_to_end(&mut head)?;
    let form = form.unwrap_or_else(|| guess(&head));
    let mut reader = io::BufReader::with_capacity(1 << 18, head.as_slice().chain(reader));
    if reader.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        reader.consume(3);
    }
    match form {
        Form::Lines => lines(reader, sink),
        Form::Json | Form::Trajectories => document(reader, sink),
    }
}

/// What a file is, from its start: lines, where the first line is a whole value and another follows.
fn guess(head: &[u8]) -> Form {
    let start = head.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
    let head = &head[start..];
    let Some(end) = head.iter().position(|byte| *byte == b'\n') else {
        // One line, or lines too long to see the end of: an array is read as one.
        return if head.first() == Some(&b'[') { Form::Json } else { Form::Lines };
    };
    let first = &head[..end];
    match serde_json::from_slice::<serde::de::IgnoredAny>(first) {
        Ok(_)
            if first.first() == Some(&b'[') && head[end..].iter().all(u8::is_ascii_whitespace) =>
        {
            Form::Json
        }
        Ok(_) => Form::Lines,
        // A broken first line of a log still looks like an object that ends on its line.
        Err(_) if first.starts_with(b"{") && first.trim_ascii_end().ends_with(b"}") => Form::Lines,
        Err(_) if matches!(first.first(), Some(b'{' | b'[')) => Form::Json,
        Err(_) => Form::Lines,
    }
}

fn lines(
    reader: impl BufRead,
    sink: &mut dyn FnMut(PromptDoc, String),
) -> Result<Scanned, ReadError> {
    let mut lines = Lines::new(reader);
    let mut calls = 0;
    while let Some(value) = lines.next_json::<Value>()? {
        let number = lines.number();
        match entry(&value, &format!("line {number}"), sink) {
            Ok(found) => calls += found,
            Err(error) => lines.broken.add(number, error.to_string()),
        }
    }
    Ok(Scanned { broken: lines.broken, calls, elements: false })
}

/// One document; the elements of an array are read one at a time.
fn document(
    reader: impl Read,
    sink: &mut dyn FnMut(PromptDoc, String),
) -> Result<Scanned, ReadError> {
    let mut scanned = Scanned { elements: true, ..Scanned::default() };
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let each = Each { scanned: &mut scanned, sink };
    deserializer.deserialize_any(each).map_err(|error| match error.io_error_kind() {
        Some(kind) => ReadError::Io(io::Error::new(kind, error)),
        None => ReadError::Json(error),
    })?;
    Ok(scanned)
}

struct Each<'a> {
    scanned: &'a mut Scanned,
    sink: &'a mut dyn FnMut(PromptDoc, String),
}

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request or an array of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut number = 0;
        // An array of messages is one request.
        let mut messages: Vec<Value> = Vec::new();
        while let Some(item) = items.next_element::<Value>()? {
            number += 1;
            let message = item.get("role").is_some_and(Value::is_string);
            if message && messages.len() + 1 == number {
                messages.push(item);
                continue;
            }
            match entry(&item, &format!("element {number}"), self.sink) {
                Ok(calls) => self.scanned.calls += calls,
                Err(error) => self.scanned.broken.add(number as u64, error.to_string()),
            }
        }
        if !messages.is_empty() {
            match PromptDoc::from_value(&Value::Array(messages)) {
                Ok(doc) => {
                    self.scanned.calls += 1;
                    (self.sink)(doc, "the whole file".to_owned());
                }
                Err(error) => self.scanned.broken.add(1, error.to_string()),
            }
        }
        Ok(())
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let value =
            serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        match entry(&value, "the whole file", self.sink) {
            Ok(calls) => self.scanned.calls += calls,
            Err(error) => self.scanned.broken.add(1, error.to_string()),
        }
        Ok(())
    }
}

/// The calls of one entry.
fn entry(
    value: &Value,
    at: &str,
    sink: &mut dyn FnMut(PromptDoc, String),
) -> Result<u64, PromptError> {
    let doc = PromptDoc::from_value(value)?;
    if value.get("traj").is_none_or(|traj| !traj.is_array()) {
        sink(doc, at.to_owned());
        return Ok(1);
    }
    // Tau-bench: what the assistant says at a place answers the messages before it.
    let name = |field: &str| value.get(field).map(Value::to_string);
    let conversation = match (name("task_id"), name("trial")) {
        (Some(task), Some(trial)) => format!("task {task}, trial {trial}"),
        (Some(task), None) => format!("task {task}"),
        _ => at.to_owned(),
    };
    let mut calls = 0;
    for (turn, _) in doc
        .turns
        .iter()
        .enumerate()
        .filter(|(turn, found)| *turn > 0 && found.speaker == crate::prompt::Speaker::Assistant)
    {
        let mut prefix = doc.clone();
        prefix.turns.truncate(turn);
        prefix.parts.retain(|part| part.turn.is_none_or(|of| of < turn));
        prefix.conversation = Some(conversation.clone());
        sink(prefix, format!("{at}, message {}", turn + 1));
        calls += 1;
    }
    Ok(calls)
}
