//! The list of prices that LiteLLM keeps and most tools share: one JSON object, a field for each model, prices for
//! single tokens as floats (`3e-06`).
//!
//! Numbers are taken from the text, digit by digit, and never pass through a float. A field's name says what it is
//! for: `cache_creation_input_token_cost`, then `_above_1hr`, `_above_200k_tokens`, `_batches`, in any number.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use serde_json::{Map, Value};

use crate::prices::field::checked;
use crate::prices::file::fill_tier;
use crate::prices::list::Sheet;
use crate::prices::{Lifetime, PriceBook, PriceError, PriceList, Rates, Tier};

/// The modes of models that answer a prompt with text.
const MODES: [&str; 3] = ["chat", "completion", "responses"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Input,
    Cached,
    Output,
    /// The shortest lifetime there is.
    Write,
    WriteHour,
    WriteTwelve,
}

type Found = BTreeMap<(Tier, u64, Class), Decimal>;

/// Reads the list. Models without a price for a prompt's and an answer's tokens, and those that don't answer with
/// text, are left out.
///
/// # Errors
/// [`PriceError`], which names the model and the field.
pub fn read(file: &str, text: &str, name: &str) -> Result<PriceBook, PriceError> {
    let parsed = serde_json::from_str::<Value>(&quote_numbers(text));
    let syntax =
        |message: String| PriceError::Syntax { file: file.to_owned(), format: "JSON", message };
    let Value::Object(models) = parsed.map_err(|error| syntax(error.to_string()))? else {
        return Err(syntax("it is no table".to_owned()));
    };
    let mut book = PriceBook::new(name.to_owned());
    for (model, fields) in &models {
        let mode = fields.get("mode").and_then(Value::as_str);
        let Some(fields) = fields.as_object().filter(|_| mode.is_some_and(|m| MODES.contains(&m)))
        else {
            continue;
        };
        let field = |field: String, message| PriceError::Field {
            file: file.to_owned(),
            field: format!("{model}.{field}"),
            message,
        };
        let found = prices(fields).map_err(|(name, message)| field(name, message))?;
        if let Some(sheets) = sheets(model, &found) {
            let minimum = fields.get("prompt_cache_min_tokens").and_then(Value::as_str);
            book.insert(PriceList {
                name: name.to_owned(),
                model: Some(model.clone()),
                provider: fields.get("litellm_provider").and_then(Value::as_str).map(str::to_owned),
                currency: "USD".to_owned(),
                date: None,
                source: None,
                minimum: minimum.and_then(|digits| digits.parse().ok()),
                sheets,
            });
        }
    }
    if book.is_empty() {
        return Err(PriceError::Empty { file: file.to_owned() });
    }
    Ok(book)
}

/// Whether a JSON text looks like this list: no `models`, and prices for single tokens.
#[must_use]
pub fn looks_like(text: &str) -> bool {
    text.contains("\"input_cost_per_token\"")
}

fn prices(fields: &Map<String, Value>) -> Result<Found, (String, String)> {
    let mut found = Found::new();
    add(&mut found, fields, 0)?;
    // Another way to write tiers by prompt length: a list of ranges.
    for row in fields.get("tiered_pricing").and_then(Value::as_array).into_iter().flatten() {
        let Some(row) = row.as_object() else { continue };
        let start = row.get("range").and_then(|range| range.get(0)).and_then(Value::as_str);
        let start = start.and_then(|digits| digits.parse::<Decimal>().ok());
        let start = start.and_then(|start| u64::try_from(start).ok()).unwrap_or(0);
        add(&mut found, row, start)?;
    }
    Ok(found)
}

fn add(found: &mut Found, fields: &Map<String, Value>, start: u64) -> Result<(), (String, String)> {
    for (name, value) in fields {
        let (Some((class, tier, above)), Value::String(digits)) = (meaning(name), value) else {
            continue;
        };
        let token = checked(digits).map_err(|message| (name.clone(), message))?;
        let million = token * Decimal::from(1_000_000);
        found.entry((tier, above.max(start), class)).or_insert(million.normalize());
    }
    Ok(())
}

/// What a field's price is for; `None` for other fields.
fn meaning(name: &str) -> Option<(Class, Tier, u64)> {
    let starts = [
        // An older name for the same.
        ("input_cost_per_token_cache_hit", Class::Cached),
        ("input_cost_per_token", Class::Input),
        ("output_cost_per_token", Class::Output),
        ("cache_read_input_token_cost", Class::Cached),
        ("cache_creation_input_token_cost", Class::Write),
    ];
    let (mut rest, mut class) =
        starts.iter().find_map(|(start, class)| Some((name.strip_prefix(start)?, *class)))?;
    let (mut tier, mut above) = (Tier::Standard, 0);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("_above_1hr") {
            (rest, class) = (after, Class::WriteHour);
        } else if let Some(after) = rest.strip_prefix("_above_12hr") {
            (rest, class) = (after, Class::WriteTwelve);
        } else if let Some(after) = rest.strip_prefix("_above_") {
            let (thousands, after) = after.split_once("k_tokens")?;
            above = thousands.parse::<u64>().ok()?.checked_mul(1_000)?;
            rest = after;
        } else {
            tier = match rest {
                "_batches" => Tier::Batch,
                "_flex" => Tier::Flex,
                "_priority" => Tier::Priority,
                _ => return None,
            };
            rest = "";
        }
    }
    Some((class, tier, above))
}

/// The sheets of a model, where it has prices for computed and for answered tokens.
fn sheets(model: &str, found: &Found) -> Option<BTreeMap<Tier, Sheet>> {
    // OpenAI's shortest lifetime is half an hour, everyone else's 5 minutes.
    let shortest = if model.contains("gpt-") { Lifetime::HalfHour } else { Lifetime::FiveMinutes };
    let rates = |tier, above| {
        let get = |class| found.get(&(tier, above, class)).copied();
        let input = get(Class::Input)?;
        let writes = [
            (shortest, get(Class::Write)),
            (Lifetime::Hour, get(Class::WriteHour)),
            (Lifetime::TwelveHours, get(Class::WriteTwelve)),
        ];
        Some(Rates {
            input,
            cached_input: get(Class::Cached),
            output: get(Class::Output)?,
            // A write that costs nothing is no write: the tokens are computed, and billed so.
            writes: writes
                .into_iter()
                .filter_map(|(lifetime, price)| Some((lifetime, price.filter(|p| !p.is_zero())?)))
                .collect(),
        })
    };
    let mut sheets: BTreeMap<Tier, Sheet> = BTreeMap::new();
    for tier in Tier::ALL {
        let Some(base) = rates(tier, 0) else { continue };
        let mut long = BTreeMap::new();
        let thresholds = found.keys().filter(|key| key.0 == tier && key.1 > 0).map(|key| key.1);
        for above in thresholds {
            if let Some(mut own) = rates(tier, above) {
                own.fill_from(&base, true);
                long.insert(above, own);
            }
        }
        let mut sheet = Sheet { base, long };
        if let Some(standard) = sheets.get(&Tier::Standard) {
            fill_tier(&mut sheet, standard);
        }
        sheets.insert(tier, sheet);
    }
    sheets.contains_key(&Tier::Standard).then_some(sheets)
}

/// JSON with every number in quotes.
fn quote_numbers(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + text.len() / 8);
    let (mut in_text, mut escaped, mut in_number) = (false, false, false);
    for c in text.chars() {
        if !in_text {
            let number =
                matches!(c, '0'..='9' | '-' | '+' | '.') || in_number && matches!(c, 'e' | 'E');
            if number != in_number {
                quoted.push('"');
                in_number = number;
            }
        }
        quoted.push(c);
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            _ => {}
        }
    }
    if in_number {
        quoted.push('"');
    }
    quoted
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_quoted_and_texts_left() {
        let text = r#"{"a-1": [3e-06, -1, 2.5E+3], "b": "x \" 12 \\", "c": null, "d": true}"#;
        let quoted =
            r#"{"a-1": ["3e-06", "-1", "2.5E+3"], "b": "x \" 12 \\", "c": null, "d": true}"#;
        assert_eq!(quote_numbers(text), quoted);
        assert_eq!(quote_numbers("12"), "\"12\"");
    }

    #[test]
    fn names_of_fields() {
        let of = |name| meaning(name);
        assert_eq!(of("input_cost_per_token"), Some((Class::Input, Tier::Standard, 0)));
        assert_eq!(
            of("cache_creation_input_token_cost_above_12hr_above_272k_tokens_batches"),
            Some((Class::WriteTwelve, Tier::Batch, 272_000))
        );
        assert_eq!(
            of("cache_creation_input_token_cost_above_1hr_above_200k_tokens"),
            Some((Class::WriteHour, Tier::Standard, 200_000))
        );
        assert_eq!(of("input_cost_per_token_cache_hit"), Some((Class::Cached, Tier::Standard, 0)));
        assert_eq!(of("output_cost_per_token_above_128k_tokens_ultrafast"), None);
        assert_eq!(of("input_cost_per_token_above_manyk_tokens"), None);
        assert_eq!(of("max_input_tokens"), None);
    }

    #[test]
    fn prices_are_exact_and_tiers_replace() {
        let text = r#"{
            "sample_spec": {"mode": "one of: chat", "input_cost_per_token": 1},
            "embedder": {"mode": "embedding", "input_cost_per_token": 1e-7, "output_cost_per_token": 0.0},
            "free-form": {"mode": "chat", "input_cost_per_second": 1e-7},
            "m": {"mode": "chat", "litellm_provider": "p", "prompt_cache_min_tokens": 512,
                "input_cost_per_token": 8.900000000000001e-07, "output_cost_per_token": 3e-06,
                "cache_creation_input_token_cost": 0.0},
            "t": {"mode": "chat", "tiered_pricing": [
                {"range": [0, 256000.0], "input_cost_per_token": 5e-08, "output_cost_per_token": 4e-07},
                {"range": [256000.0, 1000000.0], "input_cost_per_token": 2.5e-07, "output_cost_per_token": 2e-06}]}
        }"#;
        let book = read("l.json", text, "l").unwrap();
        assert_eq!(book.len(), 2);
        let m = book.find("m").unwrap();
        assert_eq!(m.rates(Tier::Standard, 1).input.to_string(), "0.8900000000000001");
        assert!(m.rates(Tier::Standard, 1).writes.is_empty());
        assert_eq!((m.minimum, m.provider.as_deref()), (Some(512), Some("p")));
        let t = book.find("t").unwrap();
        assert_eq!(t.rates(Tier::Standard, 256_000).input.to_string(), "0.05");
        assert_eq!(t.rates(Tier::Standard, 256_001).output.to_string(), "2");
    }

    #[test]
    fn errors_name_the_model() {
        let wrong = |text| read("l.json", text, "l").unwrap_err().to_string();
        assert_eq!(wrong("{}"), "the price list l.json has no model with prices");
        assert_eq!(wrong("[1]"), "the price list l.json is not JSON: it is no table");
        assert!(wrong("{\"a\": ").starts_with("the price list l.json is not JSON: "));
        assert_eq!(
            wrong(r#"{"m": {"mode": "chat", "input_cost_per_token": -1e-6}}"#),
            "the price list l.json: m.input_cost_per_token must not be negative, and is -1e-6"
        );
    }
}
