//! Calls as comma-separated values (RFC 4180, lines ended by a line feed).

use std::io::Write;

use anyhow::Result;
use tapri_ledger::{CacheResult, CallRecord, Ending};

const COLUMNS: [&str; 36] = [
    "id",
    "at",
    "tenant",
    "route",
    "model",
    "upstream",
    "conversation",
    "ending",
    "error",
    "prompt_tokens",
    "cached_tokens",
    "restored_tokens",
    "joined_tokens",
    "written_tokens",
    "answer_tokens",
    "ttft_seconds",
    "total_seconds",
    "exact_outcome",
    "exact_reason",
    "semantic_outcome",
    "semantic_reason",
    "prefix_outcome",
    "prefix_reason",
    "reason",
    "nearest",
    "shared_tokens",
    "shared_tokens_estimated",
    "place",
    "character",
    "page",
    "suggestion",
    "cost_estimate",
    "cost_without_cache_estimate",
    "currency",
    "price_list",
    "price_date",
];

pub(super) fn head(out: &mut impl Write) -> Result<()> {
    Ok(writeln!(out, "{}", COLUMNS.join(","))?)
}

pub(super) fn row(out: &mut impl Write, call: &CallRecord) -> Result<()> {
    let text = |text: &str| cell(text);
    let maybe = |it: Option<&String>| it.map_or_else(String::new, |it| cell(it));
    let count = |it: Option<u64>| it.map_or_else(String::new, |it| it.to_string());
    let cache = |it: &Option<CacheResult>| {
        let outcome = it.as_ref().map_or_else(String::new, |it| it.outcome.as_str().to_owned());
        [outcome, maybe(it.as_ref().and_then(|it| it.reason.as_ref()))]
    };
    let error = match &call.ending {
        Ending::Error(code) => text(code),
        _ => String::new(),
    };
    let [exact, exact_reason] = cache(&call.exact);
    let [semantic, semantic_reason] = cache(&call.semantic);
    let [prefix, prefix_reason] = cache(&call.prefix);
    let why = call.explanation.as_ref();
    let place = why.and_then(|why| why.place.as_ref());
    let cost = call.cost.as_ref();
    let cells: [String; COLUMNS.len()] = [
        text(&call.id),
        call.at.to_string(),
        text(&call.tenant),
        text(&call.route),
        text(&call.model),
        text(&call.upstream),
        maybe(call.conversation.as_ref()),
        call.ending.word().to_owned(),
        error,
        count(call.tokens.prompt),
        count(call.tokens.cached),
        count(call.tokens.restored),
        count(call.tokens.joined),
        count(call.tokens.written),
        count(call.tokens.answer),
        call.ttft.map_or_else(String::new, |ttft| ttft.as_secs_f64().to_string()),
        call.total.as_secs_f64().to_string(),
        exact,
        exact_reason,
        semantic,
        semantic_reason,
        prefix,
        prefix_reason,
        why.map_or_else(String::new, |why| why.reason.as_str().to_owned()),
        maybe(why.and_then(|why| why.nearest.as_ref())),
        count(why.and_then(|why| why.shared_tokens)),
        why.filter(|why| why.shared_tokens.is_some())
            .map_or_else(String::new, |why| why.estimated.to_string()),
        maybe(place.map(|place| &place.path)),
        count(place.and_then(|place| place.character)),
        count(place.and_then(|place| place.page)),
        maybe(why.map(|why| &why.suggestion)),
        cost.map_or_else(String::new, |cost| cost.paid.amount.to_string()),
        cost.map_or_else(String::new, |cost| cost.without_cache.amount.to_string()),
        cost.map_or_else(String::new, |cost| text(&cost.paid.currency)),
        cost.map_or_else(String::new, |cost| text(&cost.price_list)),
        maybe(cost.and_then(|cost| cost.price_date.as_ref())),
    ];
    Ok(writeln!(out, "{}", cells.join(","))?)
}

/// A text as a cell. One that a spreadsheet would take for a formula gets an apostrophe in front, as OWASP advises: names
/// come from clients.
fn cell(text: &str) -> String {
    // A terminal may stand behind it.
    let text: String = text
        .chars()
        .map(|c| if c.is_control() && !matches!(c, '\n' | '\r' | '\t') { '\u{fffd}' } else { c })
        .collect();
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !formula && !text.contains(['"', ',', '\n', '\r']) {
        return text;
    }
    let guard = if formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        for (text, written) in [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"tea\"", "\"say \"\"tea\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "\"'=1+1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("-2+3|cmd", "\"'-2+3|cmd\""),
            ("+1", "\"'+1\""),
            ("\t=1", "\"'\t=1\""),
            ("a=b", "a=b"),
            ("\u{1b}[31m", "\u{fffd}[31m"),
        ] {
            assert_eq!(cell(text), written);
        }
    }
}
