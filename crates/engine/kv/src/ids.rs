//! Identifiers and time.

use std::time::Duration;

use bytemuck::{Pod, TransparentWrapper, Zeroable};

/// A physical block of the pool. Block 0 is the null block: it is never handed out and stands for "absent" in a block table.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Pod, Zeroable, TransparentWrapper,
)]
#[repr(transparent)]
pub struct BlockId(pub u32);

impl BlockId {
    /// The null block.
    pub const NULL: Self = Self(0);

    /// Whether this is the null block.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
}

/// One call, named by the engine. A resumed call keeps its id; two calls never share one at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// A group of layers that share one block table, in the order of [`CacheConfig::groups`](crate::CacheConfig::groups).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupIndex(pub usize);

/// A point in time, as the span since the owner's start. The cache has no clock of its own, so tests move time by hand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The owner's start.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment `elapsed` after the start.
    #[must_use]
    pub const fn after(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The span from `earlier` to this moment, zero when `earlier` lies ahead.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
