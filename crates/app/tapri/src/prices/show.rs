//! Prices as people read them, and as JSON.

use std::io::{Write, stdout};

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tapri_insight::prices::{Billed, PriceBook, PriceList, Rates, Tier, file};

use crate::pull::lines;
use crate::quantity::show_count;

/// One line a list.
pub(super) fn layers(books: &[PriceBook]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["name", "models", "date", "source"]);
    for book in books {
        table.add_row([
            book.name.clone(),
            show_count(book.len()),
            book.date.map_or_else(|| "-".to_owned(), |date| date.to_string()),
            book.source.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    right(&mut table, &[1]);
    lines(&table)
}

fn right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Models, one a line.
pub(super) fn rows(book: &PriceBook, words: &[String], as_json: bool) -> Result<()> {
    let mut out = stdout().lock();
    if as_json {
        let models: Vec<_> = book.search(words).map(data).collect();
        let whole = json!({"schema": "tapri.prices/1", "models": models});
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
        return Ok(());
    }
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(["model", "currency", "input", "cached", "write", "output", "list"]);
    for list in book.search(words) {
        let rates = list.rates(Tier::Standard, 0);
        table.add_row([
            list.model.clone().unwrap_or_default(),
            list.currency.clone(),
            price(rates.input),
            rates.cached_input.map_or_else(|| "-".to_owned(), price),
            if rates.writes.is_empty() { "-".to_owned() } else { price(rates.write(None)) },
            price(rates.output),
            list.name.clone(),
        ]);
    }
    right(&mut table, &[2, 3, 4, 5]);
    match table.row_count() {
        0 => writeln!(out, "No model has these words in its name: {}", words.join(" "))?,
        _ => writeln!(out, "{}\n\nfor a million tokens", lines(&table))?,
    }
    Ok(())
}

/// A price without the noise that a float left in its source.
pub(crate) fn price(price: Decimal) -> String {
    price.round_dp(6).normalize().to_string()
}

fn data(list: &PriceList) -> Value {
    let mut fields = file::list_json(list);
    fields.insert("model".into(), json!(list.model));
    fields.insert("name".into(), json!(list.name));
    fields.insert("currency".into(), json!(list.currency));
    fields.insert("date".into(), json!(list.date_text()));
    fields.insert("source".into(), json!(list.source));
    Value::Object(fields)
}

/// All of a model's prices.
pub(super) fn one(list: &PriceList, as_json: bool) -> Result<()> {
    let mut out = stdout().lock();
    if as_json {
        let mut whole = json!({"schema": "tapri.prices/1"});
        whole["prices"] = data(list);
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
        return Ok(());
    }
    write!(out, "{}", list.model.as_deref().unwrap_or("any model"))?;
    if let Some(provider) = &list.provider {
        write!(out, " ({provider})")?;
    }
    writeln!(out, ", by the price list {}\n", named(list))?;
    writeln!(out, "{}", lines(&rates_table(list)))?;
    if let Some(minimum) = list.minimum {
        let tokens = show_count(usize::try_from(minimum).unwrap_or(usize::MAX));
        writeln!(out, "\nA prompt shorter than {tokens} tokens is not cached.")?;
    }
    if let Some(source) = &list.source {
        writeln!(out, "\nsource: {source}")?;
    }
    Ok(())
}

/// A list's name and date: `'bundled' of 2026-11-30`.
pub(crate) fn named(list: &PriceList) -> String {
    match list.date {
        Some(date) => format!("'{}' of {date}", list.name),
        None => format!("'{}'", list.name),
    }
}

fn rates_table(list: &PriceList) -> Table {
    let mut columns: Vec<(String, &Rates)> = Vec::new();
    for tier in Tier::ALL.into_iter().filter(|tier| list.has(*tier)) {
        columns.push((tier.as_str().to_owned(), list.rates(tier, Billed::default().prompt())));
        for above in list.thresholds(tier) {
            let name = format!("{}, prompt above {}k", tier.as_str(), above / 1_000);
            columns.push((name, list.rates(tier, above + 1)));
        }
    }
    // One row a way of asking: there are more of those than of prices.
    let mut header = vec![format!("{} for a million tokens", list.currency)];
    header.extend(["computed".to_owned(), "from cache".to_owned()]);
    let lifetimes: Vec<_> = list.rates(Tier::Standard, 0).writes.keys().copied().collect();
    header.extend(lifetimes.iter().map(|lifetime| format!("written for {lifetime}")));
    header.push("answer".to_owned());
    let last = header.len();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for (name, rates) in columns {
        let mut row = vec![name, price(rates.input)];
        row.push(rates.cached_input.map_or_else(|| "-".to_owned(), price));
        row.extend(lifetimes.iter().map(|lifetime| price(rates.write(Some(*lifetime)))));
        row.push(price(rates.output));
        table.add_row(row);
    }
    right(&mut table, &(1..last).collect::<Vec<_>>());
    table
}
