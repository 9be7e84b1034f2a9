//! A whole log, one line after the other.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufRead};

use super::{Line, LoggedCall, read};
use crate::lines::Lines;

/// How many answers back a repeated line is recognised. Sessions write the blocks of one answer together.
const REMEMBERED: usize = 4096;

/// How the lines of a log were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Lines that are a call.
    pub calls: u64,
    /// Lines of JSON without token counts: messages of a user, summaries, errors.
    pub other: u64,
    /// Further lines of an answer that was counted already.
    pub repeated: u64,
}

/// Reads all the lines. Lines that can't be used are counted in [`Lines::broken`].
pub fn read_log<R: BufRead>(
    lines: &mut Lines<R>,
    mut on_call: impl FnMut(LoggedCall),
) -> io::Result<Used> {
    let mut used = Used::default();
    let mut answers = Recent::default();
    loop {
        let parsed = match lines.next_text()? {
            None => return Ok(used),
            Some(text) => read(text),
        };
        match parsed {
            Ok(Line::Call(call)) => match &call.repeats {
                Some(answer) if !answers.is_new(answer) => used.repeated += 1,
                _ => {
                    used.calls += 1;
                    on_call(*call);
                }
            },
            Ok(Line::Other) => used.other += 1,
            Err(error) => {
                let number = lines.number();
                lines.broken.add(number, error.to_string());
            }
        }
    }
}

/// The last few names.
#[derive(Debug, Default)]
struct Recent {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Recent {
    fn is_new(&mut self, name: &str) -> bool {
        if self.known.contains(name) {
            return false;
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(name.to_owned());
        self.order.push_back(name.to_owned());
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_on_several_lines_is_one_call() {
        let block = |message: &str| {
            format!(
                r#"{{"requestId": "r", "message": {{"id": "{message}", "usage": {{"input_tokens": 5, "cache_read_input_tokens": 7}}}}}}"#
            )
        };
        let log = [block("a"), block("a"), "{}".to_owned(), "{".to_owned(), block("b")].join("\n");
        let mut lines = Lines::new(log.as_bytes());
        let mut calls = 0;
        let used = read_log(&mut lines, |_| calls += 1).unwrap();
        assert_eq!(used, Used { calls: 2, other: 1, repeated: 1 });
        assert_eq!((calls, lines.broken.count, lines.broken.first[0].0), (2, 1, 4));
    }

    #[test]
    fn names_are_forgotten_in_order() {
        let mut recent = Recent::default();
        assert!((0..=REMEMBERED).all(|n| recent.is_new(&n.to_string())));
        assert!(recent.is_new("0") && !recent.is_new(&REMEMBERED.to_string()));
        assert_eq!(recent.known.len(), REMEMBERED);
    }
}
