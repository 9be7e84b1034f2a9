//! Fields of a price file, each checked, with errors that name the place.

use std::str::FromStr;

use rust_decimal::Decimal;
use serde_json::{Map, Value};

use crate::prices::PriceError;

/// Prices above this for a million tokens are refused: sums of them could overflow the exact decimals.
const HIGHEST: u64 = 1_000_000_000;

/// A table of a price file and where it stands.
pub(crate) struct Table<'a> {
    /// The file, as errors name it.
    pub(crate) file: &'a str,
    /// Where in the file: empty at the top, else `models.x.`.
    pub(crate) at: String,
    pub(crate) fields: &'a Map<String, Value>,
}

impl<'a> Table<'a> {
    /// The top of a file.
    pub(crate) fn top(file: &'a str, fields: &'a Map<String, Value>) -> Self {
        Table { file, at: String::new(), fields }
    }

    /// Refuses fields that aren't known, naming the nearest that is.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), PriceError> {
        match self.fields.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(field) => Err(PriceError::Unknown {
                file: self.file.to_owned(),
                field: format!("{}{field}", self.at),
                nearest: nearest(field, known),
            }),
        }
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    fn get(&self, field: &str) -> Result<&'a Value, PriceError> {
        self.fields.get(field).ok_or_else(|| PriceError::Missing {
            file: self.file.to_owned(),
            field: format!("{}{field}", self.at),
        })
    }

    pub(crate) fn wrong(&self, field: &str, message: impl Into<String>) -> PriceError {
        PriceError::Field {
            file: self.file.to_owned(),
            field: format!("{}{field}", self.at),
            message: message.into(),
        }
    }

    /// Text that isn't empty.
    pub(crate) fn words(&self, field: &str) -> Result<String, PriceError> {
        match self.get(field)?.as_str().map(str::trim) {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(self.wrong(field, "must be text, and not empty")),
        }
    }

    /// A field that may be absent.
    pub(crate) fn maybe<T>(
        &self,
        field: &str,
        read: impl FnOnce(&Self, &str) -> Result<T, PriceError>,
    ) -> Result<Option<T>, PriceError> {
        if self.has(field) { read(self, field).map(Some) } else { Ok(None) }
    }

    /// The price of a million tokens.
    pub(crate) fn price(&self, field: &str) -> Result<Decimal, PriceError> {
        let digits = match self.get(field)? {
            Value::String(text) => text.trim().to_owned(),
            // Written as it was typed: the shortest text that gives the same float.
            Value::Number(number) => number.to_string(),
            _ => return Err(self.wrong(field, "must be a number, or a number in quotes")),
        };
        checked(&digits).map_err(|message| self.wrong(field, message))
    }

    /// A count of tokens.
    pub(crate) fn count(&self, field: &str) -> Result<u64, PriceError> {
        self.get(field)?
            .as_u64()
            .ok_or_else(|| self.wrong(field, "must be a whole number of tokens"))
    }

    /// A date: `2026-11-30`.
    pub(crate) fn date(&self, field: &str) -> Result<jiff::civil::Date, PriceError> {
        let wrong = || self.wrong(field, "must be a date in quotes, like \"2026-11-30\"");
        self.get(field)?.as_str().and_then(|text| text.trim().parse().ok()).ok_or_else(wrong)
    }

    /// A table within.
    pub(crate) fn table(&self, field: &str) -> Result<Table<'a>, PriceError> {
        match self.get(field)? {
            Value::Object(fields) => {
                Ok(Table { file: self.file, at: format!("{}{field}.", self.at), fields })
            }
            _ => Err(self.wrong(field, "must be a table")),
        }
    }

    /// Tables within.
    pub(crate) fn tables(&self, field: &str) -> Result<Vec<Table<'a>>, PriceError> {
        let wrong = || self.wrong(field, "must be a list of tables");
        let rows = self.get(field)?.as_array().ok_or_else(wrong)?;
        let mut tables = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let fields = row.as_object().ok_or_else(wrong)?;
            let at = format!("{}{field}[{at}].", self.at);
            tables.push(Table { file: self.file, at, fields });
        }
        Ok(tables)
    }
}

/// A price as text, exact: `3`, `0.25`, `3e-06`.
pub(crate) fn checked(digits: &str) -> Result<Decimal, String> {
    let price = Decimal::from_str_exact(digits)
        .or_else(|_| Decimal::from_scientific(digits))
        .or_else(|_| Decimal::from_str(digits))
        .map_err(|_| format!("must be a decimal number, not '{digits}'"))?;
    if price.is_sign_negative() && !price.is_zero() {
        return Err(format!("must not be negative, and is {digits}"));
    }
    if price > Decimal::from(HIGHEST) {
        return Err(format!("is too large: {digits} for a million tokens"));
    }
    Ok(price.normalize())
}

/// The nearest of some names, as the end of an error.
pub(crate) fn nearest(field: &str, known: &[&str]) -> String {
    known
        .iter()
        .map(|known| (strsim::jaro_winkler(field, known), known))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, known)| format!("; did you mean '{known}'?"))
}
