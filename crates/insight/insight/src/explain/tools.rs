//! Tools: added, removed, reordered, written otherwise, edited.

use std::collections::HashSet;

use tapri_ledger::{MissReason, Place};

use super::classify::Verdict;
use super::difference::{Difference, What};
use super::pages::same_members;
use super::{values, volatile};
use crate::prompt::{Kind, Part, PromptDoc};

/// The reason of a difference among the tools.
pub(super) fn classify(old: &PromptDoc, new: &PromptDoc, difference: &Difference<'_>) -> Verdict {
    let (before, after) = (tools(old), tools(new));
    let texts = |tools: &[&Part]| tools.iter().map(|tool| tool.text.clone()).collect::<Vec<_>>();
    let names = |tools: &[&Part]| tools.iter().map(|tool| name(tool)).collect::<Vec<_>>();
    let (old_names, new_names) = (names(&before), names(&after));
    if before.len() > 1 && same_members(&texts(&before), &texts(&after)) {
        return reordered(&old_names, &new_names, difference);
    }
    let here = |part: &Part| Place { path: part.path.clone(), character: None, page: None };
    let (was, is) = (name(difference.old), name(difference.new));
    match (difference.old.kind == Kind::Tool, difference.new.kind == Kind::Tool) {
        (true, false) => {
            return Verdict::of(MissReason::ToolRemoved)
                .at(here(difference.old))
                .values(Some(was), None);
        }
        (false, true) => {
            return Verdict::of(MissReason::ToolAdded)
                .at(here(difference.new))
                .values(None, Some(is));
        }
        _ => {}
    }
    if was != is {
        let (a, b): (HashSet<&str>, HashSet<&str>) = (
            old_names.iter().map(String::as_str).collect(),
            new_names.iter().map(String::as_str).collect(),
        );
        return match (b.contains(was.as_str()), a.contains(is.as_str())) {
            (true, false) => {
                Verdict::of(MissReason::ToolAdded).at(here(difference.new)).values(None, Some(is))
            }
            (false, true) => Verdict::of(MissReason::ToolRemoved)
                .at(here(difference.old))
                .values(Some(was), None),
            (true, true) => reordered(&old_names, &new_names, difference),
            (false, false) => {
                let reason = match before.len().cmp(&after.len()) {
                    std::cmp::Ordering::Less => MissReason::ToolAdded,
                    std::cmp::Ordering::Greater => MissReason::ToolRemoved,
                    std::cmp::Ordering::Equal => MissReason::ToolEdited,
                };
                Verdict::of(reason).at(here(difference.new)).values(Some(was), Some(is))
            }
        };
    }
    edited(difference)
}

fn edited(difference: &Difference<'_>) -> Verdict {
    let same = match (&difference.old.value, &difference.new.value) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    };
    if same {
        return Verdict::of(MissReason::ToolReserialised).structure(difference);
    }
    let What::Text { old, new, at } = &difference.what else {
        return Verdict::of(MissReason::ToolEdited).structure(difference);
    };
    if super::embedded::same_value(old, new, *at).is_some() {
        let (a, b) = values::words(old, new, *at);
        return Verdict::of(MissReason::ToolReserialised)
            .values(Some(old[a].to_owned()), Some(new[b].to_owned()));
    }
    if let Some(found) = volatile::recognise(old, new, *at) {
        return Verdict::volatile(found, old, new);
    }
    let (a, b) = values::words(old, new, *at);
    Verdict::of(MissReason::ToolEdited).values(Some(old[a].to_owned()), Some(new[b].to_owned()))
}

fn reordered(old: &[String], new: &[String], difference: &Difference<'_>) -> Verdict {
    Verdict::of(MissReason::ToolsReordered)
        .at(Place { path: difference.new.path.clone(), character: None, page: None })
        .values(Some(old.join(", ")), Some(new.join(", ")))
}

fn tools(doc: &PromptDoc) -> Vec<&Part> {
    doc.parts.iter().filter(|part| part.kind == Kind::Tool).collect()
}

fn name(part: &Part) -> String {
    part.name.clone().unwrap_or_else(|| part.path.clone())
}
