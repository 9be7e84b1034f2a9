//! A conversation's earlier turns: dropped, cut, summarised.

use std::hash::{DefaultHasher, Hash, Hasher};

use tapri_ledger::{MissReason, Place};

use super::classify::Verdict;
use super::difference::Difference;
use crate::prompt::{Kind, PromptDoc, Speaker};

/// How many new messages may stand for those that were dropped: a summary, and an answer that takes note of it.
const STAND_INS: usize = 2;

/// The turn of a difference: where the old and the new prompt are at it.
pub(super) fn turns_at(difference: &Difference<'_>) -> (Option<usize>, Option<usize>) {
    (difference.old.turn, difference.new.turn)
}

/// Whether the turns behind a difference moved: dropped, summarised, or one put in. `None` where the turn was changed
/// in its place.
pub(super) fn moved(
    old: &PromptDoc,
    new: &PromptDoc,
    difference: &Difference<'_>,
) -> Option<Verdict> {
    let (before, after) = (Prints::of(old), Prints::of(new));
    // A part that only one side has can belong to the next turn already.
    let at = match turns_at(difference) {
        (Some(a), Some(b)) => a.min(b),
        _ => return None,
    };
    let (a, b) = (before.prints.get(at..)?, after.prints.get(at..)?);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let in_place = match (a.get(1), b.get(1)) {
        (Some(x), Some(y)) => x == y,
        _ => false,
    };
    if in_place || a[0] == b[0] {
        return None;
    }
    let place = turn_place(new, at, difference)?;
    // The new prompt goes on with the old one's turns after leaving some out.
    if let Some(dropped) = (1..a.len()).find(|dropped| follows(&a[*dropped..], b)) {
        let words = match dropped {
            1 => "1 message is gone".to_owned(),
            many => format!("{many} messages are gone"),
        };
        return Some(Verdict::of(MissReason::TurnsShortened).at(place).noted(words));
    }
    for stand_ins in 1..=STAND_INS.min(b.len().saturating_sub(1)) {
        let rest = &b[stand_ins..];
        if let Some(dropped) = (stand_ins + 1..a.len()).find(|n| follows(&a[*n..], rest)) {
            let length =
                |lengths: &[usize], count: usize| lengths[at..at + count].iter().sum::<usize>();
            let shorter = length(&after.lengths, stand_ins) < length(&before.lengths, dropped);
            if shorter {
                let words = format!("{dropped} messages became {stand_ins}");
                return Some(Verdict::of(MissReason::TurnsSummarised).at(place).noted(words));
            }
        }
        if follows(a, rest) {
            let words = match stand_ins {
                1 => "a message was put in".to_owned(),
                many => format!("{many} messages were put in"),
            };
            return Some(Verdict::of(MissReason::TurnEdited).at(place).noted(words));
        }
    }
    // Everything up to the last turn was replaced by something shorter, and the old tail is gone as well.
    None
}

/// The place of a turn: of a transcript within one text, the place of the difference.
fn turn_place(new: &PromptDoc, turn: usize, difference: &Difference<'_>) -> Option<Place> {
    let path = &new.turns.get(turn)?.path;
    Some(if *path == difference.place.path {
        difference.place.clone()
    } else {
        Place { path: path.clone(), character: None, page: None }
    })
}

/// Whether the new turns go on as the old ones do, to the end of the shorter: at least one turn that isn't trivial.
fn follows(old: &[u64], new: &[u64]) -> bool {
    let length = old.len().min(new.len());
    length > 0 && old[..length] == new[..length]
}

/// Whether a text is another one cut off: its start, with a mark of the cut perhaps.
pub(super) fn cut(old: &str, new: &str, at: usize) -> bool {
    let left = new[at..].trim();
    let gone = old.len() - at;
    let mark = left.is_empty()
        || left.starts_with('…')
        || left.starts_with("...")
        || left.starts_with('[')
        || left.starts_with('<')
        || left.to_ascii_lowercase().contains("truncated");
    mark && gone > left.len() + 16
}

/// A fingerprint and a length of every turn. Reasoning and ids are left out: they change for reasons of their own.
struct Prints {
    prints: Vec<u64>,
    lengths: Vec<usize>,
}

impl Prints {
    fn of(doc: &PromptDoc) -> Self {
        let mut hashers = vec![DefaultHasher::new(); doc.turns.len()];
        let mut lengths = vec![0; doc.turns.len()];
        for (turn, hasher) in doc.turns.iter().zip(&mut hashers) {
            (turn.speaker as u8).hash(hasher);
        }
        for part in &doc.parts {
            let Some(turn) = part.turn.filter(|turn| *turn < hashers.len()) else { continue };
            if matches!(part.kind, Kind::Reasoning | Kind::Id) {
                continue;
            }
            part.text.trim().hash(&mut hashers[turn]);
            lengths[turn] += part.text.len();
        }
        Prints { prints: hashers.iter().map(Hasher::finish).collect(), lengths }
    }
}

/// Whether a difference lies in the last message: of either prompt, and not in instructions that begin it.
pub(super) fn in_last(old: &PromptDoc, new: &PromptDoc, difference: &Difference<'_>) -> bool {
    if new.turns.is_empty() {
        // A text that nobody divided is one message.
        return !matches!(difference.new.kind, Kind::System | Kind::Tool | Kind::Parameter);
    }
    let last = |doc: &PromptDoc, turn: Option<usize>| {
        turn.is_some_and(|turn| {
            turn + 1 == doc.turns.len()
                && !(turn == 0 && doc.turns[turn].speaker == Speaker::System)
        })
    };
    let (a, b) = turns_at(difference);
    last(old, a) || last(new, b)
}
