//! Whether two answers are the same, as far as their text tells.

/// Whether they are the same but for case, spaces, punctuation at the ends of words, and the marks of Markdown.
///
/// Nothing less will do: how near the vectors of two answers are is no label, since it is the failure that is measured.
pub fn same_text(a: &str, b: &str) -> bool {
    let (a, b) = (normal(a), normal(b));
    !a.is_empty() && a == b
}

fn normal(text: &str) -> Vec<String> {
    text.split_whitespace()
        .map(|word| {
            let inner = word.trim_matches(|c: char| {
                matches!(
                    c,
                    '.' | ','
                        | ';'
                        | ':'
                        | '!'
                        | '?'
                        | '*'
                        | '_'
                        | '`'
                        | '"'
                        | '\''
                        | '#'
                        | '('
                        | ')'
                )
            });
            inner.to_lowercase()
        })
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::same_text;

    #[test]
    fn the_same_and_not() {
        assert!(same_text("Six months' notice.", "six  months' **notice**"));
        assert!(!same_text("Six months' notice.", "Three months' notice."));
        assert!(!same_text("It costs 5.", "It costs -5."));
        assert!(!same_text("", ""));
    }
}
