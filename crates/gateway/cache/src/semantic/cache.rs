//! The semantic cache: what is near, what may be served, and what is learnt.
//!
//! The encoder and a shared store may block: call it from a thread that may wait. A file never holds a lookup up: it is
//! written by a thread of its own (`writer`), and what may be served is decided on what is in memory (`state`).

mod look;
mod state;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tapri_embed::{EmbedError, Embedder};

use self::state::{ALIKE, Fresh, State, found_candidates};
use self::writer::{Job, Writer};
use super::scope::Asked;
use super::store::{
    Found, Keeper, Label, Owner, SemanticStoreError, Shared, Shown, StoredQuestion, Verdict, Wanted,
};
use super::{RowId, SemanticPolicy};
use crate::exact::{Clock, Filter, Key};

pub use self::look::{Candidate, Decision, Epoch, Look, RouteStatus, SemanticCounts};

/// The policies of all routes. A route that isn't named is off.
pub type SemanticPolicies = HashMap<String, SemanticPolicy>;

/// Why the cache could not look or learn. To the caller it is a miss.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SemanticError {
    /// The encoder failed.
    #[error("the question could not be embedded")]
    Embed(#[from] EmbedError),
    /// The store failed.
    #[error("the semantic cache's store could not be used")]
    Store(#[from] SemanticStoreError),
}

/// The cache. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct SemanticCache {
    inner: Arc<Inner>,
}

struct Inner {
    embedder: Embedder,
    policies: RwLock<Arc<SemanticPolicies>>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    writer: Writer,
    /// Where questions are found, if not in memory.
    index: Option<Arc<dyn Shared>>,
}

impl SemanticCache {
    /// A cache of this process, with what its store holds. The seed draws which served answers are checked.
    ///
    /// # Errors
    /// Where the store can't be read.
    pub fn open(
        embedder: Embedder,
        mut store: impl Keeper,
        policies: SemanticPolicies,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, SemanticStoreError> {
        let mut state = State::new(seed);
        for (_, question) in store.questions(embedder.fingerprint())? {
            state.keep(&question, usize::MAX);
        }
        for (route, similarity, wrong) in store.known()?.labels {
            state.add(&route, similarity, wrong);
        }
        SemanticCache::with(embedder, Box::new(store), None, policies, clock, state)
    }

    /// A cache whose questions and labels are in a store that several processes share. The store need not be there
    /// yet.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn shared(
        embedder: Embedder,
        store: impl Keeper + Shared + Clone,
        policies: SemanticPolicies,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, SemanticStoreError> {
        let index: Arc<dyn Shared> = Arc::new(store.clone());
        let (store, state) = (Box::new(store), State::new(seed));
        SemanticCache::with(embedder, store, Some(index), policies, clock, state)
    }

    fn with(
        embedder: Embedder,
        store: Box<dyn Keeper>,
        index: Option<Arc<dyn Shared>>,
        policies: SemanticPolicies,
        clock: Arc<dyn Clock>,
        mut state: State,
    ) -> Result<Self, SemanticStoreError> {
        let writer = Writer::start(store, embedder.fingerprint().to_owned())?;
        // What was just read is fresh; of a shared store nothing was read yet.
        if index.is_none() {
            state.is_stale(None, super::millis(clock.now()));
        }
        let policies = RwLock::new(Arc::new(policies));
        let state = Mutex::new(state);
        let inner = Inner { embedder, policies, clock, state, writer, index };
        Ok(SemanticCache { inner: Arc::new(inner) })
    }

    /// A route's policy; off where none is named.
    pub fn policy(&self, route: &str) -> SemanticPolicy {
        let policies = self.inner.policies.read().unwrap_or_else(PoisonError::into_inner);
        policies.get(route).cloned().unwrap_or_default()
    }

    /// Changes what routes do, from the next call on.
    pub fn set_policies(&self, policies: SemanticPolicies) {
        *self.inner.policies.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }

    /// What there is for a question on a route.
    ///
    /// # Errors
    /// Where it can't be embedded, or a shared store fails.
    pub fn look(&self, asked: &Asked, route: &str) -> Result<Look, SemanticError> {
        let policy = self.policy(route);
        let embedded = self.inner.embedder.embed_one(&asked.question);
        let vector = match embedded {
            // A vector of a part of a question says nothing of the rest.
            Ok(embedding) if embedding.truncated => {
                let mut state = self.state();
                state.counts.lookups += 1;
                state.counts.nothing += 1;
                return Ok(Look {
                    decision: Decision::Nothing,
                    nearest: None,
                    vector: Arc::new([]),
                    epoch: Epoch::default(),
                });
            }
            Ok(embedding) => embedding.vector,
            Err(error) => {
                let mut state = self.state();
                state.counts.lookups += 1;
                state.counts.failed += 1;
                state.counts.errors += 1;
                return Err(error.into());
            }
        };
        let found = match self.found(asked, &vector) {
            Some(Err(error)) => {
                let mut state = self.state();
                state.counts.lookups += 1;
                state.counts.failed += 1;
                return Err(error.into());
            }
            Some(Ok(found)) => Some(found),
            None => None,
        };
        let fresh = Fresh { now: super::millis(self.inner.clock.now()), ttl: policy.ttl };
        let compared = found.as_ref().map(|found| found_candidates(found, asked, fresh));
        let mut state = self.state();
        state.counts.lookups += 1;
        if let Some(news) = self.inner.writer.news() {
            state.hear(news);
        }
        if state.is_stale(found.as_ref(), fresh.now) {
            self.inner.writer.reread();
        }
        let candidates = compared.unwrap_or_else(|| state.candidates(asked, &vector, fresh));
        let nearest = candidates.first().cloned();
        let trusted = state.trusts(found.as_ref());
        let decision = state.decide(candidates, route, &policy, trusted);
        let there = found.map_or(0, |found| found.erasures);
        Ok(Look { decision, nearest, vector, epoch: Epoch { here: state.epoch, there } })
    }

    /// What a shared store finds; its failures are counted, and its broken rows forgotten.
    fn found(&self, asked: &Asked, vector: &[f32]) -> Option<Result<Found, SemanticStoreError>> {
        let Inner { embedder, writer, index, .. } = &*self.inner;
        let encoder = embedder.fingerprint();
        let wanted = Wanted { scope: asked.scope, encoder, vector, count: ALIKE };
        let found = index.as_ref()?.nearest(&wanted);
        match &found {
            Ok(found) => {
                for id in &found.corrupt {
                    writer.failed(&SemanticStoreError::Failed(
                        "a row is not what was written; it is forgotten".to_owned(),
                    ));
                    writer.send(Job::Remove(*id));
                }
            }
            // It was counted when it failed.
            Err(SemanticStoreError::Resting) => {}
            Err(error) => writer.failed(error),
        }
        Some(found)
    }

    /// A stored answer was served.
    pub fn served(&self) {
        self.state().counts.hits += 1;
    }

    /// Keeps a question whose answer the exact cache has under a key. Nothing is kept where something was erased since
    /// it was looked at.
    pub fn keep(&self, asked: &Asked, look: &Look, answer: Key, owner: Owner) -> bool {
        let most = self.policy(&owner.route).entries;
        let question = StoredQuestion {
            scope: asked.scope,
            answer,
            question: asked.question.clone(),
            vector: look.vector.to_vec(),
            owner,
            created: super::millis(self.inner.clock.now()),
        };
        let mut state = self.state();
        if state.epoch != look.epoch.here || question.vector.is_empty() {
            return false;
        }
        if self.inner.index.is_none() {
            let Some(gone) = state.keep(&question, most) else { return false };
            for id in gone {
                self.inner.writer.send(Job::Remove(id));
            }
        }
        // Under the lock, so that an erasure comes wholly before or wholly after it. It never waits.
        let erasures = look.epoch.there;
        self.inner.writer.send(Job::Keep { question: Box::new(question), erasures, most })
            || self.inner.index.is_none()
    }

    /// Forgets a stored question whose answer is gone.
    pub fn remove(&self, id: RowId) {
        let mut state = self.state();
        state.counts.gone += 1;
        self.forget(&mut state, id);
    }

    /// First where it is found: a store that fails must not keep a wrong answer alive.
    fn forget(&self, state: &mut State, id: RowId) {
        state.drop_row(id);
        self.inner.writer.send(Job::Remove(id));
    }

    /// Learns from a pair that was compared. A stored answer that was wrong is forgotten. Nothing is learnt where
    /// something was erased since it was looked at.
    pub fn learn(&self, label: Label, epoch: Epoch) {
        let Label { entry, similarity, verdict, served, .. } = label;
        let (route, wrong) = (label.owner.route.clone(), label.verdict.is_wrong());
        let writer = &self.inner.writer;
        let mut state = self.state();
        if state.epoch != epoch.here {
            return;
        }
        state.counts.labels += 1;
        state.counts.wrong += u64::from(wrong);
        state.counts.unsettled += u64::from(verdict == Verdict::Unsettled);
        let number = state.next_label();
        if writer.send(Job::Label { label: Box::new(label), erasures: epoch.there, number }) {
            state.count_label(&route, similarity, wrong, writer.written());
        } else if wrong {
            // One that speaks for serving is nothing without its record. One against it counts all the same.
            state.add(&route, similarity, true);
            writer.remember(&route, similarity);
        }
        if verdict == Verdict::Wrong || (wrong && served) {
            self.forget(&mut state, entry);
        }
    }

    /// Erases what a filter matches, and returns how many stored questions went. What calls under way bring is not
    /// kept any more, and vectors of the latest texts are forgotten as well. Waits for the store.
    ///
    /// # Errors
    /// Where the store fails: what it holds is still there, and nothing of it is served by this process.
    pub fn purge(&self, filter: &Filter) -> Result<usize, SemanticError> {
        let now = super::millis(self.inner.clock.now());
        let here = self.state().purge(filter, now);
        self.inner.embedder.forget();
        let filter = filter.clone();
        let (there, news) =
            self.inner.writer.ask_then_read(move |store| store.purge(&filter, now))?;
        self.state().hear(news);
        Ok(here.max(there))
    }

    /// Reads the labels again: a person may have settled some in another process. Waits for the store.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn refresh(&self) -> Result<(), SemanticError> {
        let ((), news) = self.inner.writer.ask_then_read(|_| Ok(()))?;
        self.state().hear(news);
        Ok(())
    }

    /// What each route has shown.
    pub fn status(&self) -> Vec<RouteStatus> {
        let evidence = self.state().evidence.clone();
        let routes = evidence.into_iter().map(|(route, evidence)| {
            let budget = self.policy(&route).budget;
            let (threshold, bands) = (evidence.threshold(budget), evidence.bands(budget));
            RouteStatus { route, threshold, bands }
        });
        let mut routes: Vec<RouteStatus> = routes.collect();
        routes.sort_by(|a, b| a.route.cmp(&b.route));
        routes
    }

    /// Labels that wait for a person. Waits for the store.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn unsettled(&self, limit: usize) -> Result<Vec<Shown>, SemanticError> {
        Ok(self.inner.writer.ask(move |store| store.unsettled(limit))?)
    }

    /// What was counted.
    pub fn counts(&self) -> SemanticCounts {
        let counts = self.state().counts;
        let writer = &self.inner.writer;
        SemanticCounts {
            errors: counts.errors + writer.errors(),
            dropped: writer.dropped(),
            ..counts
        }
    }

    /// Where questions and labels are kept: `sqlite`, `postgres`.
    pub fn store_name(&self) -> &'static str {
        self.inner.writer.name()
    }

    /// Stored questions; of a shared store, as many as there were when its labels were read.
    pub fn len(&self) -> usize {
        self.state().len()
    }

    /// When the oldest stored question was kept, in milliseconds since 1970; `None` of a shared store. Looks at every
    /// one.
    pub fn oldest(&self) -> Option<u64> {
        self.state().oldest()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SemanticCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticCache").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
