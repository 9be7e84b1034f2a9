//! What to show of a changed value: the whole word or phrase around it, short, and safe to print.

use std::ops::Range;

use super::difference::common_end;

/// The longest value shown, in characters.
const SHOWN: usize = 80;

/// How far the end of a change is looked for, in characters.
const REACH: usize = 400;

/// As many equal characters end a change.
const RESYNC: usize = 8;

/// The change that begins at byte `at`, in both texts: up to where they agree again, or their ends.
pub(super) fn hunk(old: &str, new: &str, at: usize) -> (Range<usize>, Range<usize>) {
    let (a, b) = (&old[at..], &new[at..]);
    let back = common_end(a, b);
    let (whole_a, whole_b) = (a.len() - back, b.len() - back);
    let near = |text: &str| -> Vec<(usize, char)> { text.char_indices().take(REACH).collect() };
    let (x, y) = (near(a), near(b));
    for total in 0..x.len() + y.len() {
        for i in total.saturating_sub(y.len())..=total.min(x.len()) {
            let (rest_x, rest_y) = (&x[i..], &y[total - i..]);
            let run = rest_x.iter().zip(rest_y).take_while(|(p, q)| p.1 == q.1).count();
            if run >= RESYNC {
                let (end_x, end_y) = (rest_x[0].0, rest_y[0].0);
                // A change that reaches to a common end is no longer than that.
                return if end_x + end_y < whole_a + whole_b {
                    (at..at + end_x, at..at + end_y)
                } else {
                    (at..at + whole_a, at..at + whole_b)
                };
            }
        }
    }
    (at..at + whole_a, at..at + whole_b)
}

/// A change widened to whole words. What was only put in or taken out stands alone, moved to where a word begins.
pub(super) fn words(old: &str, new: &str, at: usize) -> (Range<usize>, Range<usize>) {
    let (a, b) = hunk(old, new, at);
    let inner = |c: &char| !c.is_whitespace() && !matches!(c, '"' | '<' | '>' | '{' | '}' | ',');
    let before: usize =
        new[..at].chars().rev().take(24).take_while(inner).map(char::len_utf8).sum();
    if let Some(alone) = put_in(old, new, (&a, &b), before) {
        return alone;
    }
    let after: usize = new[b.end..].chars().take(24).take_while(inner).map(char::len_utf8).sum();
    let after = if old[a.end..].starts_with(&new[b.end..b.end + after]) { after } else { 0 };
    let (old_range, new_range) = (at - before..a.end + after, at - before..b.end + after);
    // What ends a sentence in both is no part of the value.
    let point = |text: &str| text.ends_with(['.', ',', ';', ':', '!', '?']);
    if point(&old[old_range.clone()]) && point(&new[new_range.clone()]) && after > 0 {
        return (old_range.start..old_range.end - 1, new_range.start..new_range.end - 1);
    }
    (old_range, new_range)
}

/// A change that only puts in or only takes out, whole words of it: "a b" to "a b b" may have put in either. `None`
/// where it changes a word.
fn put_in(
    old: &str,
    new: &str,
    (a, b): (&Range<usize>, &Range<usize>),
    before: usize,
) -> Option<(Range<usize>, Range<usize>)> {
    let (longer, hunk) = match (a.is_empty(), b.is_empty()) {
        (true, false) => (new, b),
        (false, true) => (old, a),
        _ => return None,
    };
    let start = hunk.start - before;
    let moves = longer[..hunk.end].ends_with(&longer[start..hunk.start]);
    let whole = longer[hunk.start..].chars().next().is_some_and(char::is_whitespace)
        || longer[..hunk.end].ends_with(char::is_whitespace);
    match (moves && hunk.len() > before, before == 0 || whole) {
        (true, _) => Some((a.start - before..a.end - before, b.start - before..b.end - before)),
        (false, true) => Some((a.clone(), b.clone())),
        (false, false) => None,
    }
}

/// A value as it is shown: control characters written out, long ones cut.
pub(super) fn shown(value: &str) -> String {
    let mut out = String::new();
    for (count, c) in value.chars().enumerate() {
        if count == SHOWN {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() || is_format(c) => out.push_str(&c.escape_unicode().to_string()),
            c => out.push(c),
        }
    }
    out
}

/// Characters that turn the direction of text or can't be seen.
fn is_format(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::difference::common;

    fn seen<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
        let (a, b) = words(old, new, common(old, new));
        (&old[a], &new[b])
    }

    #[test]
    fn changes_are_whole_words() {
        assert_eq!(
            seen("Answer in English, always.", "Answer in German, always."),
            ("English", "German")
        );
        assert_eq!(seen("a b c d e f g h i j", "a x c d e f g h i j"), ("b", "x"));
        assert_eq!(seen("It is red.", "It is blue."), ("red", "blue"));
        let longer = "Call me. Do not go. And more. Answer in prose.";
        assert_eq!(seen("Call me. Do not go. Answer in prose.", longer), ("", "And more. "));
        assert_eq!(seen(longer, "Call me. Do not go. Answer in prose."), ("And more. ", ""));
        assert_eq!(seen("a line\nanother line", "a line\r\nanother line"), ("", "\r"));
        assert_eq!(seen("unlike that we know", "unlikely that we know"), ("unlike", "unlikely"));
        assert_eq!(seen("one", "one two"), ("", " two"));
        assert_eq!(seen("héllo wörld and more", "héllo wird and more"), ("wörld", "wird"));
    }

    #[test]
    fn what_is_shown_is_safe() {
        assert_eq!(shown("a\n\u{1b}[31m\u{202e}x"), "a\\n\\u{1b}[31m\\u{202e}x");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SHOWN + 1);
    }
}
