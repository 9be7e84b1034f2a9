//! Two prompts compared by the fingerprints of their parts alone: what is left of a prompt in the ledger after a restart.
//!
//! It finds the first part that differs and what happened to it as a whole (edited, moved, dropped), but no
//! character, and no value.

use tapri_ledger::{CallRecord, MissReason, PartKind, PartPrint, Place};

/// Where two lists of parts first differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartDifference {
    /// What happened.
    pub reason: MissReason,
    /// The part of the new prompt; the end of the prompt where it has no such part.
    pub place: Option<Place>,
    /// Characters of the parts before it.
    pub shared_chars: u64,
}

/// Characters in the parts that two prompts share from the start.
#[must_use]
pub fn shared_chars(old: &[PartPrint], new: &[PartPrint]) -> u64 {
    new[..common(old, new)].iter().map(|part| part.chars).sum()
}

/// The record whose prompt is nearest to these parts, the first of equally near ones; `None` where none shares a part.
pub fn nearest<'a>(
    records: impl IntoIterator<Item = &'a CallRecord>,
    parts: &[PartPrint],
) -> Option<&'a CallRecord> {
    let mut best: Option<(&CallRecord, u64)> = None;
    for record in records {
        let shared = shared_chars(&record.parts, parts);
        if shared > best.map_or(0, |(_, most)| most) {
            best = Some((record, shared));
        }
    }
    best.map(|(record, _)| record)
}

/// What a new prompt changed, against an old one.
#[must_use]
pub fn compare(old: &[PartPrint], new: &[PartPrint]) -> PartDifference {
    let at = common(old, new);
    let shared_chars = new[..at].iter().map(|part| part.chars).sum();
    let (old_rest, new_rest) = (&old[at..], &new[at..]);
    let reason = reason(old_rest, new_rest);
    let place = new_rest.first().map(|part| Place {
        path: part.path.clone(),
        character: None,
        page: (part.kind == PartKind::Page).then(|| pages(&new[..at]) + 1),
    });
    PartDifference { reason, place, shared_chars }
}

fn common(old: &[PartPrint], new: &[PartPrint]) -> usize {
    old.iter().zip(new).take_while(|(a, b)| same(a, b)).count()
}

/// The same text in the same role, wherever it stands.
fn same(a: &PartPrint, b: &PartPrint) -> bool {
    (a.kind, a.chars, a.print) == (b.kind, b.chars, b.print)
}

fn pages(parts: &[PartPrint]) -> u64 {
    parts.iter().filter(|part| part.kind == PartKind::Page).count() as u64
}

fn reason(old: &[PartPrint], new: &[PartPrint]) -> MissReason {
    let (Some(was), Some(is)) = (old.first(), new.first()) else {
        // One of them is the start of the other: what they share is all there is to share.
        return MissReason::Growth;
    };
    let of = |parts: &[PartPrint], kind| -> Vec<PartPrint> {
        parts.iter().filter(|part| part.kind == kind).cloned().collect()
    };
    if was.kind == PartKind::Tools || is.kind == PartKind::Tools {
        let (was, is) = (of(old, PartKind::Tools), of(new, PartKind::Tools));
        return match (holds(&is, &was), holds(&was, &is)) {
            (true, true) => MissReason::ToolsReordered,
            (true, false) => MissReason::ToolAdded,
            (false, true) => MissReason::ToolRemoved,
            (false, false) => MissReason::ToolEdited,
        };
    }
    if was.kind == PartKind::System || is.kind == PartKind::System {
        return MissReason::InstructionsEdited;
    }
    if was.kind == PartKind::Page || is.kind == PartKind::Page {
        let (was, is) = (of(old, PartKind::Page), of(new, PartKind::Page));
        return if holds(&is, &was) && holds(&was, &is) {
            MissReason::PagesReordered
        } else {
            MissReason::FileChanged
        };
    }
    if new.len() == 1 {
        return MissReason::LastMessage;
    }
    // What is left of the old prompt, without its first few messages, stands in the new one as it was.
    let goes_on_after = |dropped: usize, instead: usize| {
        old.len() > dropped
            && new.len() > instead
            && old[dropped..].iter().zip(&new[instead..]).all(|(a, b)| same(a, b))
    };
    if (1..old.len()).any(|dropped| goes_on_after(dropped, 0)) {
        MissReason::TurnsShortened
    } else if (2..old.len()).any(|dropped| goes_on_after(dropped, 1)) {
        MissReason::TurnsSummarised
    } else {
        MissReason::TurnEdited
    }
}

/// Whether every part of `few` is in `many`, as often.
fn holds(many: &[PartPrint], few: &[PartPrint]) -> bool {
    let count = |parts: &[PartPrint], part: &PartPrint| {
        parts.iter().filter(|other| same(other, part)).count()
    };
    few.iter().all(|part| count(many, part) >= count(few, part))
}

#[cfg(test)]
mod tests {
    use MissReason as R;

    use super::*;

    /// Parts from words: `t:` a tool, `s:` the instructions, `p:` a page, the rest messages.
    fn parts(words: &str) -> Vec<PartPrint> {
        words
            .split_whitespace()
            .enumerate()
            .map(|(at, word)| {
                let kind = match word.split_once(':') {
                    Some(("t", _)) => PartKind::Tools,
                    Some(("s", _)) => PartKind::System,
                    Some(("p", _)) => PartKind::Page,
                    _ => PartKind::Message,
                };
                let print = word
                    .bytes()
                    .fold(7, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
                PartPrint { kind, path: format!("part[{at}]"), chars: word.len() as u64, print }
            })
            .collect()
    }

    #[test]
    fn what_happened_to_the_parts() {
        for (old, new, reason, at) in [
            ("s:a m1", "s:a m1 m2", R::Growth, Some(2)),
            ("s:a m1 m2", "s:a m1", R::Growth, None),
            ("s:a m1", "s:a m2", R::LastMessage, Some(1)),
            ("t:a t:b s:a", "t:b t:a s:a", R::ToolsReordered, Some(0)),
            ("t:a s:a", "t:a t:b s:a", R::ToolAdded, Some(1)),
            ("t:a t:b s:a", "t:b s:a", R::ToolRemoved, Some(0)),
            ("t:a t:b s:a", "t:a t:c s:a", R::ToolEdited, Some(1)),
            ("s:a m1", "s:b m1", R::InstructionsEdited, Some(0)),
            ("s:a p:1 p:2 m1", "s:a p:2 p:1 m1", R::PagesReordered, Some(1)),
            ("s:a p:1 p:2 m1", "s:a p:1 p:3 m1", R::FileChanged, Some(2)),
            ("s:a m1 m2 m3 m4", "s:a m3 m4 m5", R::TurnsShortened, Some(1)),
            ("s:a m1 m2 m3 m4", "s:a sum m4 m5", R::TurnsSummarised, Some(1)),
            ("s:a m1 m2 m3", "s:a m1 mX m3", R::TurnEdited, Some(2)),
        ] {
            let found = compare(&parts(old), &parts(new));
            let path = at.map(|at| format!("part[{at}]"));
            assert_eq!(
                (found.reason, found.place.map(|place| place.path)),
                (reason, path),
                "{old} -> {new}"
            );
        }
        let page = compare(&parts("s:a p:1 p:2"), &parts("s:a p:1 p:9"))
            .place
            .and_then(|place| place.page);
        assert_eq!(page, Some(2));
    }
}
