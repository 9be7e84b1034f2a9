//! Pages of a file and documents in a text.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// What begins a page or a document: a form feed, a tag, a line that says so.
static BREAK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?m)\x0c|^[ \t]*<(?:document|file|doc|page|source)\b[^>\n]*>|^(?:-{2,} ?|={2,} ?|\[|#{1,4} )?[Pp]age \d+(?: of \d+)?(?:\]| ?-{2,}| ?={2,})?[ \t]*$",
    )
    .ok()
});

/// What numbers a page inside its first line; two copies of a page at other places differ in it.
static NUMBER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\b(?:index|id|n|number)="?\d+"?|[Pp]age \d+(?: of \d+)?"#).ok());

/// A text divided into pages.
pub(super) struct Pages<'a> {
    text: &'a str,
    /// Where each page begins; text before the first page is none.
    starts: Vec<usize>,
}

impl<'a> Pages<'a> {
    /// `None` where a text has fewer than two pages.
    pub(super) fn of(text: &'a str) -> Option<Self> {
        let found = BREAK.as_ref()?.find_iter(text);
        let mut starts: Vec<usize> = found.map(|found| found.start()).collect();
        // A form feed stands between pages: the first page has none before it.
        if starts.first().is_some_and(|at| text[*at..].starts_with('\u{c}') && *at > 0) {
            starts.insert(0, 0);
        }
        (starts.len() >= 2).then_some(Pages { text, starts })
    }

    /// The page of a byte, from 1, and where it begins; `None` before the first.
    pub(super) fn at(&self, byte: usize) -> Option<(u64, usize)> {
        let page = self.starts.partition_point(|start| *start <= byte);
        Some((page as u64, *self.starts.get(page.checked_sub(1)?)?))
    }

    fn texts(&self) -> Vec<String> {
        let ends = self.starts.iter().skip(1).copied().chain([self.text.len()]);
        self.starts
            .iter()
            .zip(ends)
            .map(|(start, end)| {
                let page = self.text[*start..end].trim_matches(|c: char| c.is_whitespace());
                let (head, rest) = page.split_once('\n').unwrap_or((page, ""));
                match NUMBER.as_ref() {
                    Some(number) => format!("{}\n{rest}", number.replace_all(head, "")),
                    None => page.to_owned(),
                }
            })
            .collect()
    }
}

/// Whether both texts have the same pages in another order.
pub(super) fn reordered(old: &Pages<'_>, new: &Pages<'_>) -> bool {
    let (a, b) = (old.texts(), new.texts());
    a != b && same_members(&a, &b)
}

/// Whether two lists hold the same members.
pub(super) fn same_members<T: Eq + std::hash::Hash>(a: &[T], b: &[T]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut count: HashMap<&T, i64> = HashMap::new();
    a.iter().for_each(|item| *count.entry(item).or_default() += 1);
    b.iter().for_each(|item| *count.entry(item).or_default() -= 1);
    count.values().all(|left| *left == 0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_and_numbered() {
        let text = "one\u{c}two\u{c}three";
        let pages = Pages::of(text).unwrap();
        assert_eq!(pages.at(0), Some((1, 0)));
        assert_eq!(pages.at(5), Some((2, 3)));
        assert_eq!(pages.at(text.len() - 1), Some((3, 7)));
        let tagged =
            "Intro\n<document index=\"1\">\na\n</document>\n<document index=\"2\">\nb\n</document>";
        let pages = Pages::of(tagged).unwrap();
        assert_eq!(pages.at(2), None);
        assert_eq!(pages.at(tagged.find('b').unwrap()).unwrap().0, 2);
        assert!(Pages::of("no pages").is_none());
    }

    #[test]
    fn an_order_is_told_from_an_edit() {
        let (a, b) = ("x\u{c}y\u{c}z", "y\u{c}x\u{c}z");
        assert!(reordered(&Pages::of(a).unwrap(), &Pages::of(b).unwrap()));
        let edited = "x\u{c}q\u{c}z";
        assert!(!reordered(&Pages::of(a).unwrap(), &Pages::of(edited).unwrap()));
        let a = "<document index=\"1\">\na\n</document>\n<document index=\"2\">\nb\n</document>";
        let b = "<document index=\"1\">\nb\n</document>\n<document index=\"2\">\na\n</document>";
        assert!(reordered(&Pages::of(a).unwrap(), &Pages::of(b).unwrap()));
    }
}
