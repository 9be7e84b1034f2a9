//! Puts a document together.

use serde_json::{Map, Value};

use super::{Dialect, Kind, Marker, Part, PromptDoc, Speaker, Turn};

/// A document that grows part by part.
pub(super) struct Builder {
    pub(super) doc: PromptDoc,
    turn: Option<usize>,
}

impl Builder {
    pub(super) fn new(dialect: Dialect) -> Self {
        Builder { doc: PromptDoc::empty(dialect), turn: None }
    }

    /// Begins a turn; the parts that follow belong to it.
    pub(super) fn begin_turn(&mut self, path: &str, speaker: Speaker) {
        self.turn = Some(self.doc.turns.len());
        self.doc.turns.push(Turn { path: path.to_owned(), speaker });
    }

    /// Who speaks now.
    pub(super) fn speaker(&self) -> Option<Speaker> {
        self.doc.turns.get(self.turn?).map(|turn| turn.speaker)
    }

    pub(super) fn push(&mut self, part: Part) {
        self.doc.parts.push(Part { turn: self.turn, ..part });
    }

    pub(super) fn text(&mut self, kind: Kind, path: String, text: &str) {
        self.push(Part::new(kind, path, text));
    }

    pub(super) fn json(&mut self, kind: Kind, path: String, value: Value) {
        self.push(Part::json(kind, path, value));
    }

    /// The part that was added last, to name it.
    pub(super) fn last(&mut self) -> Option<&mut Part> {
        self.doc.parts.last_mut()
    }

    /// Notes the marker of a block whose parts were just added.
    pub(super) fn marker(&mut self, block: &Map<String, Value>, path: &str) {
        let Some(part) = self.doc.parts.len().checked_sub(1) else { return };
        for field in ["cache_control", "prompt_cache_breakpoint", "cachePoint"] {
            let Some(marker) = block.get(field).filter(|marker| !marker.is_null()) else {
                continue;
            };
            let ttl = marker.get("ttl").and_then(Value::as_str).map(str::to_owned);
            self.doc.markers.push(Marker { path: format!("{path}.{field}"), part, ttl });
        }
    }

    pub(super) fn finish(self) -> PromptDoc {
        self.doc
    }
}

/// An object without the fields that are for the cache alone: those never reach a model.
pub(super) fn without_markers(object: &Map<String, Value>) -> Value {
    let kept = object
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "cache_control" | "prompt_cache_breakpoint"))
        .map(|(key, value)| (key.clone(), value.clone()));
    Value::Object(kept.collect())
}

/// Who speaks, from a role's name.
pub(super) fn speaker(role: Option<&str>) -> Speaker {
    match role {
        Some("system" | "developer") => Speaker::System,
        Some("user" | "human") => Speaker::User,
        Some("assistant" | "model" | "ai") => Speaker::Assistant,
        Some("tool" | "function" | "ipython") => Speaker::Tool,
        _ => Speaker::Other,
    }
}
