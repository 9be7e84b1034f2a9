//! Two prompts side by side: where they part, and what an order that reuses more would look like.
//!
//! A prompt is a request of any API that [`PromptDoc`] reads, or plain text.
//!
//! ```
//! use tapri_insight::compare::{Comparison, Form, Prompt};
//!
//! let old = Prompt::read("It is 10:41. Who signed the lease?", Form::Detect)?;
//! let new = Prompt::read("It is 10:42. Who signed the lease?", Form::Detect)?;
//! let compared = Comparison::of(&old, &new, None);
//! assert_eq!(compared.old[0].changed, "1");
//! assert_eq!(compared.new[0].changed, "2");
//! # Ok::<(), tapri_insight::compare::ReadError>(())
//! ```

use serde_json::Value;

use crate::explain::{Evidence, Found, common, common_end, explain};
use crate::lint::suggest::{Changing, Reuse};
use crate::lint::{Finding, Linter};
use crate::prompt::{Dialect, Kind, Part, PromptDoc, PromptError};
use crate::rules::Rules;

/// How a text is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// As a request where it begins like JSON, as plain text where not.
    #[default]
    Detect,
    /// As plain text, whatever it looks like.
    Text,
}

/// A prompt to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// As a model reads it.
    pub doc: PromptDoc,
    /// The request, where it is one.
    pub request: Option<Value>,
}

/// Why a text is no prompt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It begins like JSON.
    #[error("it begins like JSON and is none: {0}")]
    Json(#[source] serde_json::Error),
    /// It is JSON.
    #[error("it is JSON, but no request of an API")]
    NoRequest(#[source] PromptError),
}

impl Prompt {
    /// Reads a text.
    ///
    /// # Errors
    /// [`ReadError`] where it is empty, or begins like a request and is none.
    pub fn read(text: &str, form: Form) -> Result<Self, ReadError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(ReadError::Empty);
        }
        if form == Form::Text || !trimmed.starts_with(['{', '[']) {
            let part = Part::new(Kind::Text, "text", trimmed);
            let doc = PromptDoc::from_parts(None, vec![part], Vec::new());
            return Ok(Prompt { doc: PromptDoc { dialect: Dialect::Text, ..doc }, request: None });
        }
        let request: Value = serde_json::from_str(trimmed).map_err(ReadError::Json)?;
        let doc = PromptDoc::from_value(&request).map_err(ReadError::NoRequest)?;
        Ok(Prompt { doc, request: Some(request) })
    }
}

/// Where a part stands against the other prompt's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It is the same in both, and so is all before it.
    Same,
    /// The first difference is in it.
    Differs,
    /// It comes behind the first difference.
    Behind,
}

/// A part of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidePart {
    /// Its path in the request.
    pub path: String,
    /// Where it stands.
    pub standing: Standing,
    /// Text that both have.
    pub before: String,
    /// What differs, up to where both are the same again; empty where the other side has more.
    pub changed: String,
    /// The rest of the part.
    pub after: String,
}

/// What came of comparing two prompts.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Why the second could not reuse all of the first, and where.
    pub found: Found,
    /// The first prompt's parts.
    pub old: Vec<SidePart>,
    /// The second prompt's parts.
    pub new: Vec<SidePart>,
    /// What in either will break a cache.
    pub findings: Vec<Finding>,
    /// A better order of the second prompt, where there is one.
    pub better: Option<Better>,
}

/// A better order of a request: the same text, what stays the same first.
#[derive(Debug, Clone, PartialEq)]
pub struct Better {
    /// The request in it.
    pub request: Value,
    /// Lines that now stand in the last message.
    pub lines: u64,
    /// Whether tools were put in order.
    pub tools: bool,
    /// Tokens of the second prompt that the first would have left for it as they are, and in the better order: estimates.
    pub reused: (u64, u64),
}

impl Comparison {
    /// Compares a prompt with an earlier one. With the token ids of both, shared tokens are counted, else estimated.
    #[must_use]
    pub fn of(old: &Prompt, new: &Prompt, tokens: Option<(&[u32], &[u32])>) -> Self {
        let rules = Rules::bundled().ok();
        let mut evidence = Evidence { rules: rules.as_ref(), ..Evidence::default() };
        if let Some((before, after)) = tokens {
            evidence = evidence.with_tokens(before, after);
        }
        let mut linter = Linter::new(rules.as_ref());
        linter.add(old.doc.clone(), "first");
        linter.add(new.doc.clone(), "second");
        let at = first_difference(&old.doc, &new.doc);
        Comparison {
            found: explain(&old.doc, &new.doc, &evidence),
            old: side(&old.doc, &new.doc, at),
            new: side(&new.doc, &old.doc, at),
            findings: linter.finish(),
            better: better(old, new),
        }
    }
}

/// The first part that differs.
fn first_difference(old: &PromptDoc, new: &PromptDoc) -> usize {
    let same = |(a, b): &(&Part, &Part)| a.kind == b.kind && a.text == b.text;
    old.parts.iter().zip(&new.parts).take_while(same).count()
}

fn side(mine: &PromptDoc, theirs: &PromptDoc, at: usize) -> Vec<SidePart> {
    let parts = mine.parts.iter().enumerate();
    parts
        .map(|(n, part)| {
            let whole = |standing, before: &str, after: &str| SidePart {
                path: part.path.clone(),
                standing,
                before: before.to_owned(),
                changed: String::new(),
                after: after.to_owned(),
            };
            match n.cmp(&at) {
                std::cmp::Ordering::Less => whole(Standing::Same, &part.text, ""),
                std::cmp::Ordering::Greater => whole(Standing::Behind, "", &part.text),
                std::cmp::Ordering::Equal => {
                    let other = theirs.parts.get(at).map_or("", |part| &part.text);
                    let (before, changed, after) = parted(&part.text, other);
                    SidePart {
                        path: part.path.clone(),
                        standing: Standing::Differs,
                        before: before.to_owned(),
                        changed: changed.to_owned(),
                        after: after.to_owned(),
                    }
                }
            }
        })
        .collect()
}

/// A text in three: what the other begins with as well, what differs, and what the other ends with as well.
fn parted<'a>(mine: &'a str, other: &str) -> (&'a str, &'a str, &'a str) {
    let (before, rest) = mine.split_at(common(mine, other));
    let end = common_end(rest, &other[before.len()..]);
    let (changed, after) = rest.split_at(rest.len() - end);
    (before, changed, after)
}

fn better(old: &Prompt, new: &Prompt) -> Option<Better> {
    let (before, after) = (old.request.as_ref()?, new.request.as_ref()?);
    let mut changing = Changing::default();
    changing.see(before);
    changing.see(after);
    let reordered = |request: &Value| {
        let mut request = request.clone();
        let moved = changing.reorder(&mut request);
        (request, moved)
    };
    let (first, _) = reordered(before);
    let (request, moved) = reordered(after);
    if moved.nothing() {
        return None;
    }
    let reused = |first: &PromptDoc, second: &PromptDoc| {
        let mut reuse = Reuse::default();
        reuse.add(first);
        let alone = reuse.reused;
        reuse.add(second);
        reuse.reused - alone
    };
    let (first, second) =
        (PromptDoc::from_value(&first).ok()?, PromptDoc::from_value(&request).ok()?);
    let reused = (reused(&old.doc, &new.doc), reused(&first, &second));
    Some(Better { request, lines: moved.lines, tools: moved.tools, reused })
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tapri_ledger::MissReason;

    use super::*;

    fn request(system: &str, question: &str) -> Prompt {
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": system}, {"role": "user", "content": question},
        ]});
        Prompt::read(&body.to_string(), Form::Detect).unwrap()
    }

    #[test]
    fn a_time_at_the_top_is_marked_and_moved() {
        let system = |time: &str| format!("It is {time}.\n{}", "Answer from the file. ".repeat(40));
        let (old, new) =
            (request(&system("10:41:55"), "Who?"), request(&system("10:42:07"), "Who?"));
        let compared = Comparison::of(&old, &new, None);
        assert_eq!(compared.found.reason, MissReason::Time);
        let standings: Vec<_> = compared.new.iter().map(|part| part.standing).collect();
        assert_eq!(standings, [Standing::Differs, Standing::Behind]);
        assert_eq!((&*compared.new[0].before, &*compared.new[0].changed), ("It is 10:4", "2:07"));
        let better = compared.better.unwrap();
        assert_eq!((better.lines, better.tools), (1, false));
        assert!(better.reused.1 > better.reused.0 + 100, "{:?}", better.reused);
        assert!(!compared.findings.is_empty());
    }

    #[test]
    fn a_new_question_behind_the_same_start_has_nothing_to_move() {
        let compared =
            Comparison::of(&request("Rules.", "Who?"), &request("Rules.", "When?"), None);
        let standings: Vec<_> = compared.old.iter().map(|part| part.standing).collect();
        assert_eq!(standings, [Standing::Same, Standing::Differs]);
        assert_eq!(compared.better, None);
        let same = Comparison::of(&request("Rules.", "Who?"), &request("Rules.", "Who?"), None);
        assert!(same.new.iter().all(|part| part.standing == Standing::Same));
    }

    #[test]
    fn what_is_no_prompt_is_said() {
        let read = |text| Prompt::read(text, Form::Detect);
        assert!(matches!(read(" \n"), Err(ReadError::Empty)));
        assert!(matches!(read("{\"messages\": ["), Err(ReadError::Json(_))));
        assert!(matches!(read("{\"x\": 1}"), Err(ReadError::NoRequest(_))));
        let text = Prompt::read("{\"x\": 1}", Form::Text).unwrap();
        assert_eq!((text.doc.dialect, text.request), (Dialect::Text, None));
    }

    proptest! {
        #[test]
        fn three_pieces_are_the_text(mine in ".{0,40}", other in ".{0,40}") {
            let (before, changed, after) = parted(&mine, &other);
            prop_assert_eq!(format!("{before}{changed}{after}"), mine.clone());
            prop_assert!(other.starts_with(before) && other.ends_with(after));
            prop_assert!(before.len() + after.len() <= other.len());
            let same = parted(&mine, &mine);
            prop_assert_eq!(same, (mine.as_str(), "", ""));
        }
    }
}
