//! Which starts calls share: a tree of their prompts' pieces, cut into starts.
//!
//! A start goes on while more than half of the calls that share it go on together: a conversation is one start that
//! grows, and documents behind the same instructions are each a start of their own.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::cost::calls::SeenCall;

/// A node of the tree: a piece behind all that is before it.
struct Node {
    parent: Option<u32>,
    /// Tokens up to its end.
    depth: u64,
    /// Calls that begin with it.
    calls: u32,
}

/// A call in the tree.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) at: Timestamp,
    pub(crate) ready: Duration,
    pub(crate) prompt: u64,
    leaf: Option<u32>,
}

/// The calls of one tenant to one model. Memory grows with the number of different pieces and of calls.
#[derive(Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    by_print: HashMap<u64, u32>,
    pub(crate) calls: Vec<Placed>,
}

/// A start that at least two calls share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// Tokens of the start before it, which these calls share with others.
    pub(crate) above: u64,
    /// Its parts, each shared by the same calls throughout.
    pub(crate) segments: Vec<Segment>,
    /// Its calls in the order of their time, and the last segment that each reaches.
    pub(crate) calls: Vec<(usize, usize)>,
}

/// A part of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its tokens.
    pub(crate) tokens: u64,
    /// Tokens up to its end.
    pub(crate) depth: u64,
}

/// Where a node belongs.
#[derive(Clone, Copy)]
struct Belongs {
    start: u32,
    segment: u32,
}

impl Tree {
    pub(crate) fn add(&mut self, call: &SeenCall) {
        let mut parent: Option<u32> = None;
        for piece in &call.pieces {
            let before = parent.map_or(0, |at| self.nodes[at as usize].depth);
            let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            let at = *self.by_print.entry(piece.print).or_insert(next);
            if at == u32::MAX {
                // More pieces than can be counted: the rest is taken as this call's own.
                break;
            }
            if at == next {
                self.nodes.push(Node { parent, depth: before + piece.tokens, calls: 0 });
            }
            self.nodes[at as usize].calls += 1;
            parent = Some(at);
        }
        self.calls.push(Placed {
            name: call.name.clone(),
            at: call.at,
            ready: call.ready,
            prompt: call.prompt,
            leaf: parent,
        });
    }

    /// The starts. Nodes come before those that hang on them, so one pass places all.
    pub(crate) fn starts(&self) -> Vec<Start> {
        let mut heavy: Vec<Option<u32>> = vec![None; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent
                && u64::from(node.calls) * 2 > u64::from(self.nodes[parent as usize].calls)
            {
                heavy[parent as usize] = u32::try_from(at).ok();
            }
        }
        let mut starts: Vec<Start> = Vec::new();
        let mut belongs: Vec<Option<Belongs>> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            if node.calls < 2 {
                belongs.push(None);
                continue;
            }
            let parent = node.parent.map(|parent| parent as usize);
            let above = parent.map_or(0, |parent| self.nodes[parent].depth);
            let tokens = node.depth - above;
            let goes_on = parent
                .filter(|parent| heavy[*parent].is_some_and(|heavy| heavy as usize == at))
                .and_then(|parent| Some((parent, belongs[parent]?)));
            let place = match goes_on {
                Some((parent, place)) => {
                    let segments = &mut starts[place.start as usize].segments;
                    if self.nodes[parent].calls == node.calls {
                        let segment = &mut segments[place.segment as usize];
                        segment.tokens += tokens;
                        segment.depth = node.depth;
                        place
                    } else {
                        segments.push(Segment { tokens, depth: node.depth });
                        Belongs { segment: place.segment + 1, ..place }
                    }
                }
                None => {
                    starts.push(Start {
                        above,
                        segments: vec![Segment { tokens, depth: node.depth }],
                        calls: Vec::new(),
                    });
                    Belongs {
                        start: u32::try_from(starts.len() - 1).unwrap_or(u32::MAX),
                        segment: 0,
                    }
                }
            };
            belongs.push(Some(place));
        }
        let mut order: Vec<_> = (0..self.calls.len()).collect();
        order.sort_by_key(|call| self.calls[*call].at);
        for call in order {
            self.place(call, &belongs, &mut starts);
        }
        starts
    }

    /// Adds a call to every start on its way.
    fn place(&self, call: usize, belongs: &[Option<Belongs>], starts: &mut [Start]) {
        let mut seen = None;
        let mut at = self.calls[call].leaf;
        while let Some(node) = at {
            if let Some(place) = belongs[node as usize]
                && seen != Some(place.start)
            {
                seen = Some(place.start);
                starts[place.start as usize].calls.push((call, place.segment as usize));
            }
            at = self.nodes[node as usize].parent;
        }
    }

    /// Tokens that a call's prompt shares with any other's.
    pub(crate) fn shared(&self, call: &Placed) -> u64 {
        let mut at = call.leaf;
        while let Some(node) = at {
            let node = &self.nodes[node as usize];
            if node.calls >= 2 {
                return node.depth.min(call.prompt);
            }
            at = node.parent;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::calls::Piece;

    /// A call whose pieces are these letters.
    pub(crate) fn call(text: &str, second: i64) -> SeenCall {
        let pieces = text.char_indices().map(|(at, c)| Piece {
            // The letters up to here, as a number in base 256.
            print: text.as_bytes()[..at + c.len_utf8()]
                .iter()
                .fold(1, |n, b| n * 31 + u64::from(*b)),
            tokens: 100,
        });
        SeenCall {
            name: text.to_owned(),
            at: Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(second),
            tenant: "t".into(),
            model: "m".into(),
            ready: Duration::ZERO,
            prompt: text.len() as u64 * 100 + 50,
            answer: 0,
            estimated: false,
            pieces: pieces.collect(),
            parts: Vec::new(),
        }
    }

    fn tree(texts: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for (second, text) in (0..).zip(texts) {
            tree.add(&call(text, second));
        }
        tree
    }

    fn shape(texts: &[&str]) -> Vec<(u64, Vec<u64>, usize)> {
        let starts = tree(texts).starts();
        let shape = |start: &Start| {
            let tokens = start.segments.iter().map(|segment| segment.tokens).collect();
            (start.above, tokens, start.calls.len())
        };
        starts.iter().map(shape).collect()
    }

    #[test]
    fn one_document_many_questions() {
        assert_eq!(shape(&["filea", "fileb", "filec"]), [(0, vec![400], 3)]);
    }

    #[test]
    fn documents_behind_the_same_instructions() {
        let texts = ["iAx", "iAy", "iBx", "iBy", "iC"];
        assert_eq!(shape(&texts), [(0, vec![100], 5), (100, vec![100], 2), (100, vec![100], 2)]);
    }

    #[test]
    fn a_conversation_grows() {
        let found = shape(&["sa", "sab", "sabc", "sabcd"]);
        assert_eq!(found, [(0, vec![200, 100, 100], 4)]);
    }

    #[test]
    fn nothing_shared() {
        assert_eq!(shape(&["a", "b", "c"]), []);
        let tree = tree(&["ab", "ac", "d"]);
        let shared: Vec<_> = tree.calls.iter().map(|call| tree.shared(call)).collect();
        assert_eq!(shared, [100, 100, 0]);
    }

    proptest! {
        #[test]
        fn every_shared_token_is_in_one_start(texts in prop::collection::vec("[ab]{0,6}", 1..12)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let tree = tree(&texts);
            let starts = tree.starts();
            // By hand: each distinct beginning that two calls have is 100 tokens of some start.
            let mut beginnings: Vec<&str> =
                texts.iter().flat_map(|text| (1..=text.len()).map(|end| &text[..end])).collect();
            beginnings.sort_unstable();
            beginnings.dedup();
            let shared = beginnings
                .iter()
                .filter(|start| texts.iter().filter(|text| text.starts_with(**start)).count() >= 2)
                .count() as u64;
            let tokens: u64 = starts.iter().flat_map(|s| &s.segments).map(|segment| segment.tokens).sum();
            prop_assert_eq!(tokens, shared * 100);
            // And the uses of them are as many as the calls' own shared tokens.
            let uses: u64 = starts.iter().map(|start| {
                start.calls.iter().map(|(_, to)| start.segments[..=*to].iter().map(|s| s.tokens).sum::<u64>()).sum::<u64>()
            }).sum();
            let by_call: u64 = tree.calls.iter().map(|call| tree.shared(call)).sum();
            prop_assert_eq!(uses, by_call);
        }
    }
}
