//! The pool of physical blocks: reference counts and the free queue.
//!
//! The free queue is three intrusive lists that are emptied one after another, so that any block leaves it in O(1) when it is hit again:
//! blocks that can't be hit, then window blocks that the window has passed, then everything else, least recently used first.
//!
//! A block that is used or could be hit belongs to an owner, a tenant of the cache. Each owner's free blocks are linked a second
//! time, in the same order, so that the one that goes first of an owner's is found in O(1) as well.

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

/// Whose a block is, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OwnerId(pub(crate) u32);

impl OwnerId {
    /// Nobody's: nothing is in it.
    const NONE: Self = Self(u32::MAX);
}

/// What an owner has.
#[derive(Clone, Default)]
struct Owned {
    used: usize,
    cached: usize,
    /// Of its free blocks: the passed ones, and the others.
    ends: [Ends; 2],
}

const SHELVES: [Shelf; 3] = [Shelf::Empty, Shelf::Passed, Shelf::Cached];

/// The lists that a free block may be in at once.
#[derive(Clone, Copy)]
enum List {
    /// One of the free queue's.
    Queue = 0,
    /// One of its owner's.
    Owners = 1,
}

/// A block's neighbours in a list.
#[derive(Clone, Copy, Default)]
struct Link {
    prev: u32,
    next: u32,
}

/// An intrusive list of blocks.
#[derive(Clone, Copy, Default)]
struct Ends {
    head: u32,
    tail: u32,
    len: usize,
}

impl Ends {
    fn push_back(&mut self, blocks: &mut [Block], list: List, id: u32) {
        let tail = std::mem::replace(&mut self.tail, id);
        self.len += 1;
        if tail == 0 {
            self.head = id;
        } else {
            blocks[tail as usize].links[list as usize].next = id;
        }
        blocks[id as usize].links[list as usize] = Link { prev: tail, next: 0 };
    }

    fn push_front(&mut self, blocks: &mut [Block], list: List, id: u32) {
        let head = std::mem::replace(&mut self.head, id);
        self.len += 1;
        if head == 0 {
            self.tail = id;
        } else {
            blocks[head as usize].links[list as usize].prev = id;
        }
        blocks[id as usize].links[list as usize] = Link { prev: 0, next: head };
    }

    fn unlink(&mut self, blocks: &mut [Block], list: List, id: u32) {
        let Link { prev, next } = std::mem::take(&mut blocks[id as usize].links[list as usize]);
        self.len -= 1;
        if prev == 0 {
            self.head = next;
        } else {
            blocks[prev as usize].links[list as usize].next = next;
        }
        if next == 0 {
            self.tail = prev;
        } else {
            blocks[next as usize].links[list as usize].prev = prev;
        }
    }
}

/// One physical block. The null block 0 doubles as the end mark of the lists.
#[derive(Clone)]
pub(crate) struct Block {
    refs: u32,
    links: [Link; 2],
    owner: OwnerId,
    node: NodeId,
    group: u16,
    shelf: Shelf,
    retained: bool,
    /// Whether it is worth keeping elsewhere, retained or not.
    near_end: bool,
}

/// The pool. It knows which blocks are used and in which order the free ones go, not what is in them.
pub(crate) struct Pool {
    blocks: Vec<Block>,
    ends: [Ends; 3],
    owned: Vec<Owned>,
    used: Vec<usize>,
    cached: Vec<usize>,
}

impl Pool {
    /// A pool of `blocks`, the null block included, all free in ascending order.
    pub(crate) fn new(blocks: usize, groups: usize) -> Self {
        let block = Block {
            refs: 0,
            links: [Link::default(); 2],
            owner: OwnerId::NONE,
            node: NodeId::NONE,
            group: 0,
            shelf: Shelf::Empty,
            retained: false,
            near_end: false,
        };
        let mut pool = Self {
            blocks: vec![block; blocks],
            ends: [Ends::default(); 3],
            owned: Vec::new(),
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

    /// Blocks that an owner's calls use, and its free ones that a lookup could find.
    pub(crate) fn owned(&self, owner: OwnerId) -> (usize, usize) {
        self.owned.get(owner.0 as usize).map_or((0, 0), |owned| (owned.used, owned.cached))
    }

    /// Whose a block is; `None` where nothing is in it.
    pub(crate) fn owner(&self, id: BlockId) -> Option<OwnerId> {
        let owner = self.blocks[id.0 as usize].owner;
        (owner != OwnerId::NONE).then_some(owner)
    }

    /// The block that goes next of an owner's, without taking it.
    pub(crate) fn next_of(&self, owner: OwnerId) -> Option<BlockId> {
        let owned = self.owned.get(owner.0 as usize)?;
        owned.ends.iter().find(|ends| ends.len > 0).map(|ends| BlockId(ends.head))
    }

    fn owned_mut(&mut self, owner: OwnerId) -> &mut Owned {
        owned_mut(&mut self.owned, owner)
    }

    /// Marks a block as lying before a retained boundary, until it is used for something else.
    pub(crate) fn retain(&mut self, id: BlockId) {
        self.at(id.0).retained = true;
    }

    /// Marks a block as lying near a prompt's end, until it is used for something else. Its place in the queue is what it
    /// was.
    pub(crate) fn mark_near_end(&mut self, id: BlockId) {
        self.at(id.0).near_end = true;
    }

    /// Whether a window block is likely to be needed again.
    pub(crate) fn is_worth_keeping(&self, id: BlockId) -> bool {
        let block = &self.blocks[id.0 as usize];
        block.retained || block.near_end
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
        block.near_end = false;
        if block.refs == 0 {
            let group = usize::from(block.group);
            let owner = block.owner;
            self.unlink(id.0);
            self.cached[group] -= 1;
            self.owned_mut(owner).cached -= 1;
            self.at(id.0).owner = OwnerId::NONE;
            self.push_front(id.0, Shelf::Empty);
        }
    }

    /// One more user of a block that holds something.
    pub(crate) fn take(&mut self, id: BlockId) {
        let block = self.at(id.0);
        block.refs += 1;
        if block.refs == 1 {
            let group = usize::from(block.group);
            let owner = block.owner;
            self.unlink(id.0);
            self.cached[group] -= 1;
            self.used[group] += 1;
            let owned = self.owned_mut(owner);
            owned.cached -= 1;
            owned.used += 1;
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
        let owner = block.owner;
        self.used[group] -= 1;
        self.owned_mut(owner).used -= 1;
        match (hashed, retained) {
            (false, _) => {
                self.at(id.0).owner = OwnerId::NONE;
                self.push_front(id.0, Shelf::Empty);
            }
            (true, kept) => {
                self.cached[group] += 1;
                self.owned_mut(owner).cached += 1;
                self.push_back(id.0, if kept { Shelf::Cached } else { Shelf::Passed });
            }
        }
    }

    /// The block that goes next, without taking it.
    pub(crate) fn next(&self) -> Option<BlockId> {
        self.ends.iter().find(|ends| ends.len > 0).map(|ends| BlockId(ends.head))
    }

    /// Takes the front of the queue, which must hold nothing any more.
    pub(crate) fn allocate(&mut self, group: usize, owner: OwnerId) -> Option<BlockId> {
        let id = self.next()?;
        debug_assert!(self.node(id) == NodeId::NONE, "what was in it is evicted first");
        self.unlink(id.0);
        let block = self.at(id.0);
        block.refs = 1;
        block.group = group as u16;
        block.owner = owner;
        block.retained = false;
        block.near_end = false;
        self.used[group] += 1;
        self.owned_mut(owner).used += 1;
        Some(id)
    }

    /// Every block forgets what is in it; the order of the queue stays.
    pub(crate) fn detach_all(&mut self) {
        for shelf in [Shelf::Passed, Shelf::Cached] {
            while self.ends[shelf as usize].len > 0 {
                let id = self.ends[shelf as usize].head;
                self.unlink(id);
                self.at(id).owner = OwnerId::NONE;
                self.push_back(id, Shelf::Empty);
            }
        }
        self.cached.fill(0);
        self.owned.iter_mut().for_each(|owned| owned.cached = 0);
        for block in &mut self.blocks {
            block.node = NodeId::NONE;
            block.retained = false;
            block.near_end = false;
        }
    }

    /// The free queue from the front, for tests and checks.
    pub(crate) fn queue(&self) -> impl Iterator<Item = BlockId> + '_ {
        SHELVES.into_iter().flat_map(move |shelf| {
            let head = self.ends[shelf as usize].head;
            std::iter::successors((head != 0).then_some(head), move |&id| {
                let next = self.blocks[id as usize].links[List::Queue as usize].next;
                (next != 0).then_some(next)
            })
            .map(BlockId)
        })
    }

    fn push_back(&mut self, id: u32, shelf: Shelf) {
        self.at(id).shelf = shelf;
        self.ends[shelf as usize].push_back(&mut self.blocks, List::Queue, id);
        if let Some(own) = own_shelf(shelf) {
            let owner = self.at(id).owner;
            let ends = &mut owned_mut(&mut self.owned, owner).ends[own];
            ends.push_back(&mut self.blocks, List::Owners, id);
        }
    }

    /// Only what holds nothing goes to the front, which is nobody's.
    fn push_front(&mut self, id: u32, shelf: Shelf) {
        debug_assert!(own_shelf(shelf).is_none());
        self.at(id).shelf = shelf;
        self.ends[shelf as usize].push_front(&mut self.blocks, List::Queue, id);
    }

    fn unlink(&mut self, id: u32) {
        let Block { shelf, owner, .. } = self.blocks[id as usize];
        self.ends[shelf as usize].unlink(&mut self.blocks, List::Queue, id);
        if let Some(own) = own_shelf(shelf) {
            let ends = &mut owned_mut(&mut self.owned, owner).ends[own];
            ends.unlink(&mut self.blocks, List::Owners, id);
        }
    }
}

/// What an owner has, with room made for it where it is new.
fn owned_mut(owned: &mut Vec<Owned>, owner: OwnerId) -> &mut Owned {
    let at = owner.0 as usize;
    if owned.len() <= at {
        owned.resize_with(at + 1, Owned::default);
    }
    &mut owned[at]
}

/// Which of its owner's lists a block of a shelf is in.
fn own_shelf(shelf: Shelf) -> Option<usize> {
    match shelf {
        Shelf::Empty => None,
        Shelf::Passed => Some(0),
        Shelf::Cached => Some(1),
    }
}
