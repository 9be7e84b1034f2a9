//! What a number counts: currencies, percentages, units.

use super::{counted, difference};
use crate::semantic::question::{Kind, Question};

/// Spellings of one thing.
const CURRENCIES: [(&str, &[&str]); 5] = [
    ("pounds", &["£", "pound", "pounds", "gbp", "quid", "sterling"]),
    ("dollars", &["$", "dollar", "dollars", "usd"]),
    ("euros", &["€", "euro", "euros", "eur"]),
    ("yen", &["¥", "yen", "jpy"]),
    ("percent", &["%", "percent", "pct"]),
];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (a, b) = (units(a), units(b));
    difference(&counted(a.iter().map(String::as_str)), &counted(b.iter().map(String::as_str)))
}

fn units(question: &Question) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in question.words.iter().enumerate() {
        let currency = CURRENCIES.iter().find(|(_, all)| all.contains(&word.text.as_str()));
        if let Some((name, _)) = currency {
            found.push((*name).to_owned());
        } else if word.kind == Kind::Word
            && at > 0
            && question.words[at - 1].kind == Kind::Number
            && word.text.len() <= 4
        {
            // A short unit behind its number: GB, kg, km. Longer ones are words that other guards compare.
            found.push(word.text.trim_end_matches('s').to_owned());
        }
    }
    found
}
