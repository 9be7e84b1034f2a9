//! What can be set when an engine starts.

use std::num::NonZeroUsize;
use std::time::Duration;

use tapri_kernels::{Isa, KvType};
use tapri_kv::PrefixHash;

use crate::adapters::AdapterFile;
use crate::disk::DiskConfig;

/// Settings of an [`Engine`](crate::Engine). The default suits a laptop.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Threads that compute, the engine's own included.
    pub threads: NonZeroUsize,
    /// The instruction-set path; `None` takes `TAPRI_ISA`, or the best there is.
    pub isa: Option<Isa>,
    /// The one memory budget of the KV cache, in bytes; never exceeded.
    pub kv_memory: u64,
    /// How keys and values are stored.
    pub kv_type: KvType,
    /// Tokens in a KV block: a multiple of 16, at most 256.
    pub block_size: usize,
    /// Whether calls may use what earlier calls left behind.
    pub prefix_cache: bool,
    /// How long after its last use a prefix may still be hit; `None` for no limit.
    pub prefix_ttl: Option<Duration>,
    /// The hash that names KV blocks.
    pub prefix_hash: PrefixHash,
    /// Where blocks that made room are kept, and those of a shutdown; `None` for nowhere.
    pub disk: Option<DiskConfig>,
    /// The share of the KV memory that may be pinned, from 0 to 1; of a scope's own share for its own pins.
    pub pin_limit: f64,
    /// The most prompt tokens computed in one step, over all calls.
    pub chunk: NonZeroUsize,
    /// The most calls that run at once.
    pub max_running: NonZeroUsize,
    /// The most calls that wait to run; one more is refused.
    pub max_waiting: usize,
    /// LoRA adapters, each with a name of its own.
    pub adapters: Vec<AdapterFile>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        const CHUNK: NonZeroUsize = NonZeroUsize::new(512).unwrap();
        const RUNNING: NonZeroUsize = NonZeroUsize::new(16).unwrap();
        EngineConfig {
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            isa: None,
            kv_memory: 2 << 30,
            kv_type: KvType::Bf16,
            block_size: 16,
            prefix_cache: true,
            prefix_ttl: None,
            prefix_hash: PrefixHash::Sha256,
            disk: None,
            pin_limit: 0.25,
            chunk: CHUNK,
            max_running: RUNNING,
            max_waiting: 256,
            adapters: Vec::new(),
        }
    }
}
