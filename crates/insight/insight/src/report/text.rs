//! A report for people.

use std::io::{self, Write};

use rust_decimal::Decimal;
use tapri_ledger::Money;

use super::latency::{Comparison, Finding, Times};
use super::totals::not_reported;
use super::{Groups, Summary};
use crate::numbers::{counted, grouped};

/// Names of a kind that are shown; the rest is in the JSON.
const SHOWN: usize = 20;
/// Causes that are shown.
const CAUSES: usize = 10;

/// Writes all of it.
pub fn write(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    days(out, summary)?;
    names(out, summary, "tenant", &summary.tenants)?;
    names(out, summary, "route", &summary.routes)?;
    names(out, summary, "model", &summary.models)?;
    if summary.options.last > 0 {
        writeln!(out, "\nThe last calls")?;
        for line in summary.last.sentences() {
            writeln!(out, "  {line}")?;
        }
    }
    changes(out, summary)?;
    causes(out, summary)?;
    latency(out, summary)?;
    money(out, summary)?;
    writes(out, summary)?;
    if summary.all.unknown > 0 {
        writeln!(out, "\nNot known")?;
        writeln!(out, "  {}", not_reported(summary.all.unknown))?;
    }
    Ok(())
}

/// Writes what the last calls say, and nothing else.
pub fn write_last(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    summary.last.sentences().iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn days(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let threshold = summary.options.threshold;
    let zone = &summary.options.zone;
    let zone = zone.iana_name().map_or_else(|| "local time".to_owned(), str::to_owned);
    writeln!(out, "By day ({zone})")?;
    for (day, totals) in summary.days.iter() {
        let day = day.map_or_else(|| "no date".to_owned(), |day| day.to_string());
        writeln!(out, "  {day}: {}", totals.line(threshold))?;
    }
    if let Some(beyond) = &summary.days.beyond {
        writeln!(out, "  other days: {}", beyond.line(threshold))?;
    }
    Ok(())
}

fn names(
    out: &mut dyn Write,
    summary: &Summary,
    kind: &str,
    groups: &Groups<Option<String>>,
) -> io::Result<()> {
    let threshold = summary.options.threshold;
    // Where nothing is named there is nothing to tell apart.
    if groups.iter().all(|(name, _)| name.is_none()) {
        return Ok(());
    }
    writeln!(out, "\nBy {kind}")?;
    let all = groups.by_size();
    for (name, totals) in all.iter().take(SHOWN) {
        let name = name.as_deref().map_or_else(|| "(not named)".into(), printable);
        writeln!(out, "  {name}: {}", totals.line(threshold))?;
    }
    let more = all.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(
            out,
            "  and {}, all in the output of --json",
            counted(more as u64, &format!("more {kind}"))
        )?;
    }
    if let Some(beyond) = &groups.beyond {
        writeln!(
            out,
            "  {kind}s after the first {}: {}",
            grouped(groups.len() as u64),
            beyond.line(threshold)
        )?;
    }
    Ok(())
}

/// A name from a log, without what would move a terminal's cursor.
fn printable(name: &str) -> std::borrow::Cow<'_, str> {
    if name.chars().any(char::is_control) {
        name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
    } else {
        name.into()
    }
}

/// Rates here are means over calls, where the lines by day weigh each call by its tokens.
fn changes(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    if summary.changes.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nChanges of hit rates (mean share of a call's prompt, with bounds at 95%)")?;
    for change in summary.changes.iter().take(SHOWN) {
        writeln!(out, "  {}", printable(&change.to_string()))?;
    }
    let more = summary.changes.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(
            out,
            "  and {}, all in the output of --json",
            counted(more as u64, "more change")
        )?;
    }
    Ok(())
}

fn causes(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    if !summary.options.explained {
        return Ok(());
    }
    writeln!(out, "\nTop causes of misses")?;
    if summary.causes.is_empty() {
        return writeln!(out, "  none: every call reused what it could, or nobody looked");
    }
    for cause in summary.causes.iter().take(CAUSES) {
        let cost: Vec<String> =
            cause.money.iter().map(|(currency, amount)| show(*amount, currency)).collect();
        let cost = if cost.is_empty() {
            String::new()
        } else {
            format!(", at most {} (estimate)", cost.join(" and "))
        };
        writeln!(
            out,
            "  {}: {}, {} tokens computed{cost}. {}",
            cause.reason,
            counted(cause.calls, "call"),
            grouped(cause.tokens),
            cause.reason.describe(),
        )?;
    }
    Ok(())
}

fn latency(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let all = &summary.latency.all;
    if all.hits.calls + all.misses.calls == 0 {
        return Ok(());
    }
    writeln!(out, "\nTime to the first token")?;
    writeln!(out, "  hits:   {}", show_times(&all.hits))?;
    writeln!(out, "  misses: {}", show_times(&all.misses))?;
    writeln!(out, "  {}", verdict(all))?;
    for row in &summary.latency.by_length {
        let comparison = &row.comparison;
        // Where caching adds delay at some length only, the whole hides it.
        if comparison.finding == Finding::HitsSlower
            && let (Some(hit), Some(miss), Some(p)) =
                (comparison.hits.median, comparison.misses.median, comparison.p_value)
        {
            writeln!(
                out,
                "  prompts of {} to {} tokens: hits are slower, {} against {} (p = {p:.1e}): caching adds delay here",
                grouped(row.from),
                grouped(row.to - 1),
                seconds(hit),
                seconds(miss),
            )?;
        }
    }
    Ok(())
}

fn verdict(comparison: &Comparison) -> String {
    let among = "among calls of one model and like length";
    let share = comparison.hit_slower.map_or(0.0, |share| share * 100.0);
    let p = comparison.p_value.map_or_else(String::new, |p| format!("p = {p:.1e}"));
    match comparison.finding {
        Finding::TooFew => "too few hits or misses of like length to compare".to_owned(),
        Finding::NoDifference => {
            format!("no difference {among} that couldn't be chance ({p})")
        }
        Finding::HitsFaster => {
            format!("hits are faster: {among} the hit was slower in {share:.0}% of pairs ({p})")
        }
        Finding::HitsSlower => format!(
            "hits are slower: {among} the hit was slower in {share:.0}% of pairs ({p}): caching adds delay"
        ),
    }
}

fn show_times(times: &Times) -> String {
    let Some(median) = times.median else { return "none".to_owned() };
    let bounds = times.bounds.map_or_else(String::new, |(low, high)| {
        format!(" ({} to {})", seconds(low), seconds(high))
    });
    let p95 = times.p95.map_or_else(String::new, |p95| format!(", 95% within {}", seconds(p95)));
    format!("{}, median {}{bounds}{p95}", counted(times.calls, "call"), seconds(median))
}

/// Seconds to three digits: a histogram knows no more.
fn seconds(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0} s"),
        v if v >= 10.0 => format!("{v:.1} s"),
        v if v >= 1.0 => format!("{v:.2} s"),
        v if v >= 0.1 => format!("{:.0} ms", v * 1e3),
        v if v >= 0.01 => format!("{:.1} ms", v * 1e3),
        v => format!("{:.2} ms", v * 1e3),
    }
}

fn money(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let all = &summary.all;
    if all.money.is_empty() {
        return Ok(());
    }
    let lists: Vec<String> = summary.lists.iter().map(ToString::to_string).collect();
    writeln!(out, "\nMoney (estimate; prices: {})", lists.join(", "))?;
    for (currency, sums) in &all.money {
        let saved = sums.without_cache - sums.paid;
        let percent = (saved.abs() * Decimal::ONE_HUNDRED)
            .checked_div(sums.without_cache)
            .unwrap_or_default()
            .trunc();
        let change = if saved.is_sign_negative() && !saved.is_zero() {
            format!(
                "{} more ({percent}%): caching costs more than it saves",
                show(-saved, currency)
            )
        } else if saved.is_zero() {
            "saved nothing".to_owned()
        } else {
            format!("saved {} ({percent}%)", show(saved, currency))
        };
        writeln!(
            out,
            "  {} with the cache, {} without: {change}",
            show(sums.paid, currency),
            show(sums.without_cache, currency)
        )?;
    }
    if all.unpriced > 0 {
        writeln!(
            out,
            "  not counted: {} without a price or without token counts",
            counted(all.unpriced, "call")
        )?;
    }
    Ok(())
}

fn show(amount: Decimal, currency: &str) -> String {
    let places = if amount.abs() < Decimal::ONE { 4 } else { 2 };
    Money::new(amount, currency).rounded(places)
}

fn writes(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let (written, unread) = summary.written;
    if written == 0 {
        return Ok(());
    }
    let percent = u128::from(unread) * 100 / u128::from(written);
    writeln!(out, "\nWrites never read")?;
    writeln!(
        out,
        "  {} of {} tokens written to the cache ({percent}%) were not read by a later call (estimate)",
        grouped(unread),
        grouped(written),
    )?;
    if unread == written {
        writeln!(
            out,
            "  nothing that was written was read: where writes cost extra, caching costs more than it saves"
        )?;
    }
    Ok(())
}
