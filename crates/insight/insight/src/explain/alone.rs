//! Explanations without the text of an earlier prompt: there is none, or only its fingerprints are left.

use tapri_ledger::{CallRecord, Explanation, MissReason, PartPrint};

use super::suggest::suggestion;
use crate::prints;

/// A reason that needs no earlier prompt.
#[must_use]
pub fn alone(reason: MissReason) -> Explanation {
    Explanation {
        reason,
        nearest: None,
        shared_tokens: None,
        estimated: false,
        place: None,
        new: None,
        old: None,
        looks_like: None,
        suggestion: suggestion(reason).to_owned(),
    }
}

/// Against a record of an earlier run, whose cache is gone: the first part that differs, by its fingerprint. A prompt
/// that could have reused all it shares needs no change.
#[must_use]
pub fn at_part(old: &CallRecord, new: &[PartPrint], prompt_tokens: Option<u64>) -> Explanation {
    let found = prints::compare(&old.parts, new);
    let whole: u64 = new.iter().map(|part| part.chars).sum();
    let reason = if found.reason.is_expected() { MissReason::Restarted } else { found.reason };
    Explanation {
        nearest: Some(old.id.clone()),
        // By the length of the texts.
        shared_tokens: prompt_tokens.filter(|_| whole > 0).map(|tokens| {
            (u128::from(tokens) * u128::from(found.shared_chars) / u128::from(whole)) as u64
        }),
        estimated: true,
        place: found.place.filter(|_| reason != MissReason::Restarted),
        ..alone(reason)
    }
}
