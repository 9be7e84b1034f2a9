//! A trace in memory: a tree of distinct blocks, and for each call where in it its prompt ends.
//!
//! The calls' lists of blocks are not kept. A prompt is the way from the root to its last block, so a call costs a few
//! bytes however long its prompt, and memory is linear in distinct blocks and calls.

use std::collections::HashMap;
use std::time::Duration;

/// Index of a distinct block: a block's content and everything before it.
pub(super) type Node = u32;

/// No block.
pub(super) const NONE: Node = Node::MAX;

/// Whose ids are compared with whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scope(pub u32);

/// What counts as a block that can be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Every block that the trace lists, a shorter last one included. So the traces' authors count.
    #[default]
    Listed,
    /// As the engine does: full blocks alone, and the last token is always computed.
    Engine,
}

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// When it came, from the trace's beginning.
    pub at: Duration,
    /// Tokens of its prompt.
    pub tokens: u64,
    last: Node,
}

/// What a call needs of a cache, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Blocks that it leaves behind.
    pub stored: usize,
    /// Of those, how many a lookup may find.
    pub lookup: usize,
    /// Blocks that it needs while it runs and that nobody can find: the last one, if it is not full.
    pub spare: usize,
}

/// What was reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits {
    /// Blocks.
    pub blocks: u64,
    /// Tokens in them.
    pub tokens: u64,
    /// Pairs of a token and one at or before it: what attention would have gone through.
    pub pairs: u64,
}

impl std::ops::AddAssign for Hits {
    fn add_assign(&mut self, more: Hits) {
        self.blocks += more.blocks;
        self.tokens += more.tokens;
        self.pairs += more.pairs;
    }
}

/// Why a trace can't take another call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A prompt without tokens.
    #[error("a prompt without tokens")]
    Empty,
    /// Counts that contradict each other.
    #[error("{tokens} tokens are no {blocks} blocks of {block_tokens}")]
    Blocks {
        /// Tokens of the prompt.
        tokens: u64,
        /// Blocks that were listed.
        blocks: usize,
        /// Tokens of a block.
        block_tokens: u64,
    },
    /// A block size unlike that of the calls before.
    #[error("blocks of {block_tokens} tokens among blocks of {others}")]
    Mixed {
        /// Tokens of its blocks.
        block_tokens: u32,
        /// Tokens of the others'.
        others: u64,
    },
    /// More distinct blocks than an index can name.
    #[error("more than {} distinct blocks", NONE - 1)]
    TooLarge,
}

/// Calls, and the blocks that they are made of.
#[derive(Debug, Clone)]
pub struct Trace {
    block_tokens: u64,
    parents: Vec<Node>,
    depths: Vec<u32>,
    calls: Vec<Call>,
    children: HashMap<(Node, u64), Node, Mixed>,
    roots: HashMap<Scope, Node>,
    listed: u64,
    tokens: u64,
    sorted: bool,
}

impl Trace {
    /// An empty trace with blocks of this many tokens.
    #[must_use]
    pub fn new(block_tokens: std::num::NonZeroU32) -> Self {
        Trace {
            block_tokens: block_tokens.get().into(),
            parents: Vec::new(),
            depths: Vec::new(),
            calls: Vec::new(),
            children: HashMap::default(),
            roots: HashMap::new(),
            listed: 0,
            tokens: 0,
            sorted: true,
        }
    }

    /// Adds a call. An id names a block's content; what makes two blocks the same is the id and every id before it, in
    /// one scope.
    ///
    /// # Errors
    /// When the counts can't be right: the last block may be listed or not where it is not full, but no other.
    pub fn push(
        &mut self,
        scope: Scope,
        at: Duration,
        tokens: u64,
        ids: &[u64],
    ) -> Result<(), TraceError> {
        if tokens == 0 {
            return Err(TraceError::Empty);
        }
        let blocks = ids.len() as u64;
        if blocks != tokens / self.block_tokens && blocks != tokens.div_ceil(self.block_tokens) {
            let block_tokens = self.block_tokens;
            return Err(TraceError::Blocks { tokens, blocks: ids.len(), block_tokens });
        }
        if self.parents.len() + ids.len() + 1 >= NONE as usize {
            return Err(TraceError::TooLarge);
        }
        // A root is a node without a parent and below any depth; it is never on a call's way.
        let mut last = match self.roots.get(&scope) {
            Some(&root) => root,
            None => {
                let root = self.node(NONE, 0);
                self.roots.insert(scope, root);
                root
            }
        };
        for (depth, &id) in (1..).zip(ids) {
            last = match self.children.get(&(last, id)) {
                Some(&child) => child,
                None => {
                    let child = self.node(last, depth);
                    self.children.insert((last, id), child);
                    child
                }
            };
        }
        self.sorted &= self.calls.last().is_none_or(|before| before.at <= at);
        self.listed += blocks;
        self.tokens += tokens;
        self.calls.push(Call { at, tokens, last });
        Ok(())
    }

    fn node(&mut self, parent: Node, depth: u32) -> Node {
        let node = self.parents.len() as Node;
        self.parents.push(parent);
        self.depths.push(depth);
        node
    }

    /// No more calls: puts them in the order of their arrival, those of one moment as they were added, counts time from
    /// the first, and gives back what only adding needs.
    pub fn seal(&mut self) {
        if !self.sorted {
            self.calls.sort_by_key(|call| call.at);
            self.sorted = true;
        }
        let start = self.calls.first().map_or(Duration::ZERO, |call| call.at);
        self.calls.iter_mut().for_each(|call| call.at -= start);
        self.children = HashMap::default();
        self.roots = HashMap::new();
    }

    /// The calls in the order they are replayed.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Tokens of a block.
    #[must_use]
    pub fn block_tokens(&self) -> u64 {
        self.block_tokens
    }

    /// Prompt tokens of all calls.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Blocks of all calls, as the trace lists them.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.listed
    }

    /// Distinct blocks among them: the same content behind the same start.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.depths.iter().filter(|depth| **depth > 0).count()
    }

    /// Attention pairs of all prompts.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.calls.iter().map(|call| pairs_below(call.tokens)).sum()
    }

    /// From the first call to the last.
    #[must_use]
    pub fn span(&self) -> Duration {
        let ends =
            (self.calls.iter().map(|call| call.at).min(), self.calls.iter().map(|c| c.at).max());
        if let (Some(first), Some(last)) = ends { last - first } else { Duration::ZERO }
    }

    /// The most blocks that a call needs at once: no smaller cache can run them all.
    #[must_use]
    pub fn longest(&self, counting: Counting) -> usize {
        let needs = |call: &Call| {
            let shape = self.shape(call, counting);
            shape.stored + shape.spare
        };
        self.calls.iter().map(needs).max().unwrap_or(0)
    }

    /// What a call needs.
    #[must_use]
    pub fn shape(&self, call: &Call, counting: Counting) -> Shape {
        let listed = self.depths[call.last as usize] as usize;
        match counting {
            Counting::Listed => Shape { stored: listed, lookup: listed, spare: 0 },
            Counting::Engine => Shape {
                stored: (call.tokens / self.block_tokens) as usize,
                lookup: ((call.tokens - 1) / self.block_tokens) as usize,
                spare: usize::from(!call.tokens.is_multiple_of(self.block_tokens)),
            },
        }
    }

    /// Replaces `path` by the call's stored blocks, the prompt's head first.
    pub(super) fn path(&self, call: &Call, shape: Shape, path: &mut Vec<Node>) {
        path.clear();
        let mut node = call.last;
        while self.depths[node as usize] as usize > shape.stored {
            node = self.parents[node as usize];
        }
        while self.depths[node as usize] > 0 {
            path.push(node);
            node = self.parents[node as usize];
        }
        path.reverse();
    }

    /// The block before a block.
    pub(super) fn parent(&self, node: Node) -> Option<Node> {
        let parent = self.parents[node as usize];
        (self.depths[parent as usize] > 0).then_some(parent)
    }

    /// How many blocks come up to and with a block.
    pub(super) fn depth(&self, node: Node) -> u32 {
        self.depths[node as usize]
    }

    /// A table with a place for each node.
    pub(super) fn table<T: Clone>(&self, value: T) -> Vec<T> {
        vec![value; self.parents.len()]
    }

    /// What one reused block of a call is worth: block `number`, from 0.
    pub(super) fn worth(&self, call: &Call, number: usize) -> Hits {
        let start = number as u64 * self.block_tokens;
        let end = (start + self.block_tokens).min(call.tokens);
        Hits { blocks: 1, tokens: end - start, pairs: pairs_below(end) - pairs_below(start) }
    }

    /// What the first `blocks` blocks of a call are worth.
    pub(super) fn worth_of_first(&self, call: &Call, blocks: usize) -> Hits {
        let tokens = (blocks as u64 * self.block_tokens).min(call.tokens);
        Hits { blocks: blocks as u64, tokens, pairs: pairs_below(tokens) }
    }
}

/// Pairs of a position below `tokens` and one at or before it.
fn pairs_below(tokens: u64) -> u64 {
    tokens * (tokens + 1) / 2
}

/// Hashes the pair of numbers that names a child. They come from a trace, not from someone who would profit by
/// collisions of a simulation, and most of them are small and dense.
type Mixed = std::hash::BuildHasherDefault<Mix>;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mix(u64);

impl std::hash::Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 over the golden ratio, as in Knuth's multiplicative hashing.
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
