//! Spaces and blank lines, made regular. Words stay as they are.

/// Line ends become `\n`; spaces and tabs at a line's end go; a run of blank lines becomes one; blank lines at
/// the text's start and end go. Form feeds (page breaks) stay.
pub fn text(raw: &str) -> String {
    lines(raw, |line| line.trim_end_matches([' ', '\t']).to_owned())
}

/// [`text`], and a run of spaces inside a line becomes one, those at its start go, and control characters that
/// no one typed go. For text that was put together from positions on a page, where spaces mean nothing.
pub fn page(raw: &str) -> String {
    lines(raw, |line| {
        let mut kept = String::with_capacity(line.len());
        for c in line.chars() {
            match c {
                ' ' | '\t' if kept.is_empty() || kept.ends_with(' ') => {}
                ' ' | '\t' => kept.push(' '),
                // A soft hyphen marks where a word may break; it is no letter.
                '\u{ad}' => {}
                c if c.is_control() && c != '\u{c}' => {}
                c => kept.push(c),
            }
        }
        kept.truncate(kept.trim_end_matches(' ').len());
        kept
    })
}

fn lines(raw: &str, tidy: impl Fn(&str) -> String) -> String {
    let raw = raw.replace("\r\n", "\n").replace('\r', "\n");
    let mut text = String::with_capacity(raw.len());
    let mut blank = false;
    for line in raw.split('\n') {
        let line = tidy(line);
        if line.is_empty() {
            blank = !text.is_empty();
            continue;
        }
        if !text.is_empty() {
            text.push_str(if blank { "\n\n" } else { "\n" });
        }
        blank = false;
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blank_lines_and_line_ends() {
        assert_eq!(text("\n\n a  b \r\n\t\n\n\nc\rd\n\n"), " a  b\n\nc\nd");
        assert_eq!(text("one\n\u{c}two"), "one\n\u{c}two");
        assert_eq!(text(" \n\t\n"), "");
    }

    #[test]
    fn spaces_of_a_page() {
        assert_eq!(page("  No.  11\u{0}–889. \n \n  x\u{ad}y "), "No. 11–889.\n\nxy");
    }

    proptest! {
        #[test]
        fn words_stay_and_once_is_enough(raw in "[a-c \\t\\r\\n\u{c}é-]{0,60}") {
            for normal in [text, page] {
                let once = normal(&raw);
                prop_assert_eq!(&normal(&once), &once);
                prop_assert!(once.split_whitespace().eq(raw.split_whitespace()), "{:?} became {:?}", raw, once);
            }
        }
    }
}
