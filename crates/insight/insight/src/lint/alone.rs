//! Checks of one request by itself.

use tapri_ledger::MissReason;

use crate::explain::fleeting;
use crate::lint::markers;
use crate::lint::rule::{Finding, Rule, Severity};
use crate::prompt::{Kind, Part, PromptDoc, Speaker};
use crate::rules::Rules;

/// Bytes of text for a token, where nobody counted.
const BYTES_A_TOKEN: usize = 4;

/// Less text than this behind a value is not worth moving it: a block of most caches has more.
const WORTH_MOVING: usize = 256;

/// Checks a request. `rules` are the providers'.
#[must_use]
pub fn check(doc: &PromptDoc, rules: Option<&Rules>) -> Vec<Finding> {
    let mut found = volatile(doc);
    found.extend(unsorted(doc));
    let rule = rules.zip(doc.model.as_deref()).and_then(|(rules, model)| rules.find(model));
    if let Some(rule) = rule {
        if let Some(minimum) = rule.minimum
            && tokens(doc) < minimum
        {
            found.push(Finding::new(
                Rule::ShortStart,
                first_path(doc),
                format!(
                    "the prompt has about {} tokens, and {} caches from {minimum} on",
                    tokens(doc),
                    rule.provider.name
                ),
                "Nothing to do: a prompt this short is not cached.",
            ));
        }
        found.extend(markers::check(doc, &rule));
    }
    found
}

/// The prompt's tokens, counted by its response or estimated.
pub(crate) fn tokens(doc: &PromptDoc) -> u64 {
    doc.usage.and_then(|usage| usage.prompt).unwrap_or_else(|| estimate(doc.parts.iter()))
}

/// Tokens of some parts, by the length of their texts.
pub(crate) fn estimate<'a>(parts: impl Iterator<Item = &'a Part>) -> u64 {
    let bytes: usize = parts.map(|part| part.text.len()).sum();
    (bytes / BYTES_A_TOKEN) as u64
}

fn first_path(doc: &PromptDoc) -> String {
    doc.parts.first().map_or_else(String::new, |part| part.path.clone())
}

/// How many parts stand in front of the conversation: tools, parameters, instructions, documents.
pub(crate) fn head(doc: &PromptDoc) -> usize {
    let talks = |part: &Part| {
        doc.turn_of(part).is_some_and(|turn| turn.speaker != Speaker::System)
            && part.kind != Kind::Document
    };
    doc.parts.iter().position(talks).unwrap_or(doc.parts.len())
}

/// The rule that a kind of value breaks.
pub(crate) fn rule_of(reason: MissReason) -> Rule {
    match reason {
        MissReason::Time | MissReason::Date => Rule::VolatileTime,
        MissReason::UserName => Rule::UserText,
        _ => Rule::VolatileId,
    }
}

/// What to do about a value in front of what stays the same.
pub(crate) fn move_it(rule: Rule) -> &'static str {
    match rule {
        Rule::UserText => "Move it behind what all users share, into the last message.",
        _ => "Move it behind what stays the same, into the last message.",
    }
}

/// Values in front of the conversation that are likely to be others next time, with enough text behind them.
fn volatile(doc: &PromptDoc) -> Vec<Finding> {
    let head = head(doc);
    let mut found = Vec::new();
    let mut first: Option<&Part> = None;
    for (index, part) in doc.parts[..head].iter().enumerate() {
        let kind =
            matches!(part.kind, Kind::System | Kind::Tool | Kind::Parameter | Kind::Document);
        // What a document says of time is its own.
        if !kind || part.kind == Kind::Document {
            continue;
        }
        let behind: usize = doc.parts[index + 1..].iter().map(|part| part.text.len()).sum();
        let values = fleeting(&part.text);
        if let Some(before) = first
            && values.is_empty()
            && part.text.len() >= WORTH_MOVING
        {
            found.push(Finding::new(
                Rule::StableBehindVolatile,
                part.path.clone(),
                format!(
                    "about {} tokens that look as if they stay stand behind {}, which does not",
                    part.text.len() / BYTES_A_TOKEN,
                    before.path
                ),
                "Put it in front of what changes.",
            ));
            first = None;
        } else if first.is_none() && !values.is_empty() {
            first = Some(part);
        }
        for value in values {
            if part.text.len() - value.bytes.end + behind < WORTH_MOVING {
                continue;
            }
            let rule = rule_of(value.reason);
            let text = &part.text[value.bytes.clone()];
            let character = part.text[..value.bytes.start].chars().count() as u64 + part.offset;
            let mut finding = Finding::new(
                rule,
                part.path.clone(),
                format!(
                    "\"{text}\" {}, in front of about {} tokens",
                    value.looks_like,
                    (part.text.len() - value.bytes.end + behind) / BYTES_A_TOKEN
                ),
                move_it(rule),
            );
            finding.character = Some(character);
            found.push(finding);
        }
    }
    found
}

/// Tools whose keys stand in different orders: what writes them doesn't sort, and may write another order next time.
fn unsorted(doc: &PromptDoc) -> Vec<Finding> {
    let mut orders: Vec<(Vec<&str>, &Part)> = Vec::new();
    for part in doc.parts.iter().filter(|part| part.kind == Kind::Tool) {
        let Some(object) = part
            .value
            .as_deref()
            .and_then(|value| value.get("function").unwrap_or(value).as_object())
        else {
            continue;
        };
        orders.push((object.keys().map(String::as_str).collect(), part));
    }
    for (at, (keys, part)) in orders.iter().enumerate() {
        let other = orders[..at].iter().find(|(other, _)| {
            let mut both = [other.clone(), keys.clone()];
            both.iter_mut().for_each(|keys| keys.sort_unstable());
            both[0] == both[1] && other != keys
        });
        if let Some((_, first)) = other {
            let mut finding = Finding::new(
                Rule::UnsortedJson,
                part.path.clone(),
                format!("the keys stand in another order than those of {}", first.path),
                "Write tools with sorted keys, the same way each time.",
            );
            finding.severity = Severity::Note;
            return vec![finding];
        }
    }
    Vec::new()
}
