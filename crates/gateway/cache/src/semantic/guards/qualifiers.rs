//! One asks what the other asks, and more: account, joint account.

use super::{against, unmatched};
use crate::semantic::question::Question;

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (left, right) = unmatched(a, b);
    let more = match (left.is_empty(), right.is_empty()) {
        (false, true) => &left,
        (true, false) => &right,
        _ => return None,
    };
    let words: Vec<&str> = more.iter().map(|term| term.text.as_str()).collect();
    let (a, b) = if right.is_empty() {
        (words.join(" "), String::new())
    } else {
        (String::new(), words.join(" "))
    };
    Some(against(&a, &b))
}
