//! Everything about one call.

use std::io::Write;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use jiff::tz::TimeZone;
use tapri_ledger::{CacheResult, CallRecord, Ending, Explanation};

use super::table::{ending, plain, share, time};
use crate::pull::lines;
use crate::quantity::{show_count, show_seconds};

pub(super) fn print(out: &mut impl Write, call: &CallRecord, zone: &TimeZone) -> Result<()> {
    writeln!(out, "Call {}\n", plain(&call.id))?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    let maybe = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), plain);
    row("time", time(call.at, zone));
    row("tenant", plain(&call.tenant));
    row("route", plain(&call.route));
    row("model", plain(&call.model));
    row("upstream", plain(&call.upstream));
    row("conversation", maybe(&call.conversation));
    row(
        "ended",
        match &call.ending {
            Ending::Error(code) => format!("error: {}", plain(code)),
            other => ending(other),
        },
    );
    row("prompt", prompt(call));
    row("answer", tokens(call.tokens.answer));
    row(
        "first token",
        call.ttft.map_or_else(|| "-".to_owned(), |ttft| format!("after {}", show_seconds(ttft))),
    );
    row("total", show_seconds(call.total));
    row("exact cache", cache(call.exact.as_ref()));
    row("semantic cache", cache(call.semantic.as_ref()));
    row("prefix cache", cache(call.prefix.as_ref()));
    row("cost", cost(call));
    let trace = call.trace.last().map_or_else(
        || "-".to_owned(),
        |last| {
            let (blocks, size) = (show_count(call.trace.len()), CallRecord::TRACE_BLOCK);
            format!("{blocks} blocks of {size} tokens, up to {last:016x}")
        },
    );
    row("trace", trace);
    writeln!(out, "{}", indented(&table))?;
    if let Some(explanation) = &call.explanation {
        writeln!(out, "\nWhy it reused no more\n\n{}", indented(&why(explanation)))?;
    }
    if !call.parts.is_empty() {
        writeln!(out, "\nThe parts of the prompt, with salted fingerprints of their texts\n")?;
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header([
            "part",
            "kind",
            "characters",
            "fingerprint",
        ]);
        for part in &call.parts {
            let kind = serde_json::to_value(part.kind)?.as_str().unwrap_or_default().to_owned();
            let chars = show_count(usize::try_from(part.chars).unwrap_or(usize::MAX));
            table.add_row([plain(&part.path), kind, chars, format!("{:016x}", part.print)]);
        }
        if let Some(column) = table.column_mut(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{}", indented(&table))?;
    }
    if let Some(text) = &call.text {
        writeln!(out, "\nThe request\n\n  {}", plain(text))?;
    }
    Ok(())
}

fn indented(table: &Table) -> String {
    lines(table).lines().map(|line| format!(" {line}")).collect::<Vec<_>>().join("\n")
}

fn tokens(count: Option<u64>) -> String {
    match count {
        Some(1) => "1 token".to_owned(),
        Some(n) => format!("{} tokens", show(n)),
        None => "-".to_owned(),
    }
}

fn show(tokens: u64) -> String {
    show_count(usize::try_from(tokens).unwrap_or(usize::MAX))
}

fn prompt(call: &CallRecord) -> String {
    let counts = call.tokens;
    if counts.prompt.is_none() {
        return "-".to_owned();
    }
    let mut text = tokens(counts.prompt);
    if let (Some(reused), Some(share)) = (counts.reused(), share(call)) {
        text.push_str(&format!(", {} not computed for it ({share})", show(reused)));
    }
    let parts = [
        (counts.cached, "from the cache"),
        // Of those, and hardly ever any.
        (counts.restored.filter(|&restored| restored > 0), "of them read back from disk"),
        (counts.joined, "computed by a call that it waited for"),
        (counts.written, "left in the cache for the first time"),
    ];
    for (count, what) in parts {
        if let Some(count) = count {
            text.push_str(&format!(", {} {what}", show(count)));
        }
    }
    text
}

fn cache(result: Option<&CacheResult>) -> String {
    match result {
        None => "-".to_owned(),
        Some(CacheResult { outcome, reason: None }) => outcome.as_str().to_owned(),
        Some(CacheResult { outcome, reason: Some(reason) }) => {
            format!("{}: {}", outcome.as_str(), plain(reason))
        }
    }
}

fn cost(call: &CallRecord) -> String {
    let Some(cost) = &call.cost else { return "-".to_owned() };
    let date = cost.price_date.as_ref().map_or_else(String::new, |date| format!(" of {date}"));
    format!(
        "{}; {} without a cache (estimates: measured tokens at the price list '{}'{date})",
        cost.paid,
        cost.without_cache,
        plain(&cost.price_list)
    )
}

fn why(it: &Explanation) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("reason", format!("{}: {}", it.reason, it.reason.describe()));
    if let Some(nearest) = &it.nearest {
        row("nearest call", plain(nearest));
    }
    if it.shared_tokens.is_some() {
        let estimate = if it.estimated { " (estimate)" } else { "" };
        row("shared with it", format!("{}{estimate}", tokens(it.shared_tokens)));
    }
    if let Some(place) = &it.place {
        let mut text = plain(&place.path);
        if let Some(page) = place.page {
            text.push_str(&format!(", page {page}"));
        }
        if let Some(character) = place.character {
            text.push_str(&format!(", character {character}"));
        }
        row("first difference", text);
    }
    let quoted = |text: &String| format!("\"{}\"", plain(text));
    if let Some(new) = &it.new {
        row("there now", quoted(new));
    }
    if let Some(old) = &it.old {
        row("there before", quoted(old));
    }
    if let Some(looks_like) = &it.looks_like {
        row("what it is", plain(looks_like));
    }
    row("what to do", plain(&it.suggestion));
    table
}
