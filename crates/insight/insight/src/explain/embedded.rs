//! JSON inside a text: the same value written in another order or with other spacing.

use serde_json::Value;
use tapri_ledger::MissReason;

/// How many openings before a difference are tried.
const TRIED: usize = 64;

/// The longest embedded JSON that is parsed, in bytes.
const LONGEST: usize = 1 << 20;

/// Where a difference lies in a JSON value that is the same in both texts: whether its keys or only its spacing
/// changed.
pub(super) fn same_value(old: &str, new: &str, at: usize) -> Option<MissReason> {
    let openings = old[..at].match_indices(['{', '[']).map(|(at, _)| at);
    // The outermost that reaches over the difference is near the start, so both ends of a long list are tried.
    let all: Vec<usize> = openings.collect();
    let tried: Vec<usize> = if all.len() <= TRIED {
        all
    } else {
        let half = TRIED / 2;
        all[..half].iter().chain(&all[all.len() - half..]).copied().collect()
    };
    tried.into_iter().find_map(|start| {
        let (a, end_a) = value(&old[start..])?;
        let (b, end_b) = value(&new[start..])?;
        let over = start + end_a > at && start + end_b > at;
        if !over || a != b {
            return None;
        }
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        let (x, y) = (&old[start..start + end_a], &new[start..start + end_b]);
        Some(if bare(x) == bare(y) {
            MissReason::WhitespaceOnly
        } else {
            MissReason::KeysReordered
        })
    })
}

/// The JSON value that a text begins with, and its length.
fn value(text: &str) -> Option<(Value, usize)> {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut stream = serde_json::Deserializer::from_str(&text[..end]).into_iter::<Value>();
    let value = stream.next()?.ok()?;
    Some((value, stream.byte_offset()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::difference::common;

    fn seen(old: &str, new: &str) -> Option<MissReason> {
        same_value(old, new, common(old, new))
    }

    #[test]
    fn order_and_spacing_are_told_apart() {
        let text = |json: &str| format!("Context [1]: {json}\nGo on.");
        let a = text(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#);
        assert_eq!(
            seen(&a, &text(r#"{"a": 1, "b": {"d": 3, "c": 2}}"#)),
            Some(MissReason::KeysReordered)
        );
        assert_eq!(
            seen(&a, &text(r#"{"a":1,"b":{"c":2,"d":3}}"#)),
            Some(MissReason::WhitespaceOnly)
        );
        assert_eq!(seen(&a, &text(r#"{"a": 1, "b": {"c": 2, "d": 4}}"#)), None);
        assert_eq!(seen("{ not json", "{ nor this"), None);
    }
}
