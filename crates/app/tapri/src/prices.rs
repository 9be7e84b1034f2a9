//! Price lists: what a million tokens cost, as exact decimals.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};
use serde_json::Value;

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Money {
    /// How much.
    pub(crate) amount: Decimal,
    /// Of what: `Rs`, `USD`.
    pub(crate) currency: String,
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Costs of single questions are small parts of a unit; four places are a hundredth of a paisa.
        let shown = self.amount.round_dp_with_strategy(4, RoundingStrategy::MidpointAwayFromZero);
        write!(f, "{} {shown:.4}", self.currency)
    }
}

/// What tokens cost.
///
/// A file in TOML or JSON:
///
/// ```toml
/// name = "my provider, July"
/// currency = "Rs"
/// input = "100"          # a million prompt tokens that were computed
/// cached_input = "20"    # a million prompt tokens that came from the cache
/// output = "400"         # a million answer tokens
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PriceList {
    /// Its name, shown beside every estimate.
    pub(crate) name: String,
    currency: String,
    input: Decimal,
    cached_input: Decimal,
    output: Decimal,
}

const FIELDS: [&str; 5] = ["name", "currency", "input", "cached_input", "output"];

/// Why a file is no price list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PriceError {
    #[error("failed to read the price list {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the price list {} is not {format}: {message}", path.display())]
    Syntax { path: PathBuf, format: &'static str, message: String },
    #[error("the price list {} has no field '{field}'", path.display())]
    Missing { path: PathBuf, field: &'static str },
    #[error("the price list {} has an unknown field '{field}'{}", path.display(), nearest(field))]
    Unknown { path: PathBuf, field: String },
    #[error("the price list {}: {field} {message}", path.display())]
    Field { path: PathBuf, field: &'static str, message: String },
}

fn nearest(field: &str) -> String {
    FIELDS
        .iter()
        .map(|known| (strsim::jaro_winkler(field, known), known))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, known)| format!("; did you mean '{known}'?"))
}

impl PriceList {
    /// The built-in example. No provider's prices, but of the usual proportions.
    pub(crate) fn example() -> Self {
        PriceList {
            name: "example".to_owned(),
            currency: "Rs".to_owned(),
            input: Decimal::from(100),
            cached_input: Decimal::from(20),
            output: Decimal::from(400),
        }
    }

    /// Reads a file: JSON if its name ends so, TOML otherwise.
    pub(crate) fn open(path: &Path) -> Result<Self, PriceError> {
        let text = fs::read_to_string(path)
            .map_err(|source| PriceError::Read { path: path.to_owned(), source })?;
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        PriceList::parse(path, &text, json)
    }

    fn parse(path: &Path, text: &str, json: bool) -> Result<Self, PriceError> {
        let at = || path.to_owned();
        let parsed = if json {
            serde_json::from_str::<Value>(text).map_err(|error| error.to_string())
        } else {
            toml::from_str::<Value>(text).map_err(|error| error.message().to_owned())
        };
        let format = if json { "JSON" } else { "TOML" };
        let fields = match parsed {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => {
                return Err(PriceError::Syntax {
                    path: at(),
                    format,
                    message: "it is no table".to_owned(),
                });
            }
            Err(message) => return Err(PriceError::Syntax { path: at(), format, message }),
        };
        if let Some(field) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return Err(PriceError::Unknown { path: at(), field: field.clone() });
        }
        let get =
            |field| fields.get(field).ok_or_else(|| PriceError::Missing { path: at(), field });
        let wrong = |field, message: &str| PriceError::Field {
            path: at(),
            field,
            message: message.to_owned(),
        };
        let words = |field| match get(field)?.as_str().map(str::trim) {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(wrong(field, "must be text, and not empty")),
        };
        let price = |field| {
            let digits = match get(field)? {
                Value::String(text) => text.trim().to_owned(),
                // Written as it was typed: the shortest text that gives the same float.
                Value::Number(number) => number.to_string(),
                _ => return Err(wrong(field, "must be a number, or a number in quotes")),
            };
            let price =
                Decimal::from_str(&digits).or_else(|_| Decimal::from_scientific(&digits)).map_err(
                    |_| wrong(field, &format!("must be a decimal number, not '{digits}'")),
                )?;
            if price.is_sign_negative() && !price.is_zero() {
                return Err(wrong(field, &format!("must not be negative, and is {digits}")));
            }
            // Above this a session's cost could overflow the exact decimals.
            if price > Decimal::from(1_000_000_000_000_u64) {
                return Err(wrong(field, &format!("is too large: {digits} for a million tokens")));
            }
            Ok(price)
        };
        Ok(PriceList {
            name: words("name")?,
            currency: words("currency")?,
            input: price("input")?,
            cached_input: price("cached_input")?,
            output: price("output")?,
        })
    }

    /// What a question costs: `prompt` tokens, of which `cached` came from the cache, and `answer` tokens.
    pub(crate) fn cost(&self, prompt: usize, cached: usize, answer: usize) -> Money {
        let cached = cached.min(prompt);
        let millionths = Decimal::from(prompt - cached) * self.input
            + Decimal::from(cached) * self.cached_input
            + Decimal::from(answer) * self.output;
        self.money(millionths / Decimal::from(1_000_000))
    }

    /// An amount in this list's currency.
    pub(crate) fn money(&self, amount: Decimal) -> Money {
        Money { amount: amount.normalize(), currency: self.currency.clone() }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: &str =
        "name = 'n'\ncurrency = 'Rs'\ninput = 100\ncached_input = \"20.5\"\noutput = 0.1\n";

    fn toml(text: &str) -> Result<PriceList, PriceError> {
        PriceList::parse(Path::new("p.toml"), text, false)
    }

    #[test]
    fn costs_are_exact() {
        let list = PriceList::example();
        assert_eq!(list.cost(30_745, 0, 16).to_string(), "Rs 3.0809");
        assert_eq!(list.cost(30_745, 30_592, 16).amount.to_string(), "0.63354");
        // A sum of 0.1s that floating point gets wrong.
        let list = toml(GOOD).unwrap();
        let sum: Decimal = (0..10).map(|_| list.cost(0, 0, 1_000_000).amount).sum();
        assert_eq!(sum, Decimal::ONE);
        assert_eq!(list.cost(1_000_000, 1_000_000, 0).to_string(), "Rs 20.5000");
    }

    #[test]
    fn json_is_the_same() {
        let json = r#"{"name": "n", "currency": "Rs", "input": 100, "cached_input": "20.5", "output": 0.1}"#;
        assert_eq!(PriceList::parse(Path::new("p.json"), json, true).unwrap(), toml(GOOD).unwrap());
    }

    #[test]
    fn errors_name_the_field() {
        let change = |from: &str, to: &str| toml(&GOOD.replace(from, to)).unwrap_err().to_string();
        assert_eq!(change("output = 0.1\n", ""), "the price list p.toml has no field 'output'");
        assert_eq!(
            change("cached_input", "cached_inputs"),
            "the price list p.toml has an unknown field 'cached_inputs'; did you mean 'cached_input'?"
        );
        assert_eq!(
            change("100", "-1"),
            "the price list p.toml: input must not be negative, and is -1"
        );
        assert_eq!(
            change("100", "'a lot'"),
            "the price list p.toml: input must be a decimal number, not 'a lot'"
        );
        assert_eq!(
            change("100", "[1]"),
            "the price list p.toml: input must be a number, or a number in quotes"
        );
        assert_eq!(
            change("'Rs'", "''"),
            "the price list p.toml: currency must be text, and not empty"
        );
        assert!(change("100", "1e300").contains("input"));
        assert!(change("100", "'99999999999999999999999999'").contains("too large"));
        assert!(change("name =", "name").contains("is not TOML"));
        let json = PriceList::parse(Path::new("p.json"), "[]", true).unwrap_err().to_string();
        assert_eq!(json, "the price list p.json is not JSON: it is no table");
    }
}
