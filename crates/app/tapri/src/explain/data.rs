//! Explanations as JSON: `tapri.explain/1`.

use serde_json::{Value, json};
use tapri_insight::explain::Found;
use tapri_insight::history::{Against, Break, Report};

use super::Pair;

const SCHEMA: &str = "tapri.explain/1";

/// Two requests.
pub(super) fn pair(pair: &Pair, values: bool) -> Value {
    let token = pair.token.as_ref().map(|token| {
        let shown = |text: &Option<String>| text.clone().filter(|_| values);
        json!({"number": token.number, "old": shown(&token.old), "new": shown(&token.new)})
    });
    json!({
        "schema": SCHEMA,
        "kind": "pair",
        "found": one(&pair.found, values),
        "token": token,
        "hosted": pair.hosted,
    })
}

/// A log; only the worst breaks.
pub(super) fn log(report: &Report, worst: usize, values: bool) -> Value {
    let (diagnosed, comparable, agree) = report.diagnosed;
    json!({
        "schema": SCHEMA,
        "kind": "log",
        "calls": report.calls,
        "conversations": report.conversations,
        "grew": report.grew,
        "new_questions": report.new_questions,
        "never_seen": report.never_seen,
        "alarms": report.alarms,
        "lost": report.lost,
        "cost_estimate": report.cost,
        "unpriced_models": report.unpriced,
        "hosted": {"diagnosed": diagnosed, "comparable": comparable, "agree": agree},
        "causes": report.causes,
        "breaks": report.breaks.iter().take(worst).map(|found| one_break(found, values)).collect::<Vec<_>>(),
        "more_breaks": report.more_breaks + report.breaks.len().saturating_sub(worst) as u64,
    })
}

fn one_break(found: &Break, values: bool) -> Value {
    json!({
        "call": found.call,
        "conversation": found.conversation,
        "alarm": found.is_alarm(),
        "nearest": found.nearest.as_ref().map(|against| one_against(against, values)),
        "previous": found.previous.as_ref().map(|against| one_against(against, values)),
        "cost_estimate": found.cost,
        "hosted": found.hosted,
    })
}

fn one_against(against: &Against, values: bool) -> Value {
    json!({"call": against.call, "found": one(&against.found, values)})
}

fn one(found: &Found, values: bool) -> Value {
    let mut found = found.clone();
    if !values {
        found.old = None;
        found.new = None;
    }
    json!({
        "reason": found.reason,
        "alarm": found.is_alarm(),
        "place": found.place,
        "old": found.old,
        "new": found.new,
        "looks_like": found.looks_like,
        "suggestion": found.suggestion,
        "shared": found.shared,
        "lost": found.lost,
        "prompt": found.prompt,
        "also": found.also,
    })
}
