//! Calls as Hermes and Qwen write them: `<tool_call>`, an object with a name and arguments, `</tool_call>`.

use super::Found;
use super::scan::{self, Scan, Step};

pub(super) const OPEN: &str = "<tool_call>";
pub(super) const CLOSE: &str = "</tool_call>";

#[derive(Debug, Clone)]
enum State {
    /// Text outside a call.
    Text,
    /// The object of a call, so far as it is known; the bytes that were scanned.
    Call(Scan, usize),
    /// Arguments that are told as they come, since a grammar holds them.
    Arguments(Scan),
    /// A call is complete: white space, a closing bracket and the closing marker belong to it.
    After,
}

/// The parser.
#[derive(Debug, Clone)]
pub(crate) struct Hermes {
    /// Whether a grammar promises that what begins as a call is one.
    held: bool,
    state: State,
    buffer: String,
    calls: usize,
}

impl Hermes {
    pub(super) fn new(held: bool) -> Self {
        Hermes { held, state: State::Text, buffer: String::new(), calls: 0 }
    }

    pub(super) fn push(&mut self, text: &str, found: &mut Vec<Found>) {
        self.buffer.push_str(text);
        while self.step(found) {}
    }

    pub(super) fn finish(&mut self, found: &mut Vec<Found>) {
        let rest = std::mem::take(&mut self.buffer);
        match self.state {
            State::Text => self.text(&rest, found),
            // Cut in the middle of a call: without a grammar it never was one.
            State::Call(..) if !self.held => self.text(&format!("{OPEN}{rest}"), found),
            State::Call(..) | State::Arguments(_) | State::After => {}
        }
    }

    /// One step; `false` when more text is needed.
    fn step(&mut self, found: &mut Vec<Found>) -> bool {
        match &mut self.state {
            State::Text => {
                if let Some(at) = self.buffer.find(OPEN) {
                    let before: String = self.buffer.drain(..at + OPEN.len()).collect();
                    self.text(before[..at].trim_end(), found);
                    self.state = State::Call(Scan::default(), 0);
                    return true;
                }
                // The marker may have begun, and white space before it is the call's.
                let keep = scan::overlap(&self.buffer, OPEN);
                let sure = self.buffer[..self.buffer.len() - keep].trim_end().len();
                let text: String = self.buffer.drain(..sure).collect();
                self.text(&text, found);
                false
            }
            State::Call(..) if self.held => {
                let Some((name, at)) = scan::held_head(&self.buffer, "arguments") else {
                    return false;
                };
                self.buffer.drain(..at);
                found.push(Found::Call { index: self.calls, name });
                self.calls += 1;
                self.state = State::Arguments(Scan::default());
                true
            }
            State::Call(scan, scanned) => {
                let step = scan.push(&self.buffer[*scanned..]);
                match step {
                    Step::Open => {
                        *scanned = self.buffer.len();
                        return false;
                    }
                    Step::Ends(at) => {
                        let end = *scanned + at;
                        if let Some((name, json)) = scan::call(&self.buffer[..end]) {
                            self.buffer.drain(..end);
                            found.push(Found::Call { index: self.calls, name });
                            found.push(Found::Arguments { index: self.calls, json });
                            self.calls += 1;
                            self.state = State::After;
                            return true;
                        }
                    }
                    Step::Broken => {}
                }
                // No call after all: the marker is text, and what follows is looked at again.
                self.text(OPEN, found);
                self.state = State::Text;
                true
            }
            State::Arguments(scan) => {
                let (json, ended) = scan.arguments(&mut self.buffer);
                if !json.is_empty() {
                    found.push(Found::Arguments { index: self.calls - 1, json });
                }
                if ended {
                    self.state = State::After;
                }
                ended
            }
            State::After => {
                let rest = self.buffer.trim_start();
                let rest = rest.strip_prefix('}').unwrap_or(rest).trim_start();
                if let Some(rest) = rest.strip_prefix(CLOSE) {
                    self.buffer = rest.to_owned();
                    self.state = State::Text;
                    return true;
                }
                if CLOSE.starts_with(rest) {
                    return false;
                }
                // Some models leave the marker out.
                self.buffer = rest.to_owned();
                self.state = State::Text;
                true
            }
        }
    }

    /// Text of the answer; white space between calls and after them is none.
    fn text(&mut self, text: &str, found: &mut Vec<Found>) {
        let is_between = self.calls > 0 && !matches!(found.last(), Some(Found::Text(_)));
        if text.is_empty() || (is_between && text.trim().is_empty()) {
            return;
        }
        if let Some(Found::Text(last)) = found.last_mut() {
            last.push_str(text);
        } else {
            found.push(Found::Text(text.to_owned()));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The calls and the text of an answer that comes in pieces.
    fn read(held: bool, pieces: &[&str]) -> (String, Vec<(String, String)>) {
        let mut parser = Hermes::new(held);
        let mut found = Vec::new();
        for piece in pieces {
            parser.push(piece, &mut found);
        }
        parser.finish(&mut found);
        let (mut text, mut calls) = (String::new(), Vec::new());
        for it in found {
            match it {
                Found::Text(more) => text += &more,
                Found::Call { index, name } => {
                    assert_eq!(index, calls.len());
                    calls.push((name, String::new()));
                }
                Found::Arguments { index, json } => calls[index].1 += &json,
            }
        }
        (text, calls)
    }

    fn calls(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, json)| ((*name).to_owned(), (*json).to_owned())).collect()
    }

    const ONE: &str =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}\n</tool_call>";

    #[test]
    fn text_and_calls_are_told_apart() {
        let one = r#"{"a": "</tool_call>"}"#;
        assert_eq!(read(false, &[ONE]), (String::new(), calls(&[("f", one)])));
        let both = format!("I look.\n\n{ONE}\n{ONE}");
        assert_eq!(read(false, &[&both]), ("I look.".into(), calls(&[("f", one), ("f", one)])));
        // Without the closing marker, as some models end.
        let open = ONE.strip_suffix("\n</tool_call>").unwrap();
        assert_eq!(read(false, &[open]), (String::new(), calls(&[("f", one)])));
        assert_eq!(read(false, &["a <tool", " b \n"]), ("a <tool b \n".into(), vec![]));
    }

    #[test]
    fn what_is_no_call_is_text() {
        for broken in [
            "<tool_call>",
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1",
            "<tool_call>\n{\"arguments\": {}}\n</tool_call> so",
            "<tool_call>no</tool_call>",
            "<tool_call>\n{\"name\": \"f\" \"arguments\"}\n</tool_call>",
        ] {
            assert_eq!(read(false, &[broken]), (broken.into(), vec![]), "{broken}");
        }
        // The second is one.
        let (text, found) = read(false, &[&format!("<tool_call>{ONE}")]);
        assert_eq!((text.as_str(), found.len()), ("<tool_call>", 1));
    }

    #[test]
    fn held_arguments_are_told_as_they_come() {
        let mut parser = Hermes::new(true);
        let mut found = Vec::new();
        parser.push("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1", &mut found);
        assert_eq!(
            found,
            [
                Found::Call { index: 0, name: "f".into() },
                Found::Arguments { index: 0, json: "{\"a\": [1".into() }
            ]
        );
        assert_eq!(read(true, &[ONE]).1, calls(&[("f", r#"{"a": "</tool_call>"}"#)]));
    }

    proptest! {
        /// However the answer is cut, it says the same.
        #[test]
        fn cutting_changes_nothing(
            parts in prop::collection::vec(prop_oneof![
                Just(ONE.to_owned()),
                Just("\n".to_owned()),
                Just("<tool_call>{\"name\": \"g\"}</tool_call>".to_owned()),
                "[a-z<>{}\" \n]{0,8}",
                Just("</tool_call>".to_owned()),
            ], 0..6),
            every in 1..9usize,
            held in any::<bool>(),
        ) {
            let text = parts.concat();
            let chars: Vec<char> = text.chars().collect();
            let pieces: Vec<String> = chars.chunks(every).map(|piece| piece.iter().collect()).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(read(held, &pieces), read(held, &[&text]));
        }
    }
}
