//! One text for a whole document, and the way back from a place in it to a place in the request.

use super::{Part, PromptDoc, Speaker};

/// A document as one text: every part behind a line that says who speaks. It is Tapri's own form, for documents whose
/// model isn't known; a model's own template gives another text with the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    /// The text.
    pub text: String,
    /// Where each part begins: byte of the text, index of the part.
    starts: Vec<(usize, usize)>,
}

/// A place in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The index of the part.
    pub part: usize,
    /// Its path.
    pub path: String,
    /// The character of the string at that path.
    pub character: u64,
}

impl PromptDoc {
    /// Its canonical text.
    #[must_use]
    pub fn canonical(&self) -> Canonical {
        let mut text = String::new();
        let mut starts = Vec::with_capacity(self.parts.len());
        let mut turn = None;
        for (index, part) in self.parts.iter().enumerate() {
            let head = part.offset == 0 && (index == 0 || part.turn != turn || part.turn.is_none());
            if head {
                text.push_str(heading(self, part));
            } else if part.offset == 0 {
                text.push('\n');
            }
            turn = part.turn;
            starts.push((text.len(), index));
            text.push_str(&part.text);
        }
        Canonical { text, starts }
    }
}

impl Canonical {
    /// The place in the request of a byte of the text; a byte between two parts belongs to the second. `None` behind
    /// the last part's end, and where there are no parts.
    #[must_use]
    pub fn spot(&self, doc: &PromptDoc, byte: usize) -> Option<Spot> {
        let at = self.starts.partition_point(|(start, _)| *start <= byte);
        let inside = at.checked_sub(1).map(|before| self.starts[before]);
        let (start, part) = match inside {
            Some((start, part)) if byte < start + doc.parts.get(part)?.text.len() => (start, part),
            _ => *self.starts.get(at)?,
        };
        let found: &Part = doc.parts.get(part)?;
        let within = byte.saturating_sub(start);
        let character = found.text.char_indices().take_while(|(at, _)| *at < within).count();
        Some(Spot { part, path: found.path.clone(), character: found.offset + character as u64 })
    }
}

fn heading(doc: &PromptDoc, part: &Part) -> &'static str {
    match doc.turn_of(part).map(|turn| turn.speaker) {
        None => "\n",
        Some(Speaker::System) => "\n<|system|>\n",
        Some(Speaker::User) => "\n<|user|>\n",
        Some(Speaker::Assistant) => "\n<|assistant|>\n",
        Some(Speaker::Tool) => "\n<|tool|>\n",
        Some(Speaker::Other) => "\n<|other|>\n",
    }
}
