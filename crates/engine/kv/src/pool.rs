//! The pool of physical blocks: reference counts and the free queue.
//!
//! The free queue is three intrusive lists that are emptied one after another, so that any block leaves it in O(1) when it is hit again:
//! blocks that can't be hit, then window blocks that the window has passed, then everything else, least recently used first.

use crate::ids::BlockId;
use crate::tree::NodeId;

/// The three parts of the free queue, in the order in which they are used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shelf {
    /// Nothing that a lookup could find.
    Empty = 0,
    /// Window blocks away from a retained boundary.
    Passed = 1,
    /// Least recently used first; within one call the tail of the prompt first.
    Cached = 2,
}

const SHELVES: [Shelf; 3] = [Shelf::Empty, Shelf::Passed, Shelf::Cached];

#[derive(Clone, Copy, Default)]
struct Ends {
    head: u32,
    tail: u32,
    len: usize,
}

/// One physical block. The null block 0 doubles as the end mark of the lists.
#[derive(Clone)]
pub(crate) struct Block {
    refs: u32,
    prev: u32,
    next: u32,
    node: NodeId,
    group: u16,
    shelf: Shelf,
    retained: bool,
}

/// The pool. It knows which blocks are used and in which order the free ones go, not what is in them.
pub(crate) struct Pool {
    blocks: Vec<Block>,
    ends: [Ends; 3],
    used: Vec<usize>,
    cached: Vec<usize>,
}

impl Pool {
    /// A pool of `blocks`, the null block included, all free in ascending order.
    pub(crate) fn new(blocks: usize, groups: usize) -> Self {
        let block = Block {
            refs: 0,
            prev: 0,
            next: 0,
            node: NodeId::NONE,
            group: 0,
            shelf: Shelf::Empty,
            retained: false,
        };
        let mut pool = Self {
            blocks: vec![block; blocks],
            ends: [Ends::default(); 3],
            used: vec![0; groups],
            cached: vec![0; groups],
        };
        for id in 1..blocks as u32 {
            pool.push_back(id, Shelf::Empty);
        }
        pool
    }

    fn at(&mut self, id: u32) -> &mut Block {
        &mut self.blocks[id as usize]
    }

    /// Blocks that can ever be handed out.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Blocks that can be handed out now, cached ones included.
    pub(crate) fn free(&self) -> usize {
        self.ends.iter().map(|ends| ends.len).sum()
    }

    /// Blocks that nobody uses but a lookup could find, of one group.
    pub(crate) fn cached(&self, group: usize) -> usize {
        self.cached[group]
    }

    /// Blocks in use, of one group.
    pub(crate) fn used(&self, group: usize) -> usize {
        self.used[group]
    }

    pub(crate) fn refs(&self, id: BlockId) -> u32 {
        self.blocks[id.0 as usize].refs
    }

    pub(crate) fn node(&self, id: BlockId) -> NodeId {
        self.blocks[id.0 as usize].node
    }

    pub(crate) fn group(&self, id: BlockId) -> usize {
        self.blocks[id.0 as usize].group.into()
    }

    pub(crate) fn shelf(&self, id: BlockId) -> Shelf {
        self.blocks[id.0 as usize].shelf
    }

    /// Marks a block as lying before a retained boundary, until it is used for something else.
    pub(crate) fn retain(&mut self, id: BlockId) {
        self.at(id.0).retained = true;
    }

    /// Names what a lookup finds in a used block.
    pub(crate) fn attach(&mut self, id: BlockId, node: NodeId) {
        debug_assert!(self.refs(id) > 0, "only a block in use has been computed");
        self.at(id.0).node = node;
    }

    /// Forgets what is in a block. A free one moves to the front of the queue.
    pub(crate) fn detach(&mut self, id: BlockId) {
        let block = self.at(id.0);
        block.node = NodeId::NONE;
        block.retained = false;
        if block.refs == 0 {
            let group = usize::from(block.group);
            self.unlink(id.0);
            self.cached[group] -= 1;
            self.push_front(id.0, Shelf::Empty);
        }
    }

    /// One more user of a block that holds something.
    pub(crate) fn take(&mut self, id: BlockId) {
        let block = self.at(id.0);
        block.refs += 1;
        if block.refs == 1 {
            let group = usize::from(block.group);
            self.unlink(id.0);
            self.cached[group] -= 1;
            self.used[group] += 1;
        }
    }

    /// One user less. The last one returns the block to the free queue.
    pub(crate) fn give_back(&mut self, id: BlockId) {
        let block = self.at(id.0);
        debug_assert!(block.refs > 0, "a block is given back once per use");
        block.refs -= 1;
        if block.refs > 0 {
            return;
        }
        let group = usize::from(block.group);
        let (hashed, retained) = (block.node != NodeId::NONE, block.retained);
        self.used[group] -= 1;
        match (hashed, retained) {
            (false, _) => self.push_front(id.0, Shelf::Empty),
            (true, kept) => {
                self.cached[group] += 1;
                self.push_back(id.0, if kept { Shelf::Cached } else { Shelf::Passed });
            }
        }
    }

    /// The block that goes next, without taking it.
    pub(crate) fn next(&self) -> Option<BlockId> {
        self.ends.iter().find(|ends| ends.len > 0).map(|ends| BlockId(ends.head))
    }

    /// Takes the front of the queue, which must hold nothing any more.
    pub(crate) fn allocate(&mut self, group: usize) -> Option<BlockId> {
        let id = self.next()?;
        debug_assert!(self.node(id) == NodeId::NONE, "what was in it is evicted first");
        self.unlink(id.0);
        let block = self.at(id.0);
        block.refs = 1;
        block.group = group as u16;
        block.retained = false;
        self.used[group] += 1;
        Some(id)
    }

    /// Every block forgets what is in it; the order of the queue stays.
    pub(crate) fn detach_all(&mut self) {
        for shelf in [Shelf::Passed, Shelf::Cached] {
            while self.ends[shelf as usize].len > 0 {
                let id = self.ends[shelf as usize].head;
                self.unlink(id);
                self.push_back(id, Shelf::Empty);
            }
        }
        self.cached.fill(0);
        for block in &mut self.blocks {
            block.node = NodeId::NONE;
            block.retained = false;
        }
    }

    /// The free queue from the front, for tests and checks.
    pub(crate) fn queue(&self) -> impl Iterator<Item = BlockId> + '_ {
        SHELVES.into_iter().flat_map(move |shelf| {
            let head = self.ends[shelf as usize].head;
            std::iter::successors((head != 0).then_some(head), move |&id| {
                let next = self.blocks[id as usize].next;
                (next != 0).then_some(next)
            })
            .map(BlockId)
        })
    }

    fn push_back(&mut self, id: u32, shelf: Shelf) {
        let ends = &mut self.ends[shelf as usize];
        let tail = ends.tail;
        ends.tail = id;
        ends.len += 1;
        if tail == 0 {
            ends.head = id;
        } else {
            self.at(tail).next = id;
        }
        let block = self.at(id);
        (block.prev, block.next, block.shelf) = (tail, 0, shelf);
    }

    fn push_front(&mut self, id: u32, shelf: Shelf) {
        let ends = &mut self.ends[shelf as usize];
        let head = ends.head;
        ends.head = id;
        ends.len += 1;
        if head == 0 {
            ends.tail = id;
        } else {
            self.at(head).prev = id;
        }
        let block = self.at(id);
        (block.prev, block.next, block.shelf) = (0, head, shelf);
    }

    fn unlink(&mut self, id: u32) {
        let Block { prev, next, shelf, .. } = self.blocks[id as usize];
        if prev == 0 {
            self.ends[shelf as usize].head = next;
        } else {
            self.at(prev).next = next;
        }
        if next == 0 {
            self.ends[shelf as usize].tail = prev;
        } else {
            self.at(next).prev = prev;
        }
        self.ends[shelf as usize].len -= 1;
        let block = self.at(id);
        (block.prev, block.next) = (0, 0);
    }
}
