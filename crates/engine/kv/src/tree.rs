//! What is stored: a tree of logical blocks, found by hash and checked by tokens.
//!
//! A node is one full block of tokens behind one prefix. It holds its tokens once, however many groups of layers have a physical block for it.
//! A lookup goes from parent to child and compares parent, tokens and media, so by induction a match has the same whole prefix: the hash only finds it quickly.

use std::collections::HashMap;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::hash::BlockHash;
use crate::ids::{BlockId, CallId, Moment};
use crate::keys::{Root, Scope};

/// A slot of the tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) const NONE: Self = Self(u32::MAX);

    fn index(self) -> usize {
        self.0 as usize
    }

    fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// What a node is, besides its tokens.
enum Kind {
    Block,
    Media(Box<[u8; 32]>),
    /// The start of all chains of one scope; holds no tokens and no blocks.
    Scope(Box<Scope>),
}

pub(crate) struct Node {
    hash: BlockHash,
    kind: Kind,
    parent: NodeId,
    first_child: NodeId,
    prev_sibling: NodeId,
    next_sibling: NodeId,
    /// Block number in the prompt.
    pub(crate) number: u32,
    /// Calls that have this node in their chain now.
    pub(crate) users: u32,
    /// Calls that have had it in their chain since it was stored.
    pub(crate) uses: u32,
    /// Start of the call that last used it.
    pub(crate) used_at: Moment,
    /// The call that last used it.
    pub(crate) call: CallId,
}

/// What a new node is made of.
pub(crate) struct NewNode<'a> {
    pub(crate) hash: BlockHash,
    pub(crate) parent: NodeId,
    pub(crate) number: usize,
    pub(crate) tokens: &'a [u32],
    pub(crate) media: Option<[u8; 32]>,
    pub(crate) used_at: Moment,
    pub(crate) call: CallId,
}

/// The tree of stored blocks.
pub(crate) struct Tree {
    block_tokens: usize,
    groups: usize,
    nodes: Vec<Node>,
    tokens: Vec<u32>,
    blocks: Vec<BlockId>,
    vacant: Vec<NodeId>,
    index: HashTable<NodeId>,
    scopes: HashMap<Scope, NodeId>,
    /// First blocks of all scopes by their tokens, to find out that another scope holds a prompt.
    starts: HashTable<NodeId>,
}

/// How many children are compared when the nearest one is looked for: a bound on the work for prompts that share a start with thousands of others.
const NEAREST_CHILDREN: usize = 64;

impl Tree {
    pub(crate) fn new(block_tokens: usize, groups: usize) -> Self {
        Self {
            block_tokens,
            groups,
            nodes: Vec::new(),
            tokens: Vec::new(),
            blocks: Vec::new(),
            vacant: Vec::new(),
            index: HashTable::new(),
            scopes: HashMap::new(),
            starts: HashTable::new(),
        }
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    pub(crate) fn hash(&self, id: NodeId) -> BlockHash {
        self.node(id).hash
    }

    pub(crate) fn tokens(&self, id: NodeId) -> &[u32] {
        &self.tokens[id.index() * self.block_tokens..][..self.block_tokens]
    }

    /// Physical blocks of a node, by group.
    pub(crate) fn blocks(&self, id: NodeId) -> &[BlockId] {
        &self.blocks[id.index() * self.groups..][..self.groups]
    }

    pub(crate) fn set_block(&mut self, id: NodeId, group: usize, block: BlockId) {
        self.blocks[id.index() * self.groups + group] = block;
    }

    /// Nodes that hold tokens.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn parent(&self, id: NodeId) -> Option<NodeId> {
        self.node(id).parent.some()
    }

    pub(crate) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        std::iter::successors(self.node(id).first_child.some(), |&child| {
            self.node(child).next_sibling.some()
        })
    }

    pub(crate) fn scope(&self, scope: &Scope) -> Option<NodeId> {
        self.scopes.get(scope).copied()
    }

    /// The starts of all chains from a root, whatever their salt and adapter, in a fixed order.
    pub(crate) fn starts_of(&self, root: &Root) -> Vec<NodeId> {
        let of_root = self.scopes.iter().filter(|(scope, _)| scope.is_of(root));
        let mut starts: Vec<NodeId> = of_root.map(|(_, &id)| id).collect();
        starts.sort_unstable();
        starts
    }

    /// The starts of all chains and the root that each belongs to, in a fixed order.
    pub(crate) fn all_starts(&self) -> Vec<(Root, NodeId)> {
        let mut starts: Vec<(Root, NodeId)> =
            self.scopes.iter().map(|(scope, &id)| (scope.root(), id)).collect();
        starts.sort_unstable_by_key(|&(_, id)| id);
        starts
    }

    /// The start of a scope's chains, made if it isn't there.
    pub(crate) fn scope_or_insert(&mut self, scope: Scope, root: BlockHash) -> NodeId {
        if let Some(&id) = self.scopes.get(&scope) {
            return id;
        }
        let id = self.place(Node {
            hash: root,
            kind: Kind::Scope(Box::new(scope)),
            parent: NodeId::NONE,
            first_child: NodeId::NONE,
            prev_sibling: NodeId::NONE,
            next_sibling: NodeId::NONE,
            number: 0,
            users: 0,
            uses: 0,
            used_at: Moment::START,
            call: CallId(0),
        });
        self.scopes.insert(scope, id);
        id
    }

    /// The child of `parent` with these tokens and this media.
    pub(crate) fn find(
        &self,
        hash: &BlockHash,
        parent: NodeId,
        tokens: &[u32],
        media: Option<&[u8; 32]>,
    ) -> Option<NodeId> {
        let found = self.index.find(hash.short(), |&id| {
            let node = self.node(id);
            node.hash == *hash
                && node.parent == parent
                && self.tokens(id) == tokens
                && match &node.kind {
                    Kind::Media(digest) => media == Some(digest),
                    Kind::Block => media.is_none(),
                    Kind::Scope(_) => false,
                }
        });
        found.copied()
    }

    /// Adds a node; the caller has looked that it isn't there.
    pub(crate) fn insert(&mut self, new: &NewNode<'_>) -> NodeId {
        debug_assert_eq!(new.tokens.len(), self.block_tokens);
        let id = self.place(Node {
            hash: new.hash,
            kind: new.media.map_or(Kind::Block, |digest| Kind::Media(Box::new(digest))),
            parent: new.parent,
            first_child: NodeId::NONE,
            prev_sibling: NodeId::NONE,
            next_sibling: self.node(new.parent).first_child,
            number: new.number as u32,
            users: 0,
            uses: 0,
            used_at: new.used_at,
            call: new.call,
        });
        let start = id.index() * self.block_tokens;
        self.tokens[start..start + self.block_tokens].copy_from_slice(new.tokens);
        if let Some(sibling) = self.node(id).next_sibling.some() {
            self.node_mut(sibling).prev_sibling = id;
        }
        self.node_mut(new.parent).first_child = id;
        let nodes = &self.nodes;
        self.index.insert_unique(new.hash.short(), id, |&other| nodes[other.index()].hash.short());
        if new.number == 0 {
            let (tokens, size) = (&self.tokens, self.block_tokens);
            let key = |other: &NodeId| start_key(&tokens[other.index() * size..][..size]);
            self.starts.insert_unique(start_key(new.tokens), id, key);
        }
        id
    }

    /// Removes a leaf that nobody uses and that has no blocks.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let Node { hash, parent, prev_sibling, next_sibling, number, .. } = *self.node(id);
        debug_assert!(self.node(id).first_child == NodeId::NONE && self.node(id).users == 0);
        if let Kind::Scope(scope) = &self.node(id).kind {
            let scope = **scope;
            self.scopes.remove(&scope);
        } else {
            if let Ok(entry) = self.index.find_entry(hash.short(), |&other| other == id) {
                entry.remove();
            }
            if number == 0
                && let Ok(entry) =
                    self.starts.find_entry(start_key(self.tokens(id)), |&other| other == id)
            {
                entry.remove();
            }
            match prev_sibling.some() {
                Some(sibling) => self.node_mut(sibling).next_sibling = next_sibling,
                None => self.node_mut(parent).first_child = next_sibling,
            }
            if let Some(sibling) = next_sibling.some() {
                self.node_mut(sibling).prev_sibling = prev_sibling;
            }
        }
        self.node_mut(id).kind = Kind::Block;
        self.vacant.push(id);
    }

    /// Overwrites the tokens of a node that was removed.
    pub(crate) fn wipe(&mut self, id: NodeId) {
        let start = id.index() * self.block_tokens;
        self.tokens[start..start + self.block_tokens].fill(0);
    }

    /// Whether nothing needs the node any more.
    pub(crate) fn is_idle(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.users == 0
            && node.first_child == NodeId::NONE
            && self.blocks(id).iter().all(|block| block.is_null())
    }

    /// The deepest first descendant: the first leaf to go when a subtree is dropped.
    pub(crate) fn leaf_below(&self, id: NodeId) -> NodeId {
        let mut leaf = id;
        while let Some(child) = self.node(leaf).first_child.some() {
            leaf = child;
        }
        leaf
    }

    /// The child that shares the most tokens with `tokens`, and how many.
    pub(crate) fn nearest_child(&self, parent: NodeId, tokens: &[u32]) -> Option<(NodeId, usize)> {
        let mut best: Option<(NodeId, usize)> = None;
        for child in self.children(parent).take(NEAREST_CHILDREN) {
            let common = crate::sequence::common_tokens(self.tokens(child), tokens);
            if best.is_none_or(|(_, most)| common > most) {
                best = Some((child, common));
            }
        }
        best
    }

    /// Whether a scope other than `own` holds the first `blocks` blocks of these tokens.
    pub(crate) fn held_elsewhere(
        &self,
        own: Option<NodeId>,
        tokens: &[u32],
        blocks: usize,
    ) -> bool {
        let Some(start) = tokens.get(..self.block_tokens) else { return false };
        self.starts
            .iter_hash(start_key(start))
            .filter(|&&id| self.tokens(id) == start && Some(self.node(id).parent) != own)
            .take(NEAREST_CHILDREN)
            .any(|&id| {
                let mut at = id;
                tokens.chunks_exact(self.block_tokens).take(blocks).skip(1).all(|block| {
                    let child = self
                        .children(at)
                        .take(NEAREST_CHILDREN)
                        .find(|&child| self.tokens(child) == block);
                    at = child.unwrap_or(at);
                    child.is_some()
                })
            })
    }

    /// Whether the slot is a node that holds tokens at this moment.
    pub(crate) fn is_stored(&self, id: NodeId) -> bool {
        self.index.find(self.hash(id).short(), |&other| other == id).is_some()
    }

    /// Every node that holds tokens, in a fixed order.
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        let mut ids: Vec<NodeId> = self.index.iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.block_tokens, self.groups);
    }

    fn place(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.vacant.pop() {
            self.nodes[id.index()] = node;
            let start = id.index() * self.groups;
            self.blocks[start..start + self.groups].fill(BlockId::NULL);
            return id;
        }
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        self.tokens.resize(self.nodes.len() * self.block_tokens, 0);
        self.blocks.resize(self.nodes.len() * self.groups, BlockId::NULL);
        id
    }
}

fn start_key(tokens: &[u32]) -> u64 {
    xxh3_64(bytemuck::cast_slice(tokens))
}
