//! What stands in both prompts behind the first difference: what would have been reused without it.

use std::collections::HashMap;

use super::difference::{Difference, What, common_end};
use crate::prompt::{Kind, Part, PromptDoc};

/// Shorter lines are everywhere and say nothing.
const LINE: usize = 16;

/// Characters of the new prompt behind the difference that the old one has as well, wherever they stand.
pub(super) fn lost_chars(old: &PromptDoc, new: &PromptDoc, difference: &Difference<'_>) -> u64 {
    let from = difference.part;
    match &difference.what {
        What::Text { old: before, new: after, at } if difference.new.value.is_none() => {
            let behind = |parts: &[Part]| {
                let path = &parts[from].path;
                let offset = parts[from].offset;
                from + 1
                    + parts[from + 1..]
                        .iter()
                        .take_while(|part| part.path == *path && part.offset > offset)
                        .count()
            };
            inside(&before[*at..], &after[*at..])
                + parts(&old.parts[behind(&old.parts)..], &new.parts[behind(&new.parts)..])
        }
        _ => {
            let (before, after) = (&old.parts[from..], &new.parts[from..]);
            let mut more = 0;
            if let (Some(a), Some(b)) = (before.first(), after.first())
                && a.text != b.text
            {
                let at = super::difference::common(&a.text, &b.text);
                more = inside(&a.text[at..], &b.text[at..]);
            }
            more + parts(before, after)
        }
    }
}

/// Within a text: its common end, or its common lines.
fn inside(old: &str, new: &str) -> u64 {
    let end = common_end(old, new);
    let end = new[new.len() - end..].chars().count();
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for line in old.lines().filter(|line| line.len() >= LINE) {
        *lines.entry(line).or_default() += 1;
    }
    let mut common = 0;
    for line in new.lines().filter(|line| line.len() >= LINE) {
        if let Some(left) = lines.get_mut(line).filter(|left| **left > 0) {
            *left -= 1;
            common += line.chars().count() + 1;
        }
    }
    end.max(common) as u64
}

/// Whole parts that are in both.
fn parts(old: &[Part], new: &[Part]) -> u64 {
    let mut texts: HashMap<(Kind, &str), usize> = HashMap::new();
    for part in old {
        *texts.entry((part.kind, &part.text)).or_default() += 1;
    }
    let mut common = 0;
    for part in new {
        if let Some(left) = texts.get_mut(&(part.kind, &*part.text)).filter(|left| **left > 0) {
            *left -= 1;
            common += part.text.chars().count() as u64;
        }
    }
    common
}
