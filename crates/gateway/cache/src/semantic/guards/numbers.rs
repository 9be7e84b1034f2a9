//! Numbers, in digits or in words, ordinals and codes that hold digits.

use super::{counted, difference};
use crate::semantic::question::{Kind, Question};

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let numbers = |q: &'_ Question| -> Vec<String> {
        let told = q.words.iter().filter(|w| matches!(w.kind, Kind::Number | Kind::Code));
        told.map(|w| w.text.clone()).collect()
    };
    let (a, b) = (numbers(a), numbers(b));
    difference(&counted(a.iter().map(String::as_str)), &counted(b.iter().map(String::as_str)))
}
