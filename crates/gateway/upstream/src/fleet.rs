//! All upstreams as one [`Backend`]: names to replicas, and one replica for each call.

mod count;
mod health;
pub(crate) mod live;
mod models;
mod start;
pub mod stats;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tapri_api::{ApiError, Call, ErrorKind, Prompt};

use crate::clock::{Clock, SystemClock};
use crate::config::{Credential, FleetConfig, ServedModel, UpstreamConfig};
use crate::http::endpoint::Endpoint;
use crate::prefix::choice::Work;
use crate::prefix::index::Index;
use crate::prefix::key::Keys;
use crate::prefix::markers::Reuse;
use crate::prefix::rules::Rules;
use crate::{Answer, Backend, BackendStats, CallStream, ModelCard, unknown_model};
use live::Live;
use models::Models;
use stats::{Totals, UpstreamStats};

/// Why upstreams can't be used as they are configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// An address that can't be asked.
    #[error("upstream {upstream}: {url} is no address such as http://host:8000/v1")]
    Url {
        /// The upstream.
        upstream: String,
        /// The address.
        url: String,
    },
    /// Two have one name.
    #[error("two upstreams are named {name}")]
    Twice {
        /// The name.
        name: String,
    },
    /// One without an address, or none at all.
    #[error("upstream {upstream} has no address")]
    NoUrl {
        /// The upstream.
        upstream: String,
    },
    /// The client can't be made: certificates that can't be read.
    #[error("upstream {upstream}: {source}")]
    Client {
        /// The upstream.
        upstream: String,
        /// Why.
        source: reqwest::Error,
    },
}

/// All upstreams. Cheap to clone; clones share everything.
#[derive(Debug, Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    upstreams: Vec<Arc<UpstreamConfig>>,
    endpoints: Vec<Arc<Endpoint>>,
    models: Models,
    routes: HashMap<String, Vec<String>>,
    rules: Rules,
    index: Mutex<Index>,
    work: Mutex<Work>,
    keys: Keys,
    reuse: Reuse,
    totals: Arc<Totals>,
    live: Arc<Live>,
    clock: Arc<dyn Clock>,
    seed: u64,
    event_limit: usize,
    body_limit: usize,
}

impl Fleet {
    /// With the system's clock.
    pub fn new(config: FleetConfig) -> Result<Self, FleetError> {
        // What can't be drawn is the same every time: hashes are then only harder to keep apart, not wrong.
        let seed = getrandom::u64().unwrap_or(0x7461_7072);
        Fleet::with(config, Arc::new(SystemClock), seed)
    }

    /// With a clock and a seed of one's own.
    pub fn with(config: FleetConfig, clock: Arc<dyn Clock>, seed: u64) -> Result<Self, FleetError> {
        let mut names = HashSet::new();
        let mut upstreams = Vec::new();
        let mut endpoints: Vec<Arc<Endpoint>> = Vec::new();
        let mut replicas = Vec::new();
        for mut upstream in config.upstreams {
            if !names.insert(upstream.name.clone()) {
                return Err(FleetError::Twice { name: upstream.name });
            }
            if upstream.urls.is_empty() {
                return Err(FleetError::NoUrl { upstream: upstream.name });
            }
            if upstream.models.is_empty() {
                upstream.models.push(ServedModel::named("*"));
            }
            let upstream = Arc::new(upstream);
            let mut own = Vec::new();
            for (at, url) in upstream.urls.iter().enumerate() {
                let name = match upstream.urls.len() {
                    1 => upstream.name.clone(),
                    _ => format!("{}-{}", upstream.name, at + 1),
                };
                own.push(endpoints.len());
                endpoints.push(Arc::new(Endpoint::new(&upstream, url, name)?));
            }
            replicas.push(own);
            upstreams.push(upstream);
        }
        Ok(Fleet {
            inner: Arc::new(Inner {
                models: Models::new(&upstreams, &replicas),
                upstreams,
                endpoints,
                routes: config.routes,
                rules: config.rules,
                index: Mutex::new(Index::new(config.index_blocks)),
                work: Mutex::default(),
                keys: Keys::default(),
                reuse: Reuse::default(),
                totals: Arc::default(),
                live: Live::new(),
                clock,
                seed,
                event_limit: config.event_limit,
                body_limit: config.body_limit,
            }),
        })
    }

    /// Asks upstreams that serve any name for their lists, so that these can be listed and `model` be left out. To be
    /// called before [`Fleet::new`], on the configuration; what can't be asked stays as it is.
    pub async fn discover(config: &mut FleetConfig) {
        for upstream in &mut config.upstreams {
            if !upstream.models.is_empty() {
                continue;
            }
            let shared = Arc::new(upstream.clone());
            let Some(Ok(endpoint)) =
                shared.urls.first().map(|url| Endpoint::new(&shared, url, shared.name.clone()))
            else {
                continue;
            };
            let key = match &shared.credential {
                Credential::Shared(key) => Some(key),
                Credential::None | Credential::PerTenant(_) => None,
            };
            let list = endpoint.get("/v1/models", key).await.unwrap_or_default();
            let list: Value = serde_json::from_str(&list).unwrap_or_default();
            let models = list.get("data").and_then(Value::as_array).into_iter().flatten();
            upstream.models = models
                .filter_map(|model| {
                    let name = model.get("id")?.as_str()?;
                    let context = model.get("max_model_len").and_then(Value::as_u64);
                    let context = context.and_then(|context| usize::try_from(context).ok());
                    Some(ServedModel { context, ..ServedModel::named(name) })
                })
                .collect();
            // Names that the list doesn't have (dated ones, say) go through as well.
            upstream.models.push(ServedModel::named("*"));
        }
    }

    /// Begins to ask for the health of upstreams that are configured so. Inside a tokio runtime.
    pub fn watch(&self) {
        for endpoint in &self.inner.endpoints {
            if let (Some(health), Some(stopping)) =
                (endpoint.upstream.health.clone(), self.inner.live.enter())
            {
                // It ends when the fleet does, which waits for it.
                tokio::spawn(health::watch(Arc::clone(endpoint), health, stopping));
            }
        }
    }

    /// What whoever runs it should know.
    pub fn warnings(&self) -> Vec<String> {
        self.inner.upstreams.iter().flat_map(|upstream| upstream.warnings()).collect()
    }
}

impl Inner {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<ModelCard>, ApiError> {
        let Some(name) = name else {
            return match self.models.cards().as_slice() {
                [card] => Ok(Arc::clone(card)),
                cards => Err(crate::backend::unnamed(cards)),
            };
        };
        let found = self.models.find(name, &self.upstreams);
        found.map(|(card, _)| card).ok_or_else(|| unknown_model(name, &self.models.cards()))
    }
}

impl Backend for Fleet {
    fn models(&self) -> Vec<Arc<ModelCard>> {
        self.inner.models.cards()
    }

    fn card(&self, name: &str) -> Option<Arc<ModelCard>> {
        self.inner.models.find(name, &self.inner.upstreams).map(|(card, _)| card)
    }

    fn name(&self) -> &str {
        "fleet"
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        Box::pin(start::start(Arc::clone(&self.inner), call))
    }

    fn count_tokens(&self, call: Call) -> Answer<usize> {
        Box::pin(count::count(Arc::clone(&self.inner), call))
    }

    fn tokenize(&self, _: Prompt) -> Answer<Vec<u32>> {
        Box::pin(async { Err(no_tokens()) })
    }

    fn tokenize_piece(&self, _: String) -> Answer<Vec<u32>> {
        Box::pin(async { Err(no_tokens()) })
    }

    fn detokenize(&self, _: Vec<u32>) -> Answer<String> {
        Box::pin(async { Err(no_tokens()) })
    }

    fn stats(&self) -> Option<BackendStats> {
        let running = self.inner.endpoints.iter().map(|endpoint| endpoint.running()).sum();
        Some(self.inner.totals.stats(running))
    }

    fn upstreams(&self) -> Vec<UpstreamStats> {
        let now = self.inner.clock.now();
        self.inner.endpoints.iter().map(|endpoint| UpstreamStats::of(endpoint, now)).collect()
    }

    fn shutdown(&self, limit: Duration) {
        self.inner.live.shutdown(limit);
    }
}

fn no_tokens() -> ApiError {
    ApiError::new(ErrorKind::Invalid, "An upstream's tokenizer is not at hand here")
        .code("unsupported")
        .hint("Ask the upstream itself: vLLM and llama-server have /tokenize")
}
