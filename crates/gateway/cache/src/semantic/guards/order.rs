//! The same words the other way round: from A to B, from B to A.

use super::unmatched;
use crate::semantic::question::{Question, Term};

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (left, right) = unmatched(a, b);
    if !left.is_empty() || !right.is_empty() {
        return None;
    }
    let (of_a, of_b): (Vec<&Term>, Vec<&Term>) = (a.content().collect(), b.content().collect());
    let (x, y) = of_a.iter().zip(&of_b).find(|(x, y)| !x.is(y))?;
    Some(format!("'{}' stands where '{}' does in the other", x.text, y.text))
}
