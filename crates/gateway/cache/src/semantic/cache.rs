//! The semantic cache: what is near, what may be served, and what is learnt.
//!
//! Everything here may block (the encoder, the file): call it from a thread that may wait.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tapri_embed::{EmbedError, Embedder};

use super::evidence::{Band, Evidence, THRESHOLDS};
use super::guards::{Objection, objections};
use super::scope::Asked;
use super::store::{
    Label, Owner, SemanticStore, SemanticStoreError, Shown, StoredQuestion, Verdict,
};
use super::{FlatIndex, Index, Question, RowId, SemanticMode, SemanticPolicy};
use crate::exact::{Clock, Filter, Key};

/// Stored questions that are compared with one that comes: a nearer one may be stopped by a guard where the next is
/// not.
const CANDIDATES: usize = 5;

/// The policies of all routes. A route that isn't named is off.
pub type SemanticPolicies = HashMap<String, SemanticPolicy>;

/// Why the cache could not look or learn. To the caller it is a miss.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SemanticError {
    /// The encoder failed.
    #[error("the question could not be embedded")]
    Embed(#[from] EmbedError),
    /// The file failed.
    #[error("the semantic cache's file could not be used")]
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
}

struct State {
    store: SemanticStore,
    scopes: HashMap<Key, Scope>,
    rows: HashMap<RowId, Kept>,
    by_answer: HashMap<Key, RowId>,
    evidence: HashMap<String, Evidence>,
    /// Draws which served answers are checked: SplitMix64.
    dice: u64,
    /// Counts up at every erasure: what was begun before one is not kept after it.
    epoch: u64,
    counts: SemanticCounts,
}

#[derive(Default)]
struct Scope {
    index: FlatIndex,
    oldest: VecDeque<RowId>,
}

/// What is kept of a stored question beside its vector.
struct Kept {
    scope: Key,
    answer: Key,
    text: Arc<str>,
    question: Arc<Question>,
    created: u64,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct SemanticCounts {
    /// Questions that were looked for.
    pub lookups: u64,
    /// Answers that were served.
    pub hits: u64,
    /// Near ones that a guard stopped.
    pub guarded: u64,
    /// Near ones that were compared with the model's answer.
    pub labels: u64,
    /// Of which the stored answer would have been wrong, or nobody knows.
    pub wrong: u64,
    /// Times that the encoder or the file failed.
    pub errors: u64,
}

/// A stored question that is near one that came.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its row.
    pub id: RowId,
    /// The exact cache's key of its answer.
    pub answer: Key,
    /// The question.
    pub question: Arc<str>,
    /// The cosine.
    pub similarity: f32,
    /// What guards have against it.
    pub objections: Vec<Objection>,
}

/// What may be done for a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing is near, or a guard objects to what is.
    Nothing,
    /// The model answers, and its answer is compared with the stored one.
    Shadow(Candidate),
    /// The stored answer is served; with `check`, the model answers all the same and is compared.
    Serve {
        /// Whose answer.
        candidate: Candidate,
        /// Whether it is checked.
        check: bool,
    },
}

/// What there is for a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// What may be done.
    pub decision: Decision,
    /// The nearest stored question, whatever guards say.
    pub nearest: Option<Candidate>,
    /// The question's vector, to keep it with.
    pub vector: Arc<[f32]>,
    /// The count of erasures when it was looked at.
    pub epoch: u64,
}

/// What a route has shown.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RouteStatus {
    /// The route.
    pub route: String,
    /// From which similarity up it may serve within the budget.
    pub threshold: Option<f32>,
    /// Every band.
    pub bands: Vec<Band>,
}

impl SemanticCache {
    /// A cache on a file, with what the file holds. The seed draws which served answers are checked.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn open(
        embedder: Embedder,
        store: SemanticStore,
        policies: SemanticPolicies,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, SemanticStoreError> {
        let mut state = State {
            store,
            scopes: HashMap::new(),
            rows: HashMap::new(),
            by_answer: HashMap::new(),
            evidence: HashMap::new(),
            dice: seed,
            epoch: 0,
            counts: SemanticCounts::default(),
        };
        for (id, question) in state.store.questions(embedder.fingerprint())? {
            state.keep(id, &question);
        }
        for (route, similarity, wrong) in state.store.evidence()? {
            state.evidence.entry(route).or_default().add(similarity, wrong);
        }
        let policies = RwLock::new(Arc::new(policies));
        Ok(SemanticCache {
            inner: Arc::new(Inner { embedder, policies, clock, state: Mutex::new(state) }),
        })
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
    /// Where it can't be embedded.
    pub fn look(&self, asked: &Asked, route: &str) -> Result<Look, SemanticError> {
        let policy = self.policy(route);
        let embedded = self.inner.embedder.embed_one(&asked.question);
        let mut state = self.state();
        state.counts.lookups += 1;
        let vector = match embedded {
            // A vector of a part of a question says nothing of the rest.
            Ok(embedding) if embedding.truncated => {
                return Ok(Look {
                    decision: Decision::Nothing,
                    nearest: None,
                    vector: Arc::new([]),
                    epoch: state.epoch,
                });
            }
            Ok(embedding) => embedding.vector,
            Err(error) => {
                state.counts.errors += 1;
                return Err(error.into());
            }
        };
        let now = super::millis(self.inner.clock.now());
        let candidates = state.candidates(asked, &vector, policy.ttl.map(|ttl| (now, ttl)));
        let nearest = candidates.first().cloned();
        let lowest = THRESHOLDS[THRESHOLDS.len() - 1];
        let found = candidates
            .into_iter()
            .find(|candidate| candidate.objections.is_empty() && candidate.similarity >= lowest);
        let serves = state
            .evidence
            .get(route)
            .and_then(|evidence| evidence.threshold(policy.budget))
            .filter(|_| policy.mode == SemanticMode::Serve);
        let decision = match found {
            None => {
                let near = nearest.as_ref().is_some_and(|near| near.similarity >= lowest);
                state.counts.guarded += u64::from(near);
                Decision::Nothing
            }
            Some(candidate) if serves.is_some_and(|from| candidate.similarity >= from) => {
                let check = state.draw() < policy.recheck;
                Decision::Serve { candidate, check }
            }
            Some(candidate) => Decision::Shadow(candidate),
        };
        Ok(Look { decision, nearest, vector, epoch: state.epoch })
    }

    /// A stored answer was served.
    pub fn served(&self) {
        self.state().counts.hits += 1;
    }

    /// Keeps a question whose answer the exact cache has under a key. Nothing is kept where something was erased since
    /// it was looked at.
    ///
    /// # Errors
    /// Where the file fails.
    pub fn keep(
        &self,
        asked: &Asked,
        look: &Look,
        answer: Key,
        owner: Owner,
    ) -> Result<bool, SemanticError> {
        let policy = self.policy(&owner.route);
        let question = StoredQuestion {
            scope: asked.scope,
            answer,
            question: asked.question.clone(),
            vector: look.vector.to_vec(),
            owner,
            created: super::millis(self.inner.clock.now()),
        };
        let mut state = self.state();
        if state.epoch != look.epoch || question.vector.is_empty() {
            return Ok(false);
        }
        // The same question, answered anew (its time was up): the new one takes the place of the old.
        if let Some(twin) = state.by_answer.get(&answer).copied() {
            state.forget(twin)?;
        }
        let id = state.store.insert(&question, self.inner.embedder.fingerprint())?;
        state.keep(id, &question);
        while let Some(oldest) = state
            .scopes
            .get(&question.scope)
            .filter(|scope| scope.oldest.len() > policy.entries)
            .and_then(|scope| scope.oldest.front().copied())
        {
            state.forget(oldest)?;
        }
        Ok(true)
    }

    /// Forgets a stored question: its answer is gone, or was wrong.
    ///
    /// # Errors
    /// Where the file fails.
    pub fn remove(&self, id: RowId) -> Result<(), SemanticError> {
        Ok(self.state().forget(id)?)
    }

    /// Learns from a pair that was compared. A stored answer that was wrong is forgotten. Nothing is learnt where
    /// something was erased since it was looked at.
    ///
    /// # Errors
    /// Where the file fails.
    pub fn learn(&self, label: &Label, epoch: u64) -> Result<(), SemanticError> {
        let mut state = self.state();
        if state.epoch != epoch {
            return Ok(());
        }
        state.store.label(label)?;
        let wrong = label.verdict.is_wrong();
        state.counts.labels += 1;
        state.counts.wrong += u64::from(wrong);
        let evidence = state.evidence.entry(label.owner.route.clone()).or_default();
        evidence.add(label.similarity, wrong);
        if label.verdict == Verdict::Wrong || (wrong && label.served) {
            state.forget(label.entry)?;
        }
        Ok(())
    }

    /// Erases what a filter matches, and returns how many stored questions went. What calls under way bring is not
    /// kept any more, and vectors of the latest texts are forgotten as well.
    ///
    /// # Errors
    /// Where the file fails: what it holds is still there.
    pub fn purge(&self, filter: &Filter) -> Result<usize, SemanticError> {
        let now = super::millis(self.inner.clock.now());
        let mut state = self.state();
        state.epoch += 1;
        let gone = state.store.purge(filter, now)?;
        for id in &gone {
            state.drop_row(*id);
        }
        state.read_evidence()?;
        drop(state);
        self.inner.embedder.forget();
        Ok(gone.len())
    }

    /// Reads the labels again: a person may have settled some in another process.
    ///
    /// # Errors
    /// Where the file fails.
    pub fn refresh(&self) -> Result<(), SemanticError> {
        Ok(self.state().read_evidence()?)
    }

    /// What each route has shown.
    pub fn status(&self) -> Vec<RouteStatus> {
        let state = self.state();
        let mut routes: Vec<RouteStatus> = state
            .evidence
            .iter()
            .map(|(route, evidence)| {
                let budget = self.policy(route).budget;
                RouteStatus {
                    route: route.clone(),
                    threshold: evidence.threshold(budget),
                    bands: evidence.bands(budget),
                }
            })
            .collect();
        routes.sort_by(|a, b| a.route.cmp(&b.route));
        routes
    }

    /// Labels that wait for a person.
    ///
    /// # Errors
    /// Where the file fails.
    pub fn unsettled(&self, limit: usize) -> Result<Vec<Shown>, SemanticError> {
        Ok(self.state().store.unsettled(limit)?)
    }

    /// What was counted.
    pub fn counts(&self) -> SemanticCounts {
        self.state().counts
    }

    /// Stored questions.
    pub fn len(&self) -> usize {
        self.state().rows.len()
    }

    /// When the oldest stored question was kept, in milliseconds since 1970. Looks at every one.
    pub fn oldest(&self) -> Option<u64> {
        self.state().rows.values().map(|kept| kept.created).min()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn candidates(
        &self,
        asked: &Asked,
        vector: &[f32],
        ttl: Option<(u64, std::time::Duration)>,
    ) -> Vec<Candidate> {
        let Some(scope) = self.scopes.get(&asked.scope) else { return Vec::new() };
        let question = Question::read(&asked.question);
        let fresh = |kept: &Kept| {
            ttl.is_none_or(|(now, ttl)| {
                now.saturating_sub(kept.created)
                    < u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
            })
        };
        let near = scope.index.nearest(vector, CANDIDATES).into_iter();
        near.filter_map(|near| {
            let kept = self.rows.get(&near.id).filter(|kept| fresh(kept))?;
            Some(Candidate {
                id: near.id,
                answer: kept.answer,
                question: Arc::clone(&kept.text),
                similarity: near.similarity,
                objections: objections(&kept.question, &question),
            })
        })
        .collect()
    }

    fn keep(&mut self, id: RowId, question: &StoredQuestion) {
        let scope = self.scopes.entry(question.scope).or_default();
        if scope.index.insert(id, &question.vector) {
            scope.oldest.push_back(id);
            let kept = Kept {
                scope: question.scope,
                answer: question.answer,
                text: question.question.as_str().into(),
                question: Arc::new(Question::read(&question.question)),
                created: question.created,
            };
            self.rows.insert(id, kept);
            self.by_answer.insert(question.answer, id);
        }
    }

    fn forget(&mut self, id: RowId) -> Result<(), SemanticStoreError> {
        // First where it is found: a file that fails must not keep a wrong answer alive.
        self.drop_row(id);
        self.store.remove(id)
    }

    fn drop_row(&mut self, id: RowId) {
        let Some(kept) = self.rows.remove(&id) else { return };
        if self.by_answer.get(&kept.answer) == Some(&id) {
            self.by_answer.remove(&kept.answer);
        }
        if let Some(scope) = self.scopes.get_mut(&kept.scope) {
            scope.index.remove(id);
            scope.oldest.retain(|other| *other != id);
            if scope.index.is_empty() {
                self.scopes.remove(&kept.scope);
            }
        }
    }

    fn read_evidence(&mut self) -> Result<(), SemanticStoreError> {
        let labels = self.store.evidence()?;
        self.evidence.clear();
        for (route, similarity, wrong) in labels {
            self.evidence.entry(route).or_default().add(similarity, wrong);
        }
        Ok(())
    }

    /// A number in [0, 1).
    fn draw(&mut self) -> f64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl fmt::Debug for SemanticCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticCache").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tapri_embed::letters::Letters;

    use super::*;
    use crate::exact::SystemClock;

    fn cache(store: SemanticStore, mode: SemanticMode) -> SemanticCache {
        let policy = SemanticPolicy { mode, recheck: 1.0, entries: 3, ..SemanticPolicy::default() };
        let policies = HashMap::from([("/r".to_owned(), policy)]);
        let embedder = Embedder::checked(Letters::sound()).unwrap();
        SemanticCache::open(embedder, store, policies, Arc::new(SystemClock), 1).unwrap()
    }

    fn asked(question: &str, scope: u8) -> Asked {
        Asked { question: question.to_owned(), scope: Key::from_bytes([scope; 32]) }
    }

    fn owner(tenant: &str) -> Owner {
        Owner { tenant: tenant.to_owned(), route: "/r".to_owned(), ..Owner::default() }
    }

    fn keep(cache: &SemanticCache, question: &str, scope: u8, answer: u8, tenant: &str) {
        let asked = asked(question, scope);
        let look = cache.look(&asked, "/r").unwrap();
        assert!(cache.keep(&asked, &look, Key::from_bytes([answer; 32]), owner(tenant)).unwrap());
    }

    fn label(cache: &SemanticCache, candidate: &Candidate, verdict: Verdict, epoch: u64) {
        let label = Label {
            entry: candidate.id,
            owner: owner("t"),
            // As near as the highest threshold asks, which is the first to be shown.
            similarity: 0.99,
            verdict,
            by: "text",
            served: false,
            at: 0,
            stored: [String::new(), "one answer".to_owned()],
            asked: [String::new(), "another".to_owned()],
        };
        cache.learn(&label, epoch).unwrap();
    }

    #[test]
    fn it_shadows_until_the_labels_allow_it_and_a_wrong_answer_goes() {
        let cache = cache(SemanticStore::in_memory().unwrap(), SemanticMode::Serve);
        keep(&cache, "How do I cancel my plan?", 1, 1, "t");
        let near = asked("Hi, how can I cancel my plan?", 1);
        for n in 0..super::super::evidence::labels_needed(0.01) {
            let look = cache.look(&near, "/r").unwrap();
            let Decision::Shadow(candidate) = &look.decision else { panic!("served after {n}") };
            label(&cache, candidate, Verdict::Same, look.epoch);
        }
        let look = cache.look(&near, "/r").unwrap();
        let Decision::Serve { candidate, check: true } = &look.decision else { panic!("{look:?}") };
        // Other scopes, other questions, other routes.
        assert_eq!(cache.look(&asked(&near.question, 2), "/r").unwrap().nearest, None);
        let guarded = cache.look(&asked("How do I renew my plan?", 1), "/r").unwrap();
        assert_eq!(guarded.decision, Decision::Nothing);
        assert!(!guarded.nearest.unwrap().objections.is_empty());
        // A wrong one: it is gone, and the route serves no more.
        label(&cache, candidate, Verdict::Wrong, look.epoch);
        assert!(cache.is_empty());
        keep(&cache, "How do I cancel my plan?", 1, 1, "t");
        let look = cache.look(&near, "/r").unwrap();
        assert!(matches!(look.decision, Decision::Shadow(_)), "{look:?}");
        assert_eq!(cache.status()[0].threshold, None);
        assert_eq!(cache.counts().wrong, 1);
    }

    #[test]
    fn it_is_found_again_after_a_restart_and_gone_after_an_erasure() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("semantic.sqlite");
        let near = asked("How can I cancel my plan?", 1);
        {
            let cache = cache(SemanticStore::open(&file).unwrap(), SemanticMode::Shadow);
            keep(&cache, "How do I cancel my plan?", 1, 1, "a");
            keep(&cache, "Where is my parcel?", 1, 2, "b");
            let look = cache.look(&near, "/r").unwrap();
            let Decision::Shadow(candidate) = &look.decision else { panic!("{look:?}") };
            label(&cache, candidate, Verdict::Unsettled, look.epoch);
        }
        let cache = cache(SemanticStore::open(&file).unwrap(), SemanticMode::Shadow);
        assert_eq!(cache.len(), 2);
        let waiting = cache.unsettled(10).unwrap();
        assert_eq!(waiting.len(), 1);
        assert_eq!(cache.status()[0].bands[0].tally.wrong, 1);
        // A person settles it, elsewhere.
        let elsewhere = SemanticStore::open(&file).unwrap();
        assert!(elsewhere.settle(waiting[0].id, Verdict::Same).unwrap().is_some());
        assert!(elsewhere.settle(waiting[0].id, Verdict::Wrong).unwrap().is_none());
        cache.refresh().unwrap();
        assert_eq!(cache.status()[0].bands[0].tally.wrong, 0);

        let before = cache.look(&near, "/r").unwrap();
        let filter = Filter { tenant: Some("a".to_owned()), ..Filter::default() };
        assert_eq!(cache.purge(&filter).unwrap(), 1);
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.look(&near, "/r").unwrap().decision, Decision::Nothing);
        // What was begun before the erasure is not kept after it.
        assert!(!cache.keep(&near, &before, Key::from_bytes([3; 32]), owner("a")).unwrap());
        drop(cache);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("cancel my plan"), "the question is still in the file");
        }
    }

    #[test]
    fn the_oldest_of_a_scope_make_room_and_time_runs_out() {
        #[derive(Debug)]
        struct Fixed(Mutex<SystemTime>);
        impl Clock for Fixed {
            fn now(&self) -> SystemTime {
                *self.0.lock().unwrap()
            }
        }
        let clock = Arc::new(Fixed(Mutex::new(UNIX_EPOCH + Duration::from_secs(1_000_000))));
        let policy = SemanticPolicy {
            mode: SemanticMode::Shadow,
            entries: 2,
            ttl: Some(Duration::from_secs(60)),
            ..SemanticPolicy::default()
        };
        let policies = HashMap::from([("/r".to_owned(), policy)]);
        let store = SemanticStore::in_memory().unwrap();
        let embedder = Embedder::checked(Letters::sound()).unwrap();
        let cache = SemanticCache::open(embedder, store, policies, clock.clone(), 1).unwrap();
        for (number, question) in
            ["What is tea?", "Who sells soap?", "Why is it late?"].iter().enumerate()
        {
            keep(&cache, question, 1, number as u8, "t");
        }
        assert_eq!(cache.len(), 2);
        let found = |question: &str| cache.look(&asked(question, 1), "/r").unwrap().decision;
        assert_eq!(found("What is tea?"), Decision::Nothing);
        assert!(matches!(found("Who sells soap?"), Decision::Shadow(_)));
        *clock.0.lock().unwrap() += Duration::from_secs(61);
        assert_eq!(found("Who sells soap?"), Decision::Nothing);
    }
}
