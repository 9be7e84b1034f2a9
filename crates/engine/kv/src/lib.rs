//! The logical prefix cache: which blocks of keys and values are there, who shares them, which go first.
//!
//! It knows tokens, hashes and block numbers. It has no tensors, no threads, no I/O and no clock: the engine owns the memory behind the blocks,
//! drives the cache step by step and passes the time in. The same history gives the same result.
//!
//! # Invariants
//! - A call finds a block only if the whole prefix is the same, token by token, in the same scope. The hash finds; the comparison decides.
//! - A block in use is never evicted; a pin is a use that outlasts its call. Every reference is given back by `finish`, `abort` or `preempt`.
//! - The pool's size is the budget; it is never exceeded.
//! - With full-attention groups a chain's head is never evicted before its tail.
//! - Blocks can be found when they are computed, not when they are scheduled. Who needs them earlier waits and holds no blocks of its own.
//! - The work of a lookup is linear in the prompt, and it allocates nothing beyond the call's hash list and block tables.
//!
//! # Map
//! `keys` and `hash` say what a block's hash covers; `sequence` hashes a call's tokens as they come. `tree` holds what is stored, `pool` the
//! physical blocks and the free queue, `ghost` what is gone; `store` joins the three and evicts. `call` is one call's hold on the store, and
//! `cache` what the engine calls, by stage: `admit` (with `lookup` and `explain`), `progress`, `fork`, `release`, `pin`; `picture` shows
//! what is held. `page` names what leaves for another memory, `slots` is the list of what that one holds, and `cache`'s `restore`
//! takes it back.
//!
//! # Example
//! ```
//! use tapri_kv::{Admission, AdmitOptions, CacheConfig, CallId, GroupSpec, Moment, PrefixCache, PrefixHash, PromptKeys, Root, RootParts};
//!
//! let mut cache = PrefixCache::new(CacheConfig::new(100, vec![GroupSpec::Full]))?;
//! let root = Root::new(&RootParts {
//!     numerics: 1,
//!     isa: "avx512",
//!     model: b"weights and tokenizer",
//!     rope: b"10000",
//!     kv_type: "bf16",
//!     block_tokens: 16,
//!     hash: PrefixHash::Sha256,
//!     tenant: b"",
//! });
//! let keys = PromptKeys::new(root);
//! let prompt: Vec<u32> = (0..100).collect();
//! for (call, expected) in [(CallId(1), 0), (CallId(2), 96)] {
//!     let Admission::Ready(ready) = cache.admit(call, &prompt, &keys, AdmitOptions::default(), Moment::START)? else {
//!         panic!("there is room");
//!     };
//!     assert_eq!(ready.hit, expected);
//!     cache.reserve(call, prompt.len(), &mut Vec::new())?;
//!     // ... the engine computes positions ready.start()..100 ...
//!     cache.computed(call, prompt.len())?;
//!     cache.finish(call, Moment::START);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod call;
mod config;
mod events;
mod ghost;
mod hash;
mod ids;
mod keys;
mod owners;
mod page;
mod pool;
mod reason;
mod sequence;
mod slots;
mod stats;
mod store;
mod tree;

pub use cache::{
    Admission, AdmitError, CallError, Fork, ForkError, Held, Holdings, NoRoom, Picture, Pin,
    PinError, PinLimits, PinsFull, PrefixCache, Ready, ResetReport, Restorable, Run, TooLarge,
    Wait, WantedPage,
};
pub use call::AdmitOptions;
pub use config::{CacheConfig, ConfigError, GroupSpec};
pub use events::KvEvent;
pub use hash::{BlockHash, PrefixHash, UnknownHash};
pub use ids::{BlockId, CallId, GroupIndex, Moment};
pub use keys::{AdapterDigest, MediaSpan, PromptKeys, Root, RootParts, Salt};
pub use page::Page;
pub use reason::{Nearest, Stop, StopReason};
pub use slots::{Placed, SlotPage, Slots};
pub use stats::{Counters, Evictions, GroupBlocks, Stats};
