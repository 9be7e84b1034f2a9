//! The merging that both kinds of tokenizer share: the best pair of neighbours first, until none can be merged.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Which neighbours make one symbol.
pub(crate) trait Rules {
    /// A piece of the text. Two pieces that begin at the same place are equal exactly if they are the same piece.
    type Symbol: Copy + Ord;

    /// The rank of merging the two (lower ranks are merged first) and what they make.
    fn merge(&self, left: Self::Symbol, right: Self::Symbol) -> Option<(u32, Self::Symbol)>;
}

#[derive(Debug, Clone, Copy)]
struct Node<S> {
    symbol: S,
    /// Indices of the neighbours that are left; `NONE` at the ends.
    previous: u32,
    next: u32,
    alive: bool,
}

const NONE: u32 = u32::MAX;

/// Two neighbours that can be merged, in the order of the queue: by rank, then from left to right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair<S> {
    rank: u32,
    left: u32,
    right: u32,
    /// What was on both sides when the pair was queued: if one of them has grown, the pair is out of date.
    symbols: (S, S),
    merged: S,
}

/// Working memory, reused from word to word.
#[derive(Debug)]
pub(crate) struct Merger<S> {
    nodes: Vec<Node<S>>,
    queue: BinaryHeap<Reverse<Pair<S>>>,
}

impl<S: Copy + Ord> Merger<S> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), queue: BinaryHeap::new() }
    }

    /// Merges the symbols and hands each one that is left to `emit`, in order. There must be fewer than 2^32 - 1.
    pub(crate) fn run<R: Rules<Symbol = S>>(
        &mut self,
        rules: &R,
        symbols: impl Iterator<Item = S>,
        mut emit: impl FnMut(S),
    ) {
        self.nodes.clear();
        self.queue.clear();
        for symbol in symbols {
            let index = self.nodes.len() as u32;
            if let Some(last) = self.nodes.last_mut() {
                last.next = index;
            }
            self.nodes.push(Node {
                symbol,
                previous: index.wrapping_sub(1),
                next: NONE,
                alive: true,
            });
        }
        if self.nodes.is_empty() {
            return;
        }
        for right in 1..self.nodes.len() as u32 {
            self.consider(rules, right - 1, right);
        }
        while let Some(Reverse(pair)) = self.queue.pop() {
            let (left, right) = (self.nodes[pair.left as usize], self.nodes[pair.right as usize]);
            if !left.alive || !right.alive || (left.symbol, right.symbol) != pair.symbols {
                continue;
            }
            self.nodes[pair.right as usize].alive = false;
            self.nodes[pair.left as usize] = Node { symbol: pair.merged, next: right.next, ..left };
            if right.next != NONE {
                self.nodes[right.next as usize].previous = pair.left;
                self.consider(rules, pair.left, right.next);
            }
            if left.previous != NONE {
                self.consider(rules, left.previous, pair.left);
            }
        }
        let mut index = 0;
        while index != NONE {
            // The first symbol is never on the right of a pair, so it is alive and begins the chain.
            let node = self.nodes[index as usize];
            emit(node.symbol);
            index = node.next;
        }
    }

    fn consider<R: Rules<Symbol = S>>(&mut self, rules: &R, left: u32, right: u32) {
        let symbols = (self.nodes[left as usize].symbol, self.nodes[right as usize].symbol);
        if let Some((rank, merged)) = rules.merge(symbols.0, symbols.1) {
            self.queue.push(Reverse(Pair { rank, left, right, symbols, merged }));
        }
    }
}
