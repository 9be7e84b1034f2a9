//! What kind of difference it is. What stands first in the prompt decides.

use std::borrow::Cow;

use tapri_ledger::{MissReason, Place};

use super::difference::{Difference, What};
use super::pages::{Pages, same_members};
use super::{embedded, pages, tools, turns, values, volatile};
use crate::prompt::{Kind, Part, PromptDoc, Speaker};

/// A tail of a message that is shorter than this is no loss: a question's end behind what changed in it.
pub(super) const SMALL_LOSS: u64 = 256;

/// Two prompts that share less than this, and nothing behind it, have nothing to do with each other.
const NOTHING_SHARED: u64 = 64;

/// A reason with what is shown for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) reason: MissReason,
    /// Where, if it is another place than the first differing character's.
    pub(super) place: Option<Place>,
    pub(super) page: Option<u64>,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    /// What it looks like, or what became of it: never with a value of the prompt.
    pub(super) looks_like: Option<Cow<'static, str>>,
}

impl Verdict {
    pub(super) fn of(reason: MissReason) -> Self {
        Verdict { reason, place: None, page: None, old: None, new: None, looks_like: None }
    }

    pub(super) fn at(self, place: Place) -> Self {
        Verdict { place: Some(place), ..self }
    }

    pub(super) fn values(self, old: Option<String>, new: Option<String>) -> Self {
        Verdict { old, new, ..self }
    }

    pub(super) fn volatile(found: volatile::Volatile, old: &str, new: &str) -> Self {
        Verdict {
            looks_like: Some(found.looks_like.into()),
            ..Self::of(found.reason)
                .values(Some(old[found.old].to_owned()), Some(new[found.new].to_owned()))
        }
    }

    /// With what became of it, in words.
    pub(super) fn noted(self, words: String) -> Self {
        Verdict { looks_like: Some(words.into()), ..self }
    }

    /// With what a structure or a text shows at the difference.
    pub(super) fn structure(self, difference: &Difference<'_>) -> Self {
        match &difference.what {
            What::Structure { old, new } => self.values(old.clone(), new.clone()),
            What::Text { old, new, at } => {
                let (a, b) = values::words(old, new, *at);
                self.values(Some(old[a].to_owned()), Some(new[b].to_owned()))
            }
            _ => self,
        }
    }
}

/// Names a difference between two prompts of one partition. `shared` and `lost` are characters.
pub(super) fn classify(
    old: &PromptDoc,
    new: &PromptDoc,
    difference: &Difference<'_>,
    shared: u64,
    lost: u64,
) -> Verdict {
    let kinds = (difference.old.kind, difference.new.kind);
    let either = |kind: Kind| kinds.0 == kind || kinds.1 == kind;
    if either(Kind::Tool) {
        return tools::classify(old, new, difference);
    }
    if either(Kind::Parameter) {
        return parameter(difference);
    }
    if let Some(verdict) = turns::moved(old, new, difference) {
        return verdict;
    }
    if either(Kind::Reasoning) {
        return reasoning(difference);
    }
    if turns::in_last(old, new, difference) && lost < SMALL_LOSS {
        let nothing = difference.part == 0 && shared < NOTHING_SHARED && old.turns.is_empty();
        let reason = if nothing { MissReason::NeverSeen } else { MissReason::LastMessage };
        return Verdict::of(reason).structure(difference);
    }
    if blocks_reordered(old, new, difference) {
        return Verdict::of(MissReason::PagesReordered);
    }
    if kinds.0 == Kind::Media && kinds.1 == Kind::Media {
        // A character of a digest is no place.
        let place = Place { character: None, ..difference.place.clone() };
        return Verdict::of(MissReason::ImageChanged).at(place).structure(difference);
    }
    match &difference.what {
        What::Text { old: before, new: after, at } => {
            text(difference, before, after, *at, shared, lost)
        }
        What::Structure { .. } => structure(difference),
        What::Speaker => {
            let name = |doc: &PromptDoc, part: &Part| {
                doc.turn_of(part).map(|turn| format!("{:?}", turn.speaker).to_lowercase())
            };
            Verdict::of(MissReason::TurnEdited)
                .values(name(old, difference.old), name(new, difference.new))
        }
        What::Parts => {
            let stays = |part: &Part, doc: &PromptDoc| {
                doc.parts.iter().any(|other| other.kind == part.kind && other.text == part.text)
            };
            let reason = match kinds {
                (Kind::Media, _) | (_, Kind::Media) => MissReason::ImageChanged,
                // One of them came or went in front of the other: the one that both prompts have stayed.
                (Kind::Document, Kind::System) if !stays(difference.new, old) => {
                    MissReason::InstructionsEdited
                }
                (Kind::System, Kind::Document) if !stays(difference.old, new) => {
                    MissReason::InstructionsEdited
                }
                (Kind::Document, _) | (_, Kind::Document) => MissReason::FileChanged,
                (Kind::System, _) | (_, Kind::System) => MissReason::InstructionsEdited,
                _ => MissReason::TurnEdited,
            };
            Verdict::of(reason)
        }
    }
}

fn parameter(difference: &Difference<'_>) -> Verdict {
    let same = match (&difference.old.value, &difference.new.value) {
        (Some(a), Some(b)) => difference.old.path == difference.new.path && a == b,
        _ => false,
    };
    if same {
        return Verdict::of(MissReason::KeysReordered).structure(difference);
    }
    let verdict = Verdict::of(MissReason::ParametersChanged);
    let here = |part: &Part| Place { path: part.path.clone(), character: None, page: None };
    let text = |part: &Part| Some(part.text.to_string());
    if difference.old.path == difference.new.path {
        return match difference.what {
            What::Parts => verdict.values(text(difference.old), text(difference.new)),
            What::Text { .. } if difference.new.value.is_none() => {
                verdict.at(here(difference.new)).values(text(difference.old), text(difference.new))
            }
            _ => verdict.structure(difference),
        };
    }
    if difference.old.kind == Kind::Parameter {
        verdict.at(here(difference.old)).values(text(difference.old), None)
    } else {
        verdict.at(here(difference.new)).values(None, text(difference.new))
    }
}

fn reasoning(difference: &Difference<'_>) -> Verdict {
    let dropped = difference.new.kind != Kind::Reasoning;
    if dropped {
        let place = Place {
            path: difference.old.path.clone(),
            character: Some(difference.old.offset),
            page: None,
        };
        return Verdict::of(MissReason::ReasoningDropped)
            .at(place)
            .values(Some(difference.old.text.to_string()), None);
    }
    if let What::Text { old, new, at } = &difference.what
        && difference.old.kind == Kind::Reasoning
    {
        let (a, b) = values::words(old, new, *at);
        let reason = if blank_change(old, new, *at) {
            MissReason::WhitespaceOnly
        } else {
            MissReason::ReasoningRewritten
        };
        return Verdict::of(reason).values(Some(old[a].to_owned()), Some(new[b].to_owned()));
    }
    Verdict::of(MissReason::ReasoningRewritten).values(None, Some(difference.new.text.to_string()))
}

fn structure(difference: &Difference<'_>) -> Verdict {
    let (part, other) = (difference.old, difference.new);
    let reason = match (&part.value, &other.value) {
        (Some(a), Some(b)) if a == b => MissReason::KeysReordered,
        _ if other.kind == Kind::Document => MissReason::FileChanged,
        _ if other.kind == Kind::System => MissReason::InstructionsEdited,
        _ => MissReason::TurnEdited,
    };
    Verdict::of(reason).structure(difference)
}

fn text(
    difference: &Difference<'_>,
    old: &str,
    new: &str,
    at: usize,
    shared: u64,
    lost: u64,
) -> Verdict {
    let part = difference.new;
    let both = || {
        let (a, b) = values::words(old, new, at);
        (Some(old[a].to_owned()), Some(new[b].to_owned()))
    };
    let with_words = |reason| {
        let (was, is) = both();
        Verdict::of(reason).values(was, is)
    };
    match embedded::same_value(old, new, at) {
        Some(MissReason::KeysReordered) => {
            // The key that stands there, in either.
            let key = |text: &str| {
                let run = volatile::Window::around(text, at)
                    .run(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
                Some(text[run].to_owned())
            };
            return Verdict::of(MissReason::KeysReordered).values(key(old), key(new));
        }
        Some(reason) => return with_words(reason),
        None => {}
    }
    // The rest of a value of a structure: the structure says whether only its order changed.
    if let (Some(a), Some(b)) = (&difference.old.value, &part.value)
        && a == b
    {
        return with_words(MissReason::KeysReordered);
    }
    if blank_change(old, new, at) {
        return with_words(MissReason::WhitespaceOnly);
    }
    let paged = Pages::of(new);
    if let (Some(before), Some(after)) = (Pages::of(old), &paged)
        && pages::reordered(&before, after)
    {
        return Verdict {
            page: after.at(at).map(|(page, _)| page),
            ..with_words(MissReason::PagesReordered)
        };
    }
    let page = paged.as_ref().and_then(|pages| pages.at(at)).map(|(page, _)| page);
    if let Some(found) = volatile::recognise(old, new, at) {
        return Verdict { page, ..Verdict::volatile(found, old, new) };
    }
    if page.is_some() || part.kind == Kind::Document {
        return Verdict { page, ..with_words(MissReason::FileChanged) };
    }
    if part.kind == Kind::Id {
        let verdict = with_words(MissReason::RequestId);
        return Verdict { looks_like: Some("the id of a tool call".into()), ..verdict };
    }
    if shared < NOTHING_SHARED && lost < SMALL_LOSS && difference.part == 0 {
        return with_words(MissReason::NeverSeen);
    }
    if part.kind == Kind::System {
        return with_words(MissReason::InstructionsEdited);
    }
    if turns::cut(old, new, at) {
        return with_words(MissReason::TurnsShortened);
    }
    with_words(MissReason::TurnEdited)
}

/// Whether the change at `at` is one of white space alone.
fn blank_change(old: &str, new: &str, at: usize) -> bool {
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    let bare = |text: &str| text.chars().all(char::is_whitespace);
    if same(&old[at..], &new[at..]) {
        return true;
    }
    let (a, b) = values::hunk(old, new, at);
    bare(&old[a]) && bare(&new[b])
}

/// Whether the blocks of one message, or of the instructions, came in another order.
fn blocks_reordered(old: &PromptDoc, new: &PromptDoc, difference: &Difference<'_>) -> bool {
    let blocks = |doc: &'_ PromptDoc, like: &Part| -> Vec<(Kind, std::sync::Arc<str>)> {
        doc.parts[difference.part..]
            .iter()
            .take_while(|part| {
                part.turn == like.turn && (part.turn.is_some() || part.kind == like.kind)
            })
            .map(|part| (part.kind, part.text.clone()))
            .collect()
    };
    if difference.old.turn != difference.new.turn {
        return false;
    }
    let (a, b) = (blocks(old, difference.old), blocks(new, difference.new));
    let assistant =
        new.turn_of(difference.new).is_some_and(|turn| turn.speaker == Speaker::Assistant);
    if a.len() < 2 || assistant || a == b {
        return false;
    }
    if same_members(&a, &b) {
        return true;
    }
    // A question behind the documents may differ too: the documents decide.
    let documents = |blocks: &[(Kind, std::sync::Arc<str>)]| -> Vec<std::sync::Arc<str>> {
        blocks
            .iter()
            .filter(|(kind, _)| *kind == Kind::Document)
            .map(|(_, text)| text.clone())
            .collect()
    };
    let (a, b) = (documents(&a), documents(&b));
    a.len() > 1 && a != b && same_members(&a, &b)
}
