//! Breaks added up by what caused them.

use std::collections::HashMap;

use serde::Serialize;
use tapri_ledger::{MissReason, Money};

use super::{Break, CallRef, add_money};
use crate::explain::Tokens;

/// More causes than this are added up as one: a log in which every break is another is no list of causes.
const MOST: usize = 10_000;

/// A path in which the numbers of messages don't matter: `messages[*].content`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PathShape(pub String);

impl PathShape {
    /// The shape of a path. The first message and the instructions keep their number: they are every call's start.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let mut shape = String::with_capacity(path.len());
        let mut rest = path;
        while let Some(open) = rest.find('[') {
            let (head, tail) = rest.split_at(open + 1);
            shape.push_str(head);
            let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
            let number = &tail[..digits];
            let counts = matches!(head, "messages[" | "input[" | "[" | "traj[") && number != "0";
            shape.push_str(if counts && digits > 0 { "*" } else { number });
            rest = &tail[digits..];
        }
        shape.push_str(rest);
        PathShape(shape)
    }
}

/// All breaks of one reason at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// The reason.
    pub reason: MissReason,
    /// Where.
    pub path: Option<PathShape>,
    /// How many breaks.
    pub breaks: u64,
    /// Tokens read again for them.
    pub lost: Tokens,
    /// What that cost: an estimate, one amount for each currency.
    pub cost: Vec<Money>,
    /// The call that lost most for it.
    pub worst: CallRef,
    /// What that one lost.
    #[serde(skip)]
    most: u64,
    /// What to do.
    pub suggestion: String,
}

#[derive(Default)]
pub(super) struct Causes {
    all: HashMap<(MissReason, Option<PathShape>), Cause>,
}

impl Causes {
    pub(super) fn add(&mut self, found: &Break) {
        let Some(what) = found.found() else { return };
        let mut path = what.place.as_ref().map(|place| PathShape::of(&place.path));
        if self.all.len() >= MOST && !self.all.contains_key(&(what.reason, path.clone())) {
            path = None;
        }
        let cause = self.all.entry((what.reason, path.clone())).or_insert_with(|| Cause {
            reason: what.reason,
            path,
            breaks: 0,
            lost: Tokens::default(),
            cost: Vec::new(),
            worst: found.call.clone(),
            most: 0,
            suggestion: what.suggestion.clone(),
        });
        cause.breaks += 1;
        cause.lost.count += found.lost();
        cause.lost.estimated |= what.lost.estimated;
        if let Some(cost) = &found.cost {
            add_money(&mut cause.cost, cost);
        }
        if found.lost() > cause.most {
            cause.most = found.lost();
            cause.worst = found.call.clone();
        }
    }

    /// The most expensive first; equal ones in a fixed order.
    pub(super) fn sorted(&self) -> Vec<Cause> {
        let mut all: Vec<Cause> = self.all.values().cloned().collect();
        all.sort_by(|a, b| {
            (b.lost.count, b.breaks)
                .cmp(&(a.lost.count, a.breaks))
                .then_with(|| (a.reason, &a.path).cmp(&(b.reason, &b.path)))
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_messages_do_not_matter() {
        let shape = |path| PathShape::of(path).0;
        assert_eq!(shape("messages[14].content[1].text"), "messages[*].content[1].text");
        assert_eq!(shape("messages[0].content"), "messages[0].content");
        assert_eq!(shape("tools[12].function"), "tools[12].function");
        assert_eq!(shape("[3].content"), "[*].content");
        assert_eq!(shape("a[\"b]["), "a[\"b][");
    }
}
