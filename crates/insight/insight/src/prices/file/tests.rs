#![expect(clippy::unwrap_used)]

use rust_decimal::Decimal;

use super::*;
use crate::prices::Billed;

const GOOD: &str =
    "name = 'n'\ncurrency = 'Rs'\ninput = 100\ncached_input = \"20.5\"\noutput = 0.1\n";

fn parse(text: &str) -> Result<PriceList, PriceError> {
    read("p.toml", text, Format::Toml).map(|book| book.find("any").unwrap().clone())
}

fn call(uncached: u64, cached: u64, answer: u64) -> Billed {
    Billed { uncached, cached, answer, ..Billed::default() }
}

#[test]
fn costs_are_exact() {
    let list = PriceList::example();
    assert_eq!(list.cost(&call(30_745, 0, 16)).to_string(), "Rs 3.0809");
    assert_eq!(list.cost(&call(153, 30_592, 16)).amount.to_string(), "0.63354");
    // A sum of 0.1s that floating point gets wrong.
    let list = parse(GOOD).unwrap();
    let sum: Decimal = (0..10).map(|_| list.cost(&call(0, 0, 1_000_000)).amount).sum();
    assert_eq!(sum, Decimal::ONE);
    assert_eq!(list.cost(&call(0, 1_000_000, 0)).to_string(), "Rs 20.5000");
}

#[test]
fn json_is_the_same() {
    let json =
        r#"{"name": "n", "currency": "Rs", "input": 100, "cached_input": "20.5", "output": 0.1}"#;
    let book = read("p.json", json, Format::Json).unwrap();
    assert_eq!(book.find("any").unwrap(), &parse(GOOD).unwrap());
}

#[test]
fn errors_name_the_field() {
    let change = |from: &str, to: &str| parse(&GOOD.replace(from, to)).unwrap_err().to_string();
    assert_eq!(change("output = 0.1\n", ""), "the price list p.toml has no field 'output'");
    assert_eq!(
        change("cached_input", "cached_inputs"),
        "the price list p.toml has an unknown field 'cached_inputs'; did you mean 'cached_input'?"
    );
    assert_eq!(change("100", "-1"), "the price list p.toml: input must not be negative, and is -1");
    assert_eq!(
        change("100", "'a lot'"),
        "the price list p.toml: input must be a decimal number, not 'a lot'"
    );
    assert_eq!(
        change("100", "[1]"),
        "the price list p.toml: input must be a number, or a number in quotes"
    );
    assert_eq!(change("'Rs'", "''"), "the price list p.toml: currency must be text, and not empty");
    assert!(change("100", "1e300").contains("input"));
    assert!(change("100", "'99999999999999999999999999'").contains("too large"));
    assert!(change("name =", "name").contains("is not TOML"));
    let json = read("p.json", "[]", Format::Json).unwrap_err().to_string();
    assert_eq!(json, "the price list p.json is not JSON: it is no table");
}

const BOOK: &str = r#"
name = "ours"
currency = "USD"
date = "2026-11-30"
[models."big"]
input = "3"
cached_input = "0.3"
output = "15"
minimum = 1024
write = { "5m" = "3.75", "1h" = "6" }
batch = { input = "1.5", output = "7.5" }
long = [{ above = 200000, input = "6", output = "22.5" }]
[models."small"]
currency = "Rs"
input = 1
output = 2
"#;

#[test]
fn a_book() {
    let book = read("b.toml", BOOK, Format::Toml).unwrap();
    let big = book.find("big").unwrap();
    assert_eq!(big.minimum, Some(1024));
    assert_eq!(big.date_text().as_deref(), Some("2026-11-30"));
    // What a long prompt's row leaves out follows its input price.
    let long = big.rates(Tier::Standard, 200_001);
    assert_eq!(long.cached_input, Some(Decimal::new(6, 1)));
    assert_eq!(long.write(Some(Lifetime::FiveMinutes)), Decimal::new(75, 1));
    // In a batch writes keep their multiplier; reads have no price of their own.
    let batch = big.rates(Tier::Batch, 10);
    assert_eq!(batch.write(Some(Lifetime::Hour)), Decimal::from(3));
    assert_eq!(batch.cached(), Decimal::new(15, 1));
    let small = book.find("small").unwrap();
    assert_eq!((small.currency.as_str(), small.name.as_str()), ("Rs", "ours"));
    assert!(!small.has(Tier::Batch));
    assert_eq!(small.rates(Tier::Batch, 10).input, Decimal::ONE);
}

#[test]
fn a_book_comes_back() {
    let book = read("b.toml", BOOK, Format::Toml).unwrap();
    let big = book.find("big").unwrap();
    let again = read("b.json", &to_json(&book).to_string(), Format::Json).unwrap();
    assert_eq!(again.find("big").unwrap(), big);
}

#[test]
fn errors_in_a_book_name_the_model() {
    let change = |from: &str, to: &str| {
        read("b.toml", &BOOK.replace(from, to), Format::Toml).unwrap_err().to_string()
    };
    assert_eq!(
        change("input = 1\n", "input = -1\n"),
        "the price list b.toml: models.small.input must not be negative, and is -1"
    );
    assert_eq!(
        change("\"5m\" =", "\"5min\" ="),
        "the price list b.toml has an unknown field 'models.big.write.5min'; did you mean '5m'?"
    );
    assert_eq!(
        change("above = 200000, ", ""),
        "the price list b.toml has no field 'models.big.long[0].above'"
    );
    assert_eq!(
        change("2026-11-30", "yesterday"),
        "the price list b.toml: date must be a date in quotes, like \"2026-11-30\""
    );
    assert_eq!(
        read("b.toml", "name='x'\ncurrency='x'\n[models]", Format::Toml).unwrap_err().to_string(),
        "the price list b.toml has no model with prices"
    );
}

#[test]
fn formats_by_name() {
    assert_eq!(Format::of("A.JSON"), Format::Json);
    assert_eq!(Format::of("a.json.gz"), Format::Json);
    assert_eq!(Format::of("a.toml"), Format::Toml);
}
