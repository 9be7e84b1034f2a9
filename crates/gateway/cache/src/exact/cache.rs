//! One call's way through the exact cache.

mod landing;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tapri_api::{Admission, Call, CallEvent};

use super::admission::Expected;
use super::counts::{Counts, up};
use super::flight::Flight;
use super::policy::is_deterministic;
use super::store::{Guarded, Tiers};
use super::{
    Clock, Entry, ExactPolicy, ExactStats, Filter, Key, Mode, NoKey, Policies, Reader, Resolved,
    StoreError, SystemClock, Tags,
};
use crate::tasks::Tasks;
use landing::Landing;
pub use landing::Lead;

/// What an exact cache is made of.
#[derive(Debug)]
pub struct ExactConfig {
    /// What each route does.
    pub policies: Policies,
    /// Bytes of answers in memory.
    pub memory_bytes: usize,
    /// The store behind memory.
    pub store: Option<Guarded>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
}

/// One policy for all routes, 64 MiB of memory and nothing behind it.
impl Default for ExactConfig {
    fn default() -> Self {
        ExactConfig {
            policies: Policies::all(ExactPolicy::default()),
            memory_bytes: 64 << 20,
            store: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// The exact cache. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct ExactCache {
    inner: Arc<Inner>,
}

struct Inner {
    policies: RwLock<Arc<Policies>>,
    tiers: Tiers,
    flights: Mutex<HashMap<Key, Arc<Flight>>>,
    tasks: Tasks,
    counts: Counts,
    clock: Arc<dyn Clock>,
}

/// What there is for a call.
#[derive(Debug)]
pub enum Look {
    /// The cache has no part in it.
    Bypass(Bypass),
    /// A stored answer.
    Hit(Hit),
    /// The same call is under way, and this reads its answer.
    Follow(Reader),
    /// Nothing. The call goes on through [`Lead::start`], and its answer may be stored.
    Lead(Box<Lead>),
    /// Nothing, and the answer is not to be stored: the request said `no-store` or `only-if-cached`.
    Forward,
}

/// Why the cache has no part in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bypass {
    /// The route's cache is off.
    Off,
    /// The route stores only answers that are meant to be the same each time.
    NotDeterministic,
    /// The call has no key.
    NoKey(NoKey),
    /// The call computes a prompt alone (`max_tokens: 0`), which is to be done each time.
    NoAnswer,
}

impl Bypass {
    /// The stable name, as in records and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Bypass::Off => "off",
            Bypass::NotDeterministic => "not_deterministic",
            Bypass::NoKey(why) => why.as_str(),
            Bypass::NoAnswer => "no_answer",
        }
    }
}

/// Why a call goes on to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing was there.
    Miss,
    /// The request asked for a new answer.
    Request,
}

/// A stored answer for a call.
#[derive(Debug)]
pub struct Hit {
    entry: Arc<Entry>,
    /// How old it is.
    pub age: Duration,
    /// How long it may still be served; `None` is until it makes room.
    pub ttl: Option<Duration>,
    arrived: Instant,
}

impl Hit {
    /// Its events: the admission, the answer, the end.
    pub fn events(&self) -> Vec<CallEvent> {
        let mut events = Vec::with_capacity(self.entry.len() + 1);
        events.push(CallEvent::Admitted(Admission {
            reuse: None,
            queued: Duration::ZERO,
            template: None,
            prompt_ids: None,
            dropped: Vec::new(),
        }));
        events.extend(self.entry.replay(self.arrived.elapsed()));
        events
    }
}

impl ExactCache {
    /// A cache.
    pub fn new(config: ExactConfig) -> Self {
        let ExactConfig { policies, memory_bytes, store, clock } = config;
        ExactCache {
            inner: Arc::new(Inner {
                policies: RwLock::new(Arc::new(policies)),
                tiers: Tiers::new(memory_bytes, store, Arc::clone(&clock)),
                flights: Mutex::default(),
                tasks: Tasks::default(),
                counts: Counts::default(),
                clock,
            }),
        }
    }

    /// What each route does.
    pub fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.inner.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes what routes do, from the next call on. What is stored stays.
    pub fn set_policies(&self, policies: Policies) {
        *self.inner.policies.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }

    /// What there is for a call. To be asked before anything of the call is changed.
    pub async fn look(&self, call: &Call, resolved: &Resolved<'_>) -> Look {
        let inner = &self.inner;
        let policies = self.policies();
        let policy = policies.of(&call.origin.route);
        let key = match key(call, resolved, policy) {
            Ok(key) => key,
            Err(why) => {
                up(&inner.counts.bypassed);
                return Look::Bypass(why);
            }
        };
        let arrived = Instant::now();
        let session = call.origin.conversation.as_deref();
        let directives = call.cache;
        let stored = directives.may_store() && !directives.only_if_cached;
        if !directives.may_read() {
            up(&inner.counts.requested);
            if !stored {
                return Look::Forward;
            }
            let ticket = inner.tiers.ticket().await;
            let landing = self.landing(call, resolved, policy, key, ticket, 0);
            return Look::Lead(Box::new(Lead::new(landing, session, Why::Request)));
        }

        let looked = inner.tiers.look(key).await;
        let fresh = self.fresh(&looked.entries, directives.max_age);
        // Until all variants are there, each call brings one more; who wants none brought gets what there is.
        if let Some(hit) = self.choose(&fresh, policy, stored, key, arrived) {
            return self.hit(hit, key, session).await;
        }
        if !stored {
            up(&inner.counts.misses);
            return Look::Forward;
        }
        let slot = free_slot(&fresh, policy.variants);
        let landing = self.landing(call, resolved, policy, key, looked.ticket, slot);
        // Variants are there to differ, so that calls for them don't share an answer.
        if policy.variants > 1 {
            up(&inner.counts.misses);
            return Look::Lead(Box::new(Lead::new(landing, session, Why::Miss)));
        }
        let mut flights = inner.flights();
        // While the store was asked, the call before may have ended.
        let fresh = self.fresh(&inner.tiers.in_memory(&key, looked.ticket), directives.max_age);
        if let Some(hit) = self.choose(&fresh, policy, stored, key, arrived) {
            drop(flights);
            return self.hit(hit, key, session).await;
        }
        if let Some(reader) = flights.get(&key).and_then(|flight| flight.join(session)) {
            up(&inner.counts.collapsed);
            return Look::Follow(reader);
        }
        up(&inner.counts.misses);
        let lead = Lead::new(landing.registered(), session, Why::Miss);
        flights.insert(key, lead.flight());
        Look::Lead(Box::new(lead))
    }

    /// Notes the session that gets a stored answer. Where that fails the call goes on to the model alone.
    async fn hit(&self, hit: Hit, key: Key, session: Option<&str>) -> Look {
        let noted = match session {
            Some(session) => self.inner.tiers.tag(key, session).await,
            None => true,
        };
        if !noted {
            up(&self.inner.counts.misses);
            return Look::Forward;
        }
        up(&self.inner.counts.hits);
        Look::Hit(hit)
    }

    /// The stored answer under a key, for who knows the key from elsewhere. Not counted as a hit. A session that is
    /// to get it is noted, and where that fails there is nothing.
    pub async fn stored(&self, key: Key, session: Option<&str>) -> Option<Hit> {
        let arrived = Instant::now();
        let looked = self.inner.tiers.look(key).await;
        let fresh = self.fresh(&looked.entries, None).into_iter().next()?;
        if let Some(session) = session
            && !self.inner.tiers.tag(key, session).await
        {
            return None;
        }
        Some(Hit { entry: fresh.entry, age: fresh.age, ttl: fresh.ttl, arrived })
    }

    fn landing(
        &self,
        call: &Call,
        resolved: &Resolved<'_>,
        policy: &ExactPolicy,
        key: Key,
        ticket: super::store::Ticket,
        slot: usize,
    ) -> Landing {
        Landing {
            inner: Arc::clone(&self.inner),
            key,
            slot,
            ticket,
            ttl: policy.ttl,
            expected: Expected::of(call),
            flight: Flight::new(policy.max_entry_bytes),
            registered: false,
            tags: Tags {
                tenant: call.origin.tenant.clone().into_owned(),
                route: call.origin.route.clone().into_owned(),
                model: resolved.model.to_owned(),
                document: call.origin.document.clone(),
                sessions: Vec::new(),
            },
        }
    }

    fn fresh(&self, entries: &[(usize, Arc<Entry>)], max_age: Option<Duration>) -> Vec<Fresh> {
        let now = self.inner.clock.now();
        let fresh = |(slot, entry): &(usize, Arc<Entry>)| {
            let ttl = entry.freshness(now)?;
            let age = entry.age(now);
            max_age.is_none_or(|max| age <= max).then(|| Fresh {
                slot: *slot,
                entry: Arc::clone(entry),
                age,
                ttl,
            })
        };
        entries.iter().filter_map(fresh).collect()
    }

    fn choose(
        &self,
        fresh: &[Fresh],
        policy: &ExactPolicy,
        may_bring_more: bool,
        key: Key,
        arrived: Instant,
    ) -> Option<Hit> {
        if fresh.is_empty() || (may_bring_more && fresh.len() < policy.variants) {
            return None;
        }
        let turn = if fresh.len() > 1 { self.inner.tiers.turn(&key) } else { 0 };
        let Fresh { entry, age, ttl, .. } = fresh.get(turn % fresh.len())?;
        Some(Hit { entry: Arc::clone(entry), age: *age, ttl: *ttl, arrived })
    }

    /// Erases what a filter matches in every store, and returns how many answers went. What calls under way bring is
    /// not stored any more.
    ///
    /// # Errors
    /// Where the store can't be reached: what it holds is still there.
    pub async fn purge(&self, filter: &Filter) -> Result<u64, StoreError> {
        self.inner.tiers.purge(filter).await
    }

    /// What was counted, and what memory holds.
    pub fn stats(&self) -> ExactStats {
        let inner = &self.inner;
        let back = inner.tiers.back();
        ExactStats {
            store_errors: back.map_or(0, Guarded::errors),
            store: back.map(|back| back.store().name()),
            memory: inner.tiers.memory_stats(),
            flights: inner.tasks.count() as u64,
            ..inner.counts.stats()
        }
    }

    /// What the store behind holds, where there is one.
    pub async fn store_stats(&self) -> Option<Result<super::StoreStats, StoreError>> {
        let back = self.inner.tiers.back()?;
        Some(back.store().stats().await)
    }

    /// Waits until every call's task has ended, but no longer than the limit, and closes the store. To be called
    /// once the backend has ended. Blocks.
    pub fn shutdown(&self, limit: Duration) {
        self.inner.tasks.wait(limit);
        self.inner.tiers.close();
    }
}

/// A stored answer that may be served.
struct Fresh {
    slot: usize,
    entry: Arc<Entry>,
    age: Duration,
    ttl: Option<Duration>,
}

/// The first slot without a fresh answer.
fn free_slot(fresh: &[Fresh], variants: usize) -> usize {
    (0..variants).find(|slot| fresh.iter().all(|it| it.slot != *slot)).unwrap_or(0)
}

fn key(call: &Call, resolved: &Resolved<'_>, policy: &ExactPolicy) -> Result<Key, Bypass> {
    match policy.mode {
        Mode::Off => return Err(Bypass::Off),
        Mode::Deterministic if !is_deterministic(call) => return Err(Bypass::NotDeterministic),
        Mode::Deterministic | Mode::Always => {}
    }
    if call.max_tokens == Some(0) {
        return Err(Bypass::NoAnswer);
    }
    Key::of(call, resolved).map_err(Bypass::NoKey)
}

impl Inner {
    fn flights(&self) -> MutexGuard<'_, HashMap<Key, Arc<Flight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ExactCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExactCache").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
