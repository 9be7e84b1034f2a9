//! Calls as Llama 3 writes them: the whole answer is an object with a name and parameters, after `<|python_tag|>` or
//! without it; several are separated by semicolons.

use super::Found;
use super::scan::{self, Scan, Step};

/// The token that announces a call. It is a control token, so its text never shows; a template may spell it.
pub(super) const TAG: &str = "<|python_tag|>";

#[derive(Debug, Clone)]
enum State {
    /// Nothing but white space so far.
    Start,
    /// An object that may be a call; the bytes that were scanned.
    Call(Scan, usize),
    /// Arguments that are told as they come, since a grammar holds them.
    Arguments(Scan),
    /// A call is complete.
    After,
    /// The answer is text.
    Text,
}

/// The parser.
#[derive(Debug, Clone)]
pub(crate) struct Llama {
    held: bool,
    /// Without the tag, an object is a call only if it names one of these: any JSON could be an answer.
    names: Vec<String>,
    tagged: bool,
    state: State,
    buffer: String,
    calls: usize,
}

impl Llama {
    pub(super) fn new(held: bool, names: Vec<String>) -> Self {
        Llama { held, names, tagged: false, state: State::Start, buffer: String::new(), calls: 0 }
    }

    pub(super) fn push(&mut self, text: &str, found: &mut Vec<Found>) {
        self.buffer.push_str(text);
        while self.step(found) {}
    }

    pub(super) fn finish(&mut self, found: &mut Vec<Found>) {
        let rest = std::mem::take(&mut self.buffer);
        let is_text = match self.state {
            State::Call(..) => !self.held,
            State::Start | State::Text => true,
            State::Arguments(_) | State::After => false,
        };
        if is_text && !rest.is_empty() {
            found.push(Found::Text(rest));
        }
    }

    /// One step; `false` when more text is needed.
    fn step(&mut self, found: &mut Vec<Found>) -> bool {
        match &mut self.state {
            State::Start => {
                let rest = self.buffer.trim_start();
                if let Some(rest) = rest.strip_prefix(TAG) {
                    self.buffer = rest.to_owned();
                    self.tagged = true;
                    return true;
                }
                if TAG.starts_with(rest) {
                    return false;
                }
                let is_object = rest.starts_with('{');
                self.state = if is_object { State::Call(Scan::default(), 0) } else { State::Text };
                true
            }
            State::Call(..) if self.held => {
                let Some((name, at)) = scan::held_head(&self.buffer, "parameters") else {
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
                if step == Step::Open {
                    *scanned = self.buffer.len();
                    return false;
                }
                if let Step::Ends(at) = step {
                    let end = *scanned + at;
                    let known = |name: &String| self.tagged || self.names.contains(name);
                    let call = scan::call(&self.buffer[..end]).filter(|(name, _)| known(name));
                    if let Some((name, json)) = call {
                        self.buffer.drain(..end);
                        found.push(Found::Call { index: self.calls, name });
                        found.push(Found::Arguments { index: self.calls, json });
                        self.calls += 1;
                        self.state = State::After;
                        return true;
                    }
                }
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
                let rest = rest.strip_prefix(';').unwrap_or(rest).trim_start().to_owned();
                self.buffer = rest;
                if self.buffer.is_empty() {
                    return false;
                }
                self.state = State::Start;
                true
            }
            State::Text => {
                if !self.buffer.is_empty() {
                    found.push(Found::Text(std::mem::take(&mut self.buffer)));
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(held: bool, text: &str, every: usize) -> Vec<Found> {
        let mut parser = Llama::new(held, vec!["f".to_owned()]);
        let mut found = Vec::new();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(every) {
            parser.push(&piece.iter().collect::<String>(), &mut found);
        }
        parser.finish(&mut found);
        // Pieces of one thing, joined.
        let mut joined: Vec<Found> = Vec::new();
        for it in found {
            match (joined.last_mut(), it) {
                (Some(Found::Text(last)), Found::Text(more)) => last.push_str(&more),
                (Some(Found::Arguments { json, .. }), Found::Arguments { json: more, .. }) => {
                    json.push_str(&more);
                }
                (_, it) => joined.push(it),
            }
        }
        joined
    }

    fn call(index: usize, name: &str, json: &str) -> [Found; 2] {
        [
            Found::Call { index, name: name.to_owned() },
            Found::Arguments { index, json: json.to_owned() },
        ]
    }

    #[test]
    fn calls_with_and_without_the_tag_however_they_are_cut() {
        let text = r#"{"name": "f", "parameters": {"a": "};"}}"#;
        let f = |index| call(index, "f", r#"{"a": "};"}"#);
        for every in [1, 3, 100] {
            assert_eq!(read(false, text, every), f(0));
            assert_eq!(read(false, &format!(" {TAG}{text}"), every), f(0));
            let two = format!("{text}; {text}");
            assert_eq!(read(false, &two, every), [f(0), f(1)].concat());
            assert_eq!(read(true, text, every), call(0, "f", r#"{"a": "};"}"#));
        }
    }

    #[test]
    fn other_objects_are_answers() {
        let said = |text: &str| vec![Found::Text(text.to_owned())];
        for text in [
            r#"{"name": "Bob", "parameters": {}}"#,
            r#"{"answer": 42} and more"#,
            "Hello {you}",
            r#"{"name": "f", "parameters": {"#,
            "<|python",
        ] {
            assert_eq!(read(false, text, 4), said(text), "{text}");
        }
        // The tag says that it is a call, whatever its name.
        let tagged = format!(r#"{TAG}{{"name": "g", "parameters": {{}}}}"#);
        assert_eq!(read(false, &tagged, 5), call(0, "g", "{}"));
    }
}
