//! Values that are known by the words beside them: ids, counters, names.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use tapri_ledger::MissReason;

use super::{Volatile, Window};

#[expect(clippy::unwrap_used, reason = "constant patterns, compiled by a test")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// What may stand between a word and its value: `request_id": "`, `Session: `, `user=`.
const GAP: &str = r#"["'`*)\]]{0,3}\s{0,2}(?:[:=#]|is|=>|>)?\s{0,2}["'`*(\[<#]{0,3}$"#;

static ID: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"(?i)(?:\b(?:request|session|trace|correlation|conversation|span|thread|run|call|message|transaction|req|conv|sess|ticket|job|task|order|client|device|execution|interaction|chat)[-_ .]?(?:id|uuid|key|no|number)?|x-[a-z-]{{1,30}}-id|\bid){GAP}"
    ))
});

static PREFIXED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:sess|session|req|request|run|msg|conv|trace|thread|call|toolu|chatcmpl|resp|txn|evt|job|task)[-_][0-9A-Za-z_-]{2,}$",
    )
});

static COUNT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"(?i)\b(?:turn|step|attempt|retry|iteration|count(?:er)?|version|message|messages|round|remaining|left|budget|number|no\.?|call|calls|request|requests|page|question|total|used|seq(?:uence)?|index|n)(?:[-_ ](?:count|number|no|index|left|remaining|used))?{GAP}"
    ))
});

static PERSON: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"(?i)(?:\b(?:user|username|customer|client|account|employee|member|person|agent|caller|patient|student|author|tenant|company|organi[sz]ation|first|last|full|display)?[-_ ]?(?:name|user|username|customer|account|login|owner|email|e-mail|address)(?:[-_ ](?:name|id|email))?{GAP})|(?:\b(?:hello|hi|dear|welcome|welcome back|assisting|assist|helping|help|with|as|for|user|named|called|mr\.?|mrs\.?|ms\.?|dr\.?),? {{1,2}}$)"
    ))
});

/// Recognises what the words before it say of the value around `at`.
pub(super) fn recognise(old: &str, new: &str, at: usize) -> Option<Volatile> {
    let (before, after) = (Window::around(old, at), Window::around(new, at));
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let (a, b) = (before.run(word), after.run(word));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (was, is) = (&old[a.clone()], &new[b.clone()]);
    let lead = after.lead(b.start);
    let found = |reason, looks_like, old: Range<usize>, new: Range<usize>| {
        Some(Volatile { reason, looks_like, old, new })
    };
    let digits = |text: &str| text.chars().any(|c| c.is_ascii_digit());
    if (PREFIXED.is_match(was) && PREFIXED.is_match(is))
        || (ID.is_match(lead) && digits(was) && digits(is) && counted(was, is).is_none())
    {
        return found(MissReason::RequestId, "looks like the id of a request or session", a, b);
    }
    if let Some(step) = counted(was, is)
        && ((1..=16).contains(&step) || (step.abs() < 1_000_000 && COUNT.is_match(lead)))
    {
        return found(MissReason::Counter, "looks like a number that counts", a, b);
    }
    if ID.is_match(lead) && was.len() >= 3 && is.len() >= 3 && digits(was) && digits(is) {
        return found(MissReason::RequestId, "looks like the id of a request or session", a, b);
    }
    // A name has a first and a last part.
    let (a, b) = (name(old, a), name(new, b));
    let lead = after.lead(b.start);
    if a.start == b.start && PERSON.is_match(lead) {
        let shaped = |text: &str| {
            text.chars().next().is_some_and(char::is_uppercase)
                || text.contains(['_', '.'])
                || digits(text)
        };
        let (was, is) = (&old[a.clone()], &new[b.clone()]);
        if was != is && shaped(was) && shaped(is) {
            return found(MissReason::UserName, "looks like the name of a person or account", a, b);
        }
    }
    None
}

/// By how much a whole number went up.
fn counted(old: &str, new: &str) -> Option<i64> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<i64>().ok()).flatten()
    };
    Some(number(new)? - number(old)?)
}

/// A range of a word together with the capitalised words that stand beside it: at most three on each side.
fn name(text: &str, word: Range<usize>) -> Range<usize> {
    let capital = |word: &str| {
        word.chars().next().is_some_and(char::is_uppercase)
            && word.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '\'' | '.'))
    };
    let Range { mut start, mut end } = word;
    if !capital(&text[start..end]) {
        return start..end;
    }
    for _ in 0..3 {
        let Some(before) = text[..start].strip_suffix(' ') else { break };
        let begin = before
            .rfind(|c: char| !c.is_alphabetic() && c != '-')
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        // "User Mia Li" and "Hello Mia" begin with a word that isn't the name.
        if !capital(&before[begin..]) || PERSON.is_match(&text[..start]) {
            break;
        }
        start = begin;
    }
    for _ in 0..3 {
        let Some(after) = text[end..].strip_prefix(' ') else { break };
        let length = after.find(|c: char| !c.is_alphabetic() && c != '-').unwrap_or(after.len());
        if !capital(&after[..length]) {
            break;
        }
        end += 1 + length;
    }
    start..end
}
