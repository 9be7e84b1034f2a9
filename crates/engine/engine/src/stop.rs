//! Stop strings in a stream of text: nothing that may belong to one is let out.

/// Watches a stream for the first of several strings.
#[derive(Debug, Clone)]
pub(crate) struct StopMatcher {
    strings: Vec<String>,
    held: String,
}

/// What became certain after a piece of text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Text that belongs to the answer.
    pub(crate) text: String,
    /// The stop string that was found, if one was; the answer ends here.
    pub(crate) stopped_by: Option<String>,
}

impl StopMatcher {
    /// Empty strings stop nothing and are left out.
    pub(crate) fn new(strings: &[String]) -> Self {
        let strings = strings.iter().filter(|s| !s.is_empty()).cloned().collect();
        StopMatcher { strings, held: String::new() }
    }

    /// Takes the next piece of text; gives out what can't be part of a stop string.
    pub(crate) fn push(&mut self, text: &str) -> Step {
        if self.strings.is_empty() {
            return Step { text: text.to_owned(), stopped_by: None };
        }
        self.held.push_str(text);
        let first = self
            .strings
            .iter()
            .filter_map(|s| self.held.find(s.as_str()).map(|at| (at, s)))
            // The one that is complete first, wherever the stream was cut; of two that end together the longer.
            .min_by_key(|&(at, s)| (at + s.len(), at));
        if let Some((at, s)) = first {
            let stopped_by = Some(s.clone());
            self.held.truncate(at);
            return Step { text: std::mem::take(&mut self.held), stopped_by };
        }
        let keep = self.strings.iter().map(|s| overlap(&self.held, s)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Step { text: std::mem::replace(&mut self.held, rest), stopped_by: None }
    }

    /// The answer ended for another reason: what was held back belongs to it.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// The length of the longest end of `text` that is a beginning of `stop` (and not all of it).
fn overlap(text: &str, stop: &str) -> usize {
    let most = text.len().min(stop.len() - 1);
    (1..=most)
        .rev()
        .find(|&n| {
            text.is_char_boundary(text.len() - n)
                && stop.is_char_boundary(n)
                && text[text.len() - n..] == stop[..n]
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(strings: &[&str]) -> StopMatcher {
        StopMatcher::new(&strings.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_stop_string_across_pieces_is_found_and_left_out() {
        let mut m = matcher(&["\nQuestion:"]);
        assert_eq!(m.push("Five.\n"), Step { text: "Five.".into(), stopped_by: None });
        assert_eq!(m.push("Quest"), Step { text: String::new(), stopped_by: None });
        assert_eq!(
            m.push("ion: x"),
            Step { text: String::new(), stopped_by: Some("\nQuestion:".into()) }
        );
    }

    #[test]
    fn what_was_held_in_vain_comes_out() {
        let mut m = matcher(&["END"]);
        assert_eq!(m.push("the EN").text, "the ");
        assert_eq!(m.push("D").stopped_by.as_deref(), Some("END"));
        let mut m = matcher(&["END"]);
        assert_eq!(m.push("the EN").text, "the ");
        assert_eq!(m.push("TRY").text, "ENTRY");
        assert_eq!(m.push("E").text, "");
        assert_eq!(m.finish(), "E");
    }

    proptest! {
        /// However the text is cut, what comes out is the text before the stop string that is complete first.
        #[test]
        fn cutting_changes_nothing(text in "[abé]{0,24}", stops in prop::collection::vec("[abé]{1,3}", 0..3), cuts in prop::collection::vec(any::<bool>(), 24)) {
            let end = stops
                .iter()
                .filter_map(|s| text.find(s.as_str()).map(|at| (at + s.len(), at)))
                .min()
                .map(|(_, at)| at);
            let mut m = StopMatcher::new(&stops);
            let mut out = String::new();
            let mut piece = String::new();
            let mut stopped = false;
            for (i, c) in text.chars().enumerate() {
                piece.push(c);
                if cuts[i % cuts.len()] {
                    let step = m.push(&std::mem::take(&mut piece));
                    out += &step.text;
                    if step.stopped_by.is_some() { stopped = true; break; }
                }
            }
            if !stopped {
                let step = m.push(&piece);
                out += &step.text;
                stopped = step.stopped_by.is_some();
                if !stopped { out += &m.finish(); }
            }
            prop_assert_eq!(stopped, end.is_some());
            prop_assert_eq!(&out[..], &text[..end.unwrap_or(text.len())]);
        }
    }
}
