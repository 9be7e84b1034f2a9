//! Price lists and books as TOML or JSON.
//!
//! One model's list:
//!
//! ```toml
//! name = "my provider, July"
//! currency = "Rs"
//! date = "2026-07-01"    # may be left out, as may all that follows but input and output
//! input = "100"          # a million prompt tokens that were computed
//! cached_input = "20"    # a million prompt tokens that came from the cache; absent: as input
//! output = "400"         # a million answer tokens
//! minimum = 1024         # the shortest prompt that is cached, in tokens
//! write = { "5m" = "125", "1h" = "200" }   # a million prompt tokens written, in all; absent: as input
//! batch = { input = "50", output = "200" } # also flex and priority
//! long = [{ above = 200000, input = "200", output = "600" }]   # replaces the whole request's rates
//! ```
//!
//! A book has `name`, `currency`, `date` and `source` at its top and such a table for each model:
//! `[models."big-model"]`, where `name` and `currency` are the book's unless they are given.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::prices::field::Table;
use crate::prices::list::Sheet;
use crate::prices::{Lifetime, PriceBook, PriceList, Rates, Tier};

/// How a price file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// TOML.
    Toml,
}

impl Format {
    /// By a file's name: JSON if it ends so (`.json`, `.json.gz`), TOML otherwise.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        if name.ends_with(".json") { Format::Json } else { Format::Toml }
    }

    fn as_str(self) -> &'static str {
        match self {
            Format::Json => "JSON",
            Format::Toml => "TOML",
        }
    }
}

/// Why a file is no price list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// It doesn't parse.
    #[error("the price list {file} is not {format}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// What it should be.
        format: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A field is missing.
    #[error("the price list {file} has no field '{field}'")]
    Missing {
        /// The file.
        file: String,
        /// The field.
        field: String,
    },
    /// A field that no price list has.
    #[error("the price list {file} has an unknown field '{field}'{nearest}")]
    Unknown {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// The nearest known field, as a clause.
        nearest: String,
    },
    /// A field's value can't be.
    #[error("the price list {file}: {field} {message}")]
    Field {
        /// The file.
        file: String,
        /// The field.
        field: String,
        /// What is wrong.
        message: String,
    },
    /// No model in it has a price.
    #[error("the price list {file} has no model with prices")]
    Empty {
        /// The file.
        file: String,
    },
}

const RATES: [&str; 5] = ["input", "cached_input", "output", "write", "long"];
const LONG: [&str; 5] = ["above", "input", "cached_input", "output", "write"];
const LIST: [&str; 14] = [
    "name",
    "currency",
    "input",
    "cached_input",
    "output",
    "date",
    "source",
    "provider",
    "minimum",
    "write",
    "long",
    "batch",
    "flex",
    "priority",
];
const BOOK: [&str; 6] = ["name", "currency", "date", "source", "licence", "models"];

/// Reads a file's text: one list, which then holds for every model, or a book. `file` is how errors name it.
///
/// # Errors
/// [`PriceError`], which names the field.
pub fn read(file: &str, text: &str, format: Format) -> Result<PriceBook, PriceError> {
    let syntax = |message: String| PriceError::Syntax {
        file: file.to_owned(),
        format: format.as_str(),
        message,
    };
    let parsed: Result<Value, String> = match format {
        Format::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
        Format::Toml => toml::from_str(text).map_err(|error| error.message().to_owned()),
    };
    let fields = match parsed.map_err(syntax)? {
        Value::Object(fields) => fields,
        _ => return Err(syntax("it is no table".to_owned())),
    };
    let top = Table::top(file, &fields);
    if top.has("models") { book(&top) } else { list(&top, None).map(PriceBook::from) }
}

fn book(top: &Table<'_>) -> Result<PriceBook, PriceError> {
    top.only(&BOOK)?;
    let mut book = PriceBook::new(top.words("name")?);
    book.date = top.maybe("date", Table::date)?;
    book.source = top.maybe("source", Table::words)?;
    book.currency = top.words("currency")?;
    let models = top.table("models")?;
    for model in models.fields.keys() {
        let mut list = list(&models.table(model)?, Some(&book))?;
        list.model = Some(model.clone());
        book.insert(list);
    }
    if book.is_empty() {
        return Err(PriceError::Empty { file: top.file.to_owned() });
    }
    Ok(book)
}

fn list(table: &Table<'_>, book: Option<&PriceBook>) -> Result<PriceList, PriceError> {
    table.only(&LIST)?;
    let or_book = |field: &str, of: fn(&PriceBook) -> &String| match book {
        Some(book) if !table.has(field) => Ok(of(book).clone()),
        _ => table.words(field),
    };
    let name = or_book("name", |book| &book.name)?;
    let currency = or_book("currency", |book| &book.currency)?;
    let standard = sheet(table)?;
    let mut sheets = BTreeMap::new();
    for tier in [Tier::Batch, Tier::Flex, Tier::Priority] {
        if let Some(own) = table.maybe(tier.as_str(), Table::table)? {
            own.only(&RATES)?;
            let mut own = sheet(&own)?;
            fill_tier(&mut own, &standard);
            sheets.insert(tier, own);
        }
    }
    sheets.insert(Tier::Standard, standard);
    Ok(PriceList {
        name,
        currency,
        model: None,
        provider: table.maybe("provider", Table::words)?,
        date: table.maybe("date", Table::date)?.or(book.and_then(|book| book.date)),
        source: table
            .maybe("source", Table::words)?
            .or_else(|| book.and_then(|book| book.source.clone())),
        minimum: table.maybe("minimum", Table::count)?,
        sheets,
    })
}

/// A tier's sheet takes over the standard multipliers of writes: they stack. Reads don't stack everywhere, so one
/// without a price of its own costs as much as a computed token.
pub(crate) fn fill_tier(own: &mut Sheet, standard: &Sheet) {
    own.base.fill_from(&standard.base, false);
    for (above, rates) in &mut own.long {
        rates.fill_from(standard.long.get(above).unwrap_or(&standard.base), false);
    }
}

fn sheet(table: &Table<'_>) -> Result<Sheet, PriceError> {
    let base = rates(table)?;
    let mut long = BTreeMap::new();
    for row in table.maybe("long", Table::tables)?.unwrap_or_default() {
        row.only(&LONG)?;
        let mut own = rates(&row)?;
        own.fill_from(&base, true);
        long.insert(row.count("above")?, own);
    }
    Ok(Sheet { base, long })
}

fn rates(table: &Table<'_>) -> Result<Rates, PriceError> {
    let mut writes = BTreeMap::new();
    if let Some(own) = table.maybe("write", Table::table)? {
        own.only(&Lifetime::ALL.map(Lifetime::as_str))?;
        for lifetime in Lifetime::ALL {
            if let Some(price) = own.maybe(lifetime.as_str(), Table::price)? {
                writes.insert(lifetime, price);
            }
        }
    }
    Ok(Rates {
        input: table.price("input")?,
        cached_input: table.maybe("cached_input", Table::price)?,
        output: table.price("output")?,
        writes,
    })
}

/// A book as JSON, which [`read`] reads again.
#[must_use]
pub fn to_json(book: &PriceBook) -> Value {
    let mut models = Map::new();
    for list in book.models() {
        let mut fields = list_json(list);
        if list.currency != book.currency {
            fields.insert("currency".into(), json!(list.currency));
        }
        if list.date != book.date {
            fields.insert("date".into(), json!(list.date_text()));
        }
        models.insert(list.model.clone().unwrap_or_default(), Value::Object(fields));
    }
    let mut top = Map::from_iter([
        ("name".to_owned(), json!(book.name)),
        ("currency".to_owned(), json!(book.currency)),
    ]);
    if let Some(date) = book.date {
        top.insert("date".into(), json!(date.to_string()));
    }
    if let Some(source) = &book.source {
        top.insert("source".into(), json!(source));
    }
    top.insert("models".into(), Value::Object(models));
    Value::Object(top)
}

/// A list's prices as JSON, without what its book says.
#[must_use]
pub fn list_json(list: &PriceList) -> Map<String, Value> {
    let mut fields = sheet_json(&list.sheets[&Tier::Standard]);
    if let Some(provider) = &list.provider {
        fields.insert("provider".into(), json!(provider));
    }
    if let Some(minimum) = list.minimum {
        fields.insert("minimum".into(), json!(minimum));
    }
    for (tier, sheet) in list.sheets.iter().filter(|(tier, _)| **tier != Tier::Standard) {
        fields.insert(tier.as_str().into(), Value::Object(sheet_json(sheet)));
    }
    fields
}

fn sheet_json(sheet: &Sheet) -> Map<String, Value> {
    let mut fields = rates_json(&sheet.base);
    let long: Vec<_> = sheet
        .long
        .iter()
        .map(|(above, rates)| {
            let mut row = Map::from_iter([("above".to_owned(), json!(above))]);
            row.extend(rates_json(rates));
            Value::Object(row)
        })
        .collect();
    if !long.is_empty() {
        fields.insert("long".into(), Value::Array(long));
    }
    fields
}

fn rates_json(rates: &Rates) -> Map<String, Value> {
    let mut fields = Map::from_iter([("input".to_owned(), json!(rates.input.to_string()))]);
    if let Some(cached) = rates.cached_input {
        fields.insert("cached_input".into(), json!(cached.to_string()));
    }
    fields.insert("output".into(), json!(rates.output.to_string()));
    if !rates.writes.is_empty() {
        let writes = rates.writes.iter();
        let writes =
            writes.map(|(lifetime, price)| (lifetime.to_string(), json!(price.to_string())));
        fields.insert("write".into(), Value::Object(writes.collect()));
    }
    fields
}

#[cfg(test)]
#[path = "file/tests.rs"]
mod tests;
