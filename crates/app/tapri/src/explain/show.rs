//! Explanations as text.

use std::fmt::Write;

use tapri_insight::explain::Tokens;
use tapri_insight::history::{Against, Break, CallRef, Cause, Report};
use tapri_insight::ledger::{MissReason, Money};

use super::{FirstToken, Pair};
use tapri_insight::numbers::counted;

use crate::quantity::show_count;

/// Two requests.
pub(super) fn pair(pair: &Pair, values: bool) -> String {
    let (found, mut text) = (&pair.found, String::new());
    let _ = writeln!(text, "{}", found.line(values));
    let _ = writeln!(text, "  reason:  {} ({})", found.reason.describe(), found.reason);
    let _ = writeln!(
        text,
        "  shared:  {} from the start, of {}",
        tokens(found.shared),
        tokens(found.prompt)
    );
    if let Some(token) = &pair.token {
        let _ = writeln!(text, "  token:   {}", first_token(token, values));
    }
    if found.is_alarm() {
        let _ = writeln!(text, "  lost:    {} that both prompts have", tokens(found.lost));
    }
    let _ = writeln!(text, "  do:      {}", found.suggestion);
    for also in &found.also {
        let _ = writeln!(text, "  also:    {} ({})", also.words, also.reason);
    }
    if let Some(diagnosis) = &pair.hosted {
        let _ = writeln!(text, "  hosted:  {} ({})", diagnosis.verdict, diagnosis.field);
    }
    text
}

fn first_token(token: &FirstToken, values: bool) -> String {
    let number = show_count(token.number);
    match (&token.old, &token.new) {
        (Some(old), Some(new)) if values => {
            format!("token {number} is the first that differs: {new:?} was {old:?}")
        }
        (Some(_), Some(_)) => format!("token {number} is the first that differs"),
        (None, Some(_)) => format!("goes on at token {number}"),
        _ => format!("ends before token {number}"),
    }
}

/// A log.
pub(super) fn log(report: &Report, worst: usize, values: bool) -> String {
    let mut text = String::new();
    summary(&mut text, report);
    if !report.causes.is_empty() {
        let _ = writeln!(text, "\nBy cause, the most expensive first:\n");
        for cause in report.causes.iter().take(worst) {
            one_cause(&mut text, cause);
        }
        more(&mut text, report.causes.len().saturating_sub(worst) as u64, "cause");
    }
    let alarms: Vec<&Break> = report.breaks.iter().filter(|found| found.is_alarm()).collect();
    if !alarms.is_empty() {
        let _ = writeln!(text, "\nBreaks, worst first:\n");
        for found in alarms.iter().take(worst) {
            one_break(&mut text, found, values);
        }
        more(&mut text, report.alarms.saturating_sub(alarms.len().min(worst) as u64), "break");
    }
    let disputed: Vec<&Break> = report.breaks.iter().filter(|found| is_disputed(found)).collect();
    if !disputed.is_empty() {
        let _ = writeln!(text, "\nThe provider saw what the requests don't show:\n");
        for found in disputed.iter().take(worst) {
            one_break(&mut text, found, values);
        }
    }
    text
}

/// Whether only the provider sees something wrong.
fn is_disputed(found: &Break) -> bool {
    !found.is_alarm() && found.hosted.as_ref().is_some_and(|hosted| hosted.agrees == Some(false))
}

fn summary(text: &mut String, report: &Report) {
    let n = |count: u64| show_count(count as usize);
    let conversations = match report.conversations {
        0 => String::new(),
        1 => " in 1 conversation".to_owned(),
        many => format!(" in {} conversations", n(many)),
    };
    let _ = writeln!(text, "{} calls{conversations}", n(report.calls));
    let mut row = |count: u64, what: &str| {
        if count > 0 {
            let _ = writeln!(text, "  {:>7}  {what}", n(count));
        }
    };
    row(report.grew, "went on from an earlier one");
    row(report.new_questions, "put a new last message behind a known start");
    row(report.never_seen, "had nothing like them before");
    row(report.alarms, "broke a start that could have been reused");
    if report.alarms > 0 {
        let _ = writeln!(text, "\nThe breaks cost {}{}.", tokens(report.lost), money(&report.cost));
    } else {
        let _ = writeln!(text, "\nNothing to repair.");
    }
    if !report.unpriced.is_empty() {
        let _ = writeln!(text, "No price is known for {}.", report.unpriced.join(", "));
    }
    let (all, comparable, agree) = report.diagnosed;
    if all > 0 {
        let _ = writeln!(
            text,
            "The provider diagnosed {} calls itself; of {} that can be compared it agrees on {}.",
            n(all),
            n(comparable),
            n(agree)
        );
    }
}

fn one_cause(text: &mut String, cause: &Cause) {
    let place = cause.path.as_ref().map(|path| format!(" at {}", path.0)).unwrap_or_default();
    let _ = writeln!(
        text,
        "  {}{place}: {}, {}{}; worst in {}",
        cause.reason,
        counted(cause.breaks, "break"),
        tokens(cause.lost),
        money(&cause.cost),
        call(&cause.worst),
    );
    let _ = writeln!(text, "      {}", cause.suggestion);
}

fn one_break(text: &mut String, found: &Break, values: bool) {
    let (Some(against), Some(what)) =
        (found.nearest.as_ref().or(found.previous.as_ref()), found.found())
    else {
        return;
    };
    let conversation =
        found.conversation.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    let _ = writeln!(
        text,
        "  {}{conversation}, against {}\n      {}",
        call(&found.call),
        call(&against.call),
        what.line(values)
    );
    let _ = writeln!(
        text,
        "      {}: {} shared, {} lost{}",
        what.reason,
        tokens(what.shared),
        tokens(what.lost),
        found.cost.as_ref().map(|cost| money(std::slice::from_ref(cost))).unwrap_or_default(),
    );
    for also in &what.also {
        let _ = writeln!(text, "      also: {} ({})", also.words, also.reason);
    }
    neighbour(text, found, against, values);
    if let Some(hosted) = &found.hosted {
        let agrees = match hosted.agrees {
            Some(true) => ", which agrees",
            Some(false) => ", which differs",
            None => "",
        };
        let _ = writeln!(
            text,
            "      the provider said {} ({}){agrees}",
            hosted.diagnosis.verdict, hosted.diagnosis.field
        );
    }
}

/// The call before it, where that isn't the nearest.
fn neighbour(text: &mut String, found: &Break, against: &Against, values: bool) {
    if let Some(previous) = found.previous.as_ref().filter(|found| found.call != against.call)
        && previous.found.reason != MissReason::Growth
    {
        let _ = writeln!(
            text,
            "      the call before it ({}): {}",
            call(&previous.call),
            previous.found.line(values)
        );
    }
}

fn call(call: &CallRef) -> String {
    format!("call {} ({})", show_count(call.number as usize), call.at)
}

fn more(text: &mut String, count: u64, what: &str) {
    if count > 0 {
        let _ = writeln!(
            text,
            "  ... and {}; --worst shows more",
            counted(count, &format!("more {what}"))
        );
    }
}

fn tokens(tokens: Tokens) -> String {
    let count = show_count(tokens.count as usize);
    let s = if tokens.count == 1 { "" } else { "s" };
    if tokens.estimated {
        format!("about {count} token{s} (estimate)")
    } else {
        format!("{count} token{s}")
    }
}

fn money(amounts: &[Money]) -> String {
    let all: Vec<String> = amounts.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!(", {} (estimate)", all.join(" and ")) }
}
