//! Where answers are kept.
//!
//! [`Tiers`] is what the cache uses: memory in front, and at most one [`Store`] behind it, watched by [`Guarded`] so
//! that a store that is slow, down or corrupt costs a miss and a counted warning. [`open`] finds one by its URL.

pub(crate) mod filter;
pub(crate) mod guarded;
pub(crate) mod memory;
mod open;
#[cfg(feature = "redis")]
pub mod redis;
pub mod sqlite;
pub(crate) mod tiers;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::{Key, Tags};
pub use filter::Filter;
pub use guarded::{GuardConfig, Guarded};
pub use memory::Memory;
pub use open::{OpenStoreError, Opened, open};
pub use tiers::{Ticket, Tiers};

/// Why a store didn't do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It didn't answer in time.
    #[error("it did not answer in time")]
    Slow,
    /// It failed a moment ago, and is left alone for another.
    #[error("it failed a moment ago and is left alone for another")]
    Resting,
    /// More waits for it than it can take.
    #[error("too much waits for it")]
    Full,
    /// It was closed.
    #[error("it is closed")]
    Closed,
    /// It refused, or can't be reached.
    #[error("{0}")]
    Failed(String),
}

/// What a store answers later.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// What a store has under a key.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The store's count of erasures.
    pub epoch: u64,
    /// The answers, encoded, with the slot of each.
    pub entries: Vec<(usize, Vec<u8>)>,
}

/// An answer to be kept.
#[derive(Debug, Clone)]
pub struct Put {
    /// Its key.
    pub key: Key,
    /// Which of the key's answers it is, counted from 0.
    pub slot: usize,
    /// The encoded entry.
    pub bytes: Arc<[u8]>,
    /// What it belongs to.
    pub tags: Tags,
    /// When it was given, in milliseconds since 1970.
    pub created: u64,
    /// Until when it may be served, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// The store's count of erasures when the call began. If it has grown since, nothing is kept: what the call
    /// belongs to may have been erased.
    pub epoch: u64,
}

/// What a store holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct StoreStats {
    /// Answers.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest was given, in milliseconds since 1970; absent where there is none, or the store doesn't tell.
    #[serde(default)]
    pub oldest: Option<u64>,
}

/// A place for answers that outlives this process or is shared with others.
///
/// Nothing here is trusted with the truth: entries carry their own digest, and are judged by who reads them.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// What it is, for messages and metrics: `sqlite`, `redis`.
    fn name(&self) -> &'static str;

    /// The answers under a key.
    fn get(&self, key: Key) -> Reply<Found>;

    /// Whether it is known without asking that there is nothing under a key. May be wrong for what others stored a
    /// moment ago, which costs a miss.
    fn lacks(&self, _key: &Key) -> bool {
        false
    }

    /// Keeps an answer. `false`: something was erased since its call began, so it isn't kept.
    fn put(&self, put: Put) -> Reply<bool>;

    /// Notes that a session got this answer as well.
    fn tag(&self, key: Key, session: String) -> Reply<()>;

    /// Forgets what is under a key.
    fn delete(&self, key: Key) -> Reply<()>;

    /// Erases what a filter matches, and counts up the erasures, before and whether or not anything matched. Returns
    /// how many answers went.
    fn purge(&self, filter: Filter, now: u64) -> Reply<u64>;

    /// The count of erasures.
    fn epoch(&self) -> Reply<u64>;

    /// What it holds.
    fn stats(&self) -> Reply<StoreStats>;

    /// Writes what waits and lets go of files and connections. Blocks for a moment.
    fn close(&self);
}
