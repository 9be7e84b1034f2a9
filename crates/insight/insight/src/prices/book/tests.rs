#![expect(clippy::unwrap_used)]

use rust_decimal::Decimal;

use super::*;
use crate::prices::{Lifetime, Tier};

fn book() -> PriceBook {
    let text = r#"
name = "b"
currency = "USD"
[models."gpt-x"]
input = 1
output = 2
[models."claude-y-20260101"]
input = 3
output = 4
[models."sellers/one/open-z"]
input = 5
output = 6
[models."sellers/two/open-z"]
input = 5
output = 6
[models."sellers/one/open-w"]
input = 5
output = 6
[models."sellers/two/open-w"]
input = 7
output = 6
"#;
    file::read("b.toml", text, Format::Toml).unwrap()
}

fn found(model: &str) -> String {
    book().find(model).unwrap().model.clone().unwrap()
}

#[test]
fn names_are_found() {
    assert_eq!(found("gpt-x"), "gpt-x");
    assert_eq!(found("GPT-X"), "gpt-x");
    assert_eq!(found("openai/gpt-x"), "gpt-x");
    assert_eq!(found("proxy/openai/gpt-x"), "gpt-x");
    assert_eq!(found("gpt-x-2026-11-30"), "gpt-x");
    assert_eq!(found("vertex/gpt-x@20261130"), "gpt-x");
    assert_eq!(found("gpt-x-latest"), "gpt-x");
    assert_eq!(found("claude-y-20260101"), "claude-y-20260101");
    assert_eq!(found("open-z"), "sellers/one/open-z");
}

#[test]
fn what_is_not_there_is_never_guessed() {
    let unknown = |model: &str| book().find(model).unwrap_err().to_string();
    assert_eq!(unknown("gtp-x"), "the price list 'b' has no model 'gtp-x'; near it are gpt-x");
    // Two sellers, two prices.
    assert_eq!(
        unknown("open-w"),
        "the price list 'b' has no model 'open-w'; near it are sellers/one/open-w, sellers/two/open-w, sellers/one/open-z, sellers/two/open-z"
    );
    assert_eq!(unknown("zzz"), "the price list 'b' has no model 'zzz'");
    assert!(unknown("gpt-x-12").starts_with("the price list 'b' has no model 'gpt-x-12'"));
    assert!(unknown("").starts_with("the price list 'b' has no model ''"));
}

#[test]
fn layers() {
    let text = "name='mine'\ncurrency='EUR'\n[models.gpt-x]\ninput=9\noutput=9\n";
    let over = file::read("o.toml", text, Format::Toml).unwrap();
    let both = book().under(over);
    let list = both.find("gpt-x").unwrap();
    assert_eq!((list.name.as_str(), list.currency.as_str()), ("mine", "EUR"));
    assert_eq!(both.find("open-z").unwrap().name, "b");
    let with_any = both.under(PriceBook::from(PriceList::example()));
    assert_eq!(with_any.find("anything").unwrap().name, "example");
    assert_eq!(with_any.find("gpt-x").unwrap().name, "mine");
}

#[test]
fn the_bundled_snapshot() {
    let book = PriceBook::bundled().unwrap();
    assert!(book.len() > 3_000, "{}", book.len());
    assert_eq!(book.date.unwrap().to_string(), "2026-11-30");
    let claude = book.find("anthropic/claude-sonnet-4-5").unwrap();
    let rates = claude.rates(Tier::Standard, 1_000);
    assert_eq!(rates.input, Decimal::from(3));
    assert_eq!(rates.cached_input, Some(Decimal::new(3, 1)));
    assert_eq!(rates.writes[&Lifetime::FiveMinutes], Decimal::new(375, 2));
    assert_eq!(rates.writes[&Lifetime::Hour], Decimal::from(6));
    assert_eq!(claude.rates(Tier::Batch, 1_000).output, Decimal::new(75, 1));
    assert_eq!(claude.minimum, Some(1024));
    let gpt = book.find("gpt-5.6").unwrap();
    assert_eq!(gpt.rates(Tier::Standard, 1_000).writes[&Lifetime::HalfHour], Decimal::from(5));
    assert_eq!(gpt.rates(Tier::Standard, 1_000).writes[&Lifetime::TwelveHours], Decimal::TEN);
    assert_eq!(gpt.rates(Tier::Standard, 300_000).input, Decimal::from(8));
    assert_eq!(gpt.rates(Tier::Batch, 300_000).cached_input, Some(Decimal::new(4, 1)));
    assert_eq!(gpt.thresholds(Tier::Standard), [272_000]);
}
