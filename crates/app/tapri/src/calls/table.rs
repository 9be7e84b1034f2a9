//! Calls as lines of a table.

use std::io::Write;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapri_ledger::{CallRecord, Ending};

use crate::pull::lines;
use crate::quantity::{show_count, show_seconds, show_share};

/// Digits of an id that tell calls apart for a person.
const ID: usize = 8;

pub(super) fn print(out: &mut impl Write, records: &[CallRecord], zone: &TimeZone) -> Result<()> {
    if records.is_empty() {
        writeln!(out, "No such calls.")?;
        return Ok(());
    }
    // A column in which all calls are alike says nothing in a table.
    let tenants = differ(records, |record| record.tenant.clone());
    let models = differ(records, |record| record.model.clone());
    let mut head = vec![format!("time ({})", zone_name(zone)), "id".to_owned()];
    head.extend(tenants.then(|| "tenant".to_owned()));
    head.push("route".to_owned());
    head.extend(models.then(|| "model".to_owned()));
    let first_number = head.len();
    head.extend(
        ["prompt", "cached", "", "answer", "first token", "cost", "ended", "prefix cache"]
            .map(str::to_owned),
    );
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(head);
    for record in records {
        let count = |tokens: Option<u64>| {
            tokens.map_or_else(
                || "-".to_owned(),
                |n| show_count(usize::try_from(n).unwrap_or(usize::MAX)),
            )
        };
        let mut row = vec![clock(record.at, zone), record.id.chars().take(ID).collect()];
        row.extend(tenants.then(|| plain(&record.tenant)));
        row.push(plain(&record.route));
        row.extend(models.then(|| plain(&record.model)));
        row.extend([
            count(record.tokens.prompt),
            count(record.tokens.reused()),
            share(record).unwrap_or_default(),
            count(record.tokens.answer),
            record.ttft.map_or_else(|| "-".to_owned(), show_seconds),
            record.cost.as_ref().map_or_else(|| "-".to_owned(), |cost| cost.paid.to_string()),
            ending(&record.ending),
            prefix(record),
        ]);
        table.add_row(row);
    }
    for column in first_number..first_number + 6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    writeln!(out, "{}", lines(&table))?;
    if records.iter().any(|record| record.cost.is_some()) {
        writeln!(out, "\ncosts are estimates: measured tokens at a price list")?;
    }
    Ok(())
}

fn differ(records: &[CallRecord], field: impl Fn(&CallRecord) -> String) -> bool {
    records.windows(2).any(|pair| field(&pair[0]) != field(&pair[1]))
}

pub(super) fn share(record: &CallRecord) -> Option<String> {
    let tokens = record.tokens;
    let size = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX);
    match (tokens.reused(), tokens.prompt) {
        (Some(cached), Some(prompt)) if prompt > 0 => Some(show_share(size(cached), size(prompt))),
        _ => None,
    }
}

pub(super) fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Stop => "stop".to_owned(),
        Ending::Length => "length".to_owned(),
        Ending::Abort => "client left".to_owned(),
        Ending::Error(code) => plain(code),
    }
}

/// The outcome and why: of the explanation where there is one, else of the cache itself.
fn prefix(record: &CallRecord) -> String {
    let Some(prefix) = &record.prefix else { return "-".to_owned() };
    let why = match &record.explanation {
        Some(explanation) => Some(explanation.reason.as_str().to_owned()),
        None => prefix.reason.as_deref().map(plain),
    };
    let outcome = prefix.outcome.as_str();
    why.map_or_else(|| outcome.to_owned(), |why| format!("{outcome}: {why}"))
}

/// `2026-11-30 10:00:07`, in a zone that the table's head names.
fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The same with the zone.
pub(super) fn time(at: Timestamp, zone: &TimeZone) -> String {
    format!("{} {}", clock(at, zone), zone_name(zone))
}

fn zone_name(zone: &TimeZone) -> String {
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => match zone.to_fixed_offset() {
            Ok(offset) if offset.is_zero() => "UTC".to_owned(),
            Ok(offset) => offset.to_string(),
            Err(_) => "local time".to_owned(),
        },
    }
}

/// Without what a terminal could take for a command: names come from clients.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
