//! What the cache knows in memory. Nothing here waits for a disk or a network.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::look::{Candidate, Decision, SemanticCounts};
use super::writer::News;
use crate::exact::{Filter, Key};
use crate::semantic::evidence::{Evidence, THRESHOLDS};
use crate::semantic::scope::Asked;
use crate::semantic::store::{Found, Owner, SharedCounts, StoredQuestion};
use crate::semantic::{FlatIndex, Index, Near, Question, RowId, SemanticMode, SemanticPolicy};

/// Stored questions that are compared with one that comes: a nearer one may be stopped by a guard where the next is
/// not.
const CANDIDATES: usize = 5;

/// Stored questions that are as near as can be told: the oldest of them are the candidates.
pub(super) const ALIKE: usize = 4 * CANDIDATES;

/// How long labels are trusted that nobody said anything about: how soon a person's word in another process counts.
const REREAD_EVERY: Duration = Duration::from_secs(60);

/// Everything but policies.
pub(super) struct State {
    scopes: HashMap<Key, Scope>,
    rows: HashMap<RowId, Kept>,
    /// How many were kept so far.
    kept: u64,
    pub(super) evidence: HashMap<String, Evidence>,
    /// Labels that count and may not be in the store yet.
    pending: VecDeque<Pending>,
    /// The number of the latest label.
    numbers: u64,
    /// What the shared store counted when its labels were read.
    shared: Option<SharedCounts>,
    /// When it was last asked for, in milliseconds since 1970.
    read: u64,
    /// The number of the reading that was heard last.
    heard: u64,
    /// Draws which served answers are checked: SplitMix64.
    pub(super) dice: u64,
    /// Counts up at every erasure: what was begun before one is not kept after it.
    pub(super) epoch: u64,
    pub(super) counts: SemanticCounts,
}

#[derive(Default)]
struct Scope {
    index: FlatIndex,
    /// Its rows by their number: the oldest first.
    oldest: BTreeMap<u64, RowId>,
}

/// What is kept of a stored question beside its vector.
struct Kept {
    scope: Key,
    answer: Key,
    text: Arc<str>,
    question: Arc<Question>,
    owner: Owner,
    created: u64,
    /// Counts up with each that is kept: of two that are as near, the older one is compared first, so that what its labels
    /// say goes on being about one answer.
    number: u64,
}

struct Pending {
    number: u64,
    route: String,
    similarity: f32,
    wrong: bool,
}

/// Until when a stored question is fresh.
#[derive(Clone, Copy)]
pub(super) struct Fresh {
    pub(super) now: u64,
    pub(super) ttl: Option<Duration>,
}

impl Fresh {
    fn is(self, created: u64) -> bool {
        self.ttl.is_none_or(|ttl| {
            self.now.saturating_sub(created) < u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
        })
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        State {
            scopes: HashMap::new(),
            rows: HashMap::new(),
            kept: 0,
            evidence: HashMap::new(),
            pending: VecDeque::new(),
            numbers: 0,
            shared: None,
            read: 0,
            heard: 0,
            dice: seed,
            epoch: 0,
            counts: SemanticCounts::default(),
        }
    }

    /// Rows in memory, or those of a shared store when it was last asked.
    pub(super) fn len(&self) -> usize {
        self.shared.map_or(self.rows.len(), |counts| counts.entries)
    }

    /// When the oldest row in memory was kept.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.rows.values().map(|kept| kept.created).min()
    }

    /// What of this process' memory is near.
    pub(super) fn candidates(&self, asked: &Asked, vector: &[f32], fresh: Fresh) -> Vec<Candidate> {
        let Some(scope) = self.scopes.get(&asked.scope) else { return Vec::new() };
        let question = Question::read(&asked.question);
        let near = scope.index.nearest(vector, ALIKE).into_iter();
        let mut near: Vec<_> = near
            .filter_map(|near| {
                let kept = self.rows.get(&near.id).filter(|kept| fresh.is(kept.created))?;
                Some((near, kept))
            })
            .collect();
        near.sort_by(|(a, first), (b, second)| {
            b.similarity.total_cmp(&a.similarity).then(first.number.cmp(&second.number))
        });
        let candidate = |(near, kept): (Near, &Kept)| {
            let text = Arc::clone(&kept.text);
            Candidate::new(near.id, kept.answer, text, near.similarity, &kept.question, &question)
        };
        near.into_iter().take(CANDIDATES).map(candidate).collect()
    }

    /// What may be done with what is near. Without trust nothing is served: others know of labels that were not read
    /// here yet.
    pub(super) fn decide(
        &mut self,
        candidates: Vec<Candidate>,
        route: &str,
        policy: &SemanticPolicy,
        trusted: bool,
    ) -> Decision {
        let lowest = THRESHOLDS[THRESHOLDS.len() - 1];
        let nearest = candidates.first().filter(|near| near.similarity >= lowest).cloned();
        let found = candidates
            .into_iter()
            .find(|candidate| candidate.objections.is_empty() && candidate.similarity >= lowest);
        let serves = self
            .evidence
            .get(route)
            .and_then(|evidence| evidence.threshold(policy.budget))
            .filter(|_| trusted && policy.mode == SemanticMode::Serve);
        match found {
            None => {
                match nearest {
                    Some(near) => self.counts.refuse(&near),
                    None => self.counts.nothing += 1,
                }
                Decision::Nothing
            }
            Some(candidate) if serves.is_some_and(|from| candidate.similarity >= from) => {
                let check = self.draw() < policy.recheck;
                Decision::Serve { candidate, check }
            }
            Some(candidate) => {
                self.counts.shadows += 1;
                Decision::Shadow(candidate)
            }
        }
    }

    /// Takes a question in; what had to make room, where it was taken.
    pub(super) fn keep(&mut self, question: &StoredQuestion, most: usize) -> Option<Vec<RowId>> {
        let id = question.id();
        // The same call, answered anew: the new answer takes the place of the old.
        self.drop_row(id);
        let scope = self.scopes.entry(question.scope).or_default();
        if !scope.index.insert(id, &question.vector) {
            if scope.index.is_empty() {
                self.scopes.remove(&question.scope);
            }
            return None;
        }
        scope.oldest.insert(self.kept, id);
        let surplus = scope.oldest.len().saturating_sub(most);
        let gone: Vec<RowId> = scope.oldest.values().take(surplus).copied().collect();
        let kept = Kept {
            scope: question.scope,
            answer: question.answer,
            text: question.question.as_str().into(),
            question: Arc::new(Question::read(&question.question)),
            owner: question.owner.clone(),
            created: question.created,
            number: self.kept,
        };
        self.kept += 1;
        self.rows.insert(id, kept);
        gone.iter().for_each(|id| self.drop_row(*id));
        Some(gone)
    }

    pub(super) fn drop_row(&mut self, id: RowId) {
        let Some(kept) = self.rows.remove(&id) else { return };
        if let Some(scope) = self.scopes.get_mut(&kept.scope) {
            scope.index.remove(id);
            scope.oldest.remove(&kept.number);
            if scope.index.is_empty() {
                self.scopes.remove(&kept.scope);
            }
        }
    }

    /// Erases what a filter matches; how many rows went.
    pub(super) fn purge(&mut self, filter: &Filter, now: u64) -> usize {
        self.epoch += 1;
        let matching = |kept: &Kept| kept.owner.matches(filter, kept.created, now);
        let gone: Vec<RowId> =
            self.rows.iter().filter(|(_, kept)| matching(kept)).map(|(id, _)| *id).collect();
        gone.iter().for_each(|id| self.drop_row(*id));
        gone.len()
    }

    /// The number of the next label.
    pub(super) fn next_label(&self) -> u64 {
        self.numbers + 1
    }

    /// Counts a label that was handed to the store, up to which all before `written` are in it.
    pub(super) fn count_label(&mut self, route: &str, similarity: f32, wrong: bool, written: u64) {
        self.numbers += 1;
        while self.pending.front().is_some_and(|label| label.number <= written) {
            self.pending.pop_front();
        }
        let (number, route) = (self.numbers, route.to_owned());
        self.add(&route, similarity, wrong);
        self.pending.push_back(Pending { number, route, similarity, wrong });
    }

    /// Counts a label that the store doesn't get.
    pub(super) fn add(&mut self, route: &str, similarity: f32, wrong: bool) {
        self.evidence.entry(route.to_owned()).or_default().add(similarity, wrong);
    }

    /// Takes over what the store knows, and what is still on its way there.
    pub(super) fn hear(&mut self, news: News) {
        if news.number <= self.heard {
            return;
        }
        self.heard = news.number;
        self.evidence.clear();
        for (route, similarity, wrong) in news.known.labels {
            self.evidence.entry(route).or_default().add(similarity, wrong);
        }
        self.pending.retain(|label| label.number > news.upto);
        for label in &self.pending {
            let evidence = self.evidence.entry(label.route.clone()).or_default();
            evidence.add(label.similarity, label.wrong);
        }
        self.shared = news.known.shared;
    }

    /// Whether the labels have to be read again: others know more, or it was long ago.
    pub(super) fn is_stale(&mut self, found: Option<&Found>, now: u64) -> bool {
        let stale =
            !self.trusts(found) || now.saturating_sub(self.read) >= REREAD_EVERY.as_millis() as u64;
        if stale {
            self.read = now;
        }
        stale
    }

    /// Whether what is known here is what a shared store knows.
    pub(super) fn trusts(&self, found: Option<&Found>) -> bool {
        found.is_none_or(|found| self.shared.map(|counts| counts.alarms) == Some(found.alarms))
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

/// What a shared store found, against a question.
pub(super) fn found_candidates(found: &Found, asked: &Asked, fresh: Fresh) -> Vec<Candidate> {
    let question = Question::read(&asked.question);
    let rows = found.rows.iter().filter(|row| fresh.is(row.created)).take(CANDIDATES);
    rows.map(|row| {
        let stored = Question::read(&row.question);
        let text = row.question.as_str().into();
        Candidate::new(row.id, row.answer, text, row.similarity, &stored, &question)
    })
    .collect()
}
