//! Tool calls one after another, for streams whose blocks end before the next begins.
//!
//! Upstreams write one call after the other, though their format would let them write two at once. Where one does, the
//! later call waits until the earlier is whole.

use crate::event::Says;

/// Puts what is said in an order in which no two calls are open at once.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    open: Option<Call>,
    waiting: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    index: usize,
    id: String,
    name: String,
    json: String,
}

impl Call {
    fn is_whole(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.json).is_ok()
    }
}

impl Ordered {
    pub(super) fn next(&mut self, says: Says) -> Vec<Says> {
        match says {
            Says::ToolCall { index, id, name } => {
                let call = Call { index, id, name, json: String::new() };
                if self.open.as_ref().is_some_and(|open| !open.is_whole()) {
                    self.waiting.push(call);
                    return Vec::new();
                }
                let mut out = self.rest();
                out.push(begin(&call));
                self.open = Some(call);
                out
            }
            Says::ToolArguments { index, json } => {
                let call =
                    self.open.iter_mut().chain(&mut self.waiting).find(|it| it.index == index);
                let Some(call) = call else { return Vec::new() };
                call.json.push_str(&json);
                let is_open = self.open.as_ref().is_some_and(|open| open.index == index);
                if is_open { vec![Says::ToolArguments { index, json }] } else { Vec::new() }
            }
            // Anything else comes after the calls that were begun before it.
            says => {
                let mut out = self.rest();
                out.push(says);
                out
            }
        }
    }

    /// The calls that waited.
    pub(super) fn rest(&mut self) -> Vec<Says> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        self.open = None;
        let mut out = Vec::new();
        for call in std::mem::take(&mut self.waiting) {
            out.push(begin(&call));
            if !call.json.is_empty() {
                let json = call.json.clone();
                out.push(Says::ToolArguments { index: call.index, json });
            }
            self.open = Some(call);
        }
        out
    }
}

fn begin(call: &Call) -> Says {
    Says::ToolCall { index: call.index, id: call.id.clone(), name: call.name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(index: usize) -> Says {
        Says::ToolCall { index, id: format!("c{index}"), name: "f".into() }
    }

    fn arguments(index: usize, json: &str) -> Says {
        Says::ToolArguments { index, json: json.into() }
    }

    #[test]
    fn calls_that_come_at_once_leave_one_after_another() {
        let mut ordered = Ordered::default();
        let mut out = Vec::new();
        for says in [
            call(0),
            arguments(0, "{\"a\""),
            call(1),
            arguments(1, "{}"),
            arguments(0, ":1}"),
            Says::Text("x".into()),
        ] {
            out.extend(ordered.next(says));
        }
        let expected = [
            call(0),
            arguments(0, "{\"a\""),
            arguments(0, ":1}"),
            call(1),
            arguments(1, "{}"),
            Says::Text("x".into()),
        ];
        assert_eq!(out, expected);
        assert!(ordered.rest().is_empty());
    }
}
