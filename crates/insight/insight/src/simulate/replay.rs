//! One capacity exactly, through the engine's own cache.

use std::time::Duration;

use tapri_kv::{
    Admission, AdmitError, AdmitOptions, CacheConfig, CallError, CallId, ConfigError, GroupSpec,
    Moment, PrefixCache, PrefixHash, PromptKeys, Root, RootParts,
};

use super::trace::{Counting, Hits, Trace};

/// A cache to replay a trace against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Blocks that it has room for; `None`: endless.
    pub capacity: Option<usize>,
    /// A start that was not used for this long is gone; `None`: no timer.
    pub ttl: Option<Duration>,
    /// What counts as a block.
    pub counting: Counting,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// What was reused.
    pub hits: Hits,
    /// Calls that are larger than the whole cache. They ran nowhere and left nothing behind.
    pub too_large: u64,
    /// Blocks that made room for others.
    pub evicted: u64,
    /// Blocks whose time ran out.
    pub expired: u64,
}

/// Why a trace can't be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The cache can't be made.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The cache refused a call.
    #[error("call {call} was not admitted")]
    Admit {
        /// Which, from 0.
        call: usize,
        /// Why.
        source: AdmitError,
    },
    /// The cache refused a step of a call.
    #[error("call {call} could not run")]
    Run {
        /// Which, from 0.
        call: usize,
        /// Why.
        source: CallError,
    },
    /// There was no room though no other call runs.
    #[error("call {call} found no room in an idle cache")]
    NoRoom {
        /// Which, from 0.
        call: usize,
    },
}

/// A token that no block of a trace is named by.
const OTHER: u32 = u32::MAX;

/// Replays the calls one after another through [`PrefixCache`]: admission, blocks for the rest, publication, release.
///
/// A block of the trace is one token of the cache, whose blocks are one token long, so that nothing is hashed that a
/// trace does not have. The tokens behind the last stored block are one more token: with [`Counting::Engine`] it takes a
/// block of its own that is never computed to the end, so never found, exactly as a block that is not full; with
/// [`Counting::Listed`] it stands for the token that comes after what was listed and takes no room, except that a call
/// as large as the whole cache is refused.
///
/// `tick` is told now and then how many calls are done.
///
/// # Errors
/// When the cache refuses what a sequential replay never asks of it.
pub fn replay(
    trace: &Trace,
    settings: Settings,
    mut tick: impl FnMut(usize),
) -> Result<Replayed, ReplayError> {
    let Settings { capacity, ttl, counting } = settings;
    let endless = || trace.distinct() + trace.longest(counting) + 2;
    let mut cache = PrefixCache::new(CacheConfig {
        block_tokens: 1,
        hash: PrefixHash::Xxh3,
        join: false,
        ttl,
        // Nobody asks why a block was not there.
        ghosts: 0,
        // One of the pool's blocks is the null block.
        ..CacheConfig::new(
            capacity.unwrap_or_else(endless).saturating_add(1),
            vec![GroupSpec::Full],
        )
    })?;
    let keys = PromptKeys::new(Root::new(&RootParts {
        numerics: 0,
        isa: "none",
        model: b"trace",
        rope: b"",
        kv_type: "none",
        block_tokens: 1,
        hash: PrefixHash::Xxh3,
        tenant: b"",
    }));
    let mut replayed = Replayed::default();
    let (mut path, mut fresh) = (Vec::new(), Vec::new());
    for (number, call) in trace.calls().iter().enumerate() {
        if number.is_multiple_of(256) {
            tick(number);
        }
        let shape = trace.shape(call, counting);
        trace.path(call, shape, &mut path);
        if shape.spare > 0 || counting == Counting::Listed {
            path.push(OTHER);
        }
        let (id, now) = (CallId(number as u64), Moment::after(call.at));
        let admission = cache.admit(id, &path, &keys, AdmitOptions::default(), now);
        let ready = match admission.map_err(|source| ReplayError::Admit { call: number, source })? {
            Admission::Ready(ready) => ready,
            Admission::TooLarge(_) => {
                replayed.too_large += 1;
                continue;
            }
            Admission::NoRoom(_) | Admission::Wait(_) => {
                return Err(ReplayError::NoRoom { call: number });
            }
        };
        replayed.hits += trace.worth_of_first(call, ready.hit);
        fresh.clear();
        cache
            .reserve(id, shape.stored + shape.spare, &mut fresh)
            .and_then(|()| cache.computed(id, shape.stored))
            .map_err(|source| ReplayError::Run { call: number, source })?;
        cache.finish(id, now);
    }
    let evictions = cache.stats().counters.evictions;
    (replayed.evicted, replayed.expired) = (evictions.capacity, evictions.expired);
    Ok(replayed)
}
