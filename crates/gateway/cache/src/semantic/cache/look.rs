//! What was found for a question, what may be done with it, and what was counted.

use std::sync::Arc;

use crate::exact::Key;
use crate::semantic::evidence::Band;
use crate::semantic::guards::{GUARDS, Guard, Objection};
use crate::semantic::{Question, RowId, objections};

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

impl Candidate {
    pub(super) fn new(
        id: RowId,
        answer: Key,
        text: Arc<str>,
        similarity: f32,
        stored: &Question,
        asked: &Question,
    ) -> Self {
        Candidate { id, answer, question: text, similarity, objections: objections(stored, asked) }
    }
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

/// The counts of erasures when a question was looked at: what was begun before one is not kept after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epoch {
    /// Of this process.
    pub(super) here: u64,
    /// Of the store, where it is shared.
    pub(super) there: u64,
}

/// What there is for a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// What may be done.
    pub decision: Decision,
    /// The nearest stored question, whatever guards say.
    pub nearest: Option<Candidate>,
    /// The question's vector, to keep it with; empty where it can't be kept.
    pub vector: Arc<[f32]>,
    /// The counts of erasures when it was looked at.
    pub epoch: Epoch,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct SemanticCounts {
    /// Questions that were looked for.
    pub lookups: u64,
    /// Answers that were served.
    pub hits: u64,
    /// Near ones whose stored answer was to be compared with the model's.
    pub shadows: u64,
    /// Near ones that a guard stopped.
    pub guarded: u64,
    /// The same, by the guard that is named first, in the order of [`GUARDS`].
    pub refusals: [u64; GUARDS.len()],
    /// Questions that nothing stored was near to.
    pub nothing: u64,
    /// Answers that were to be served and had made room meanwhile.
    pub gone: u64,
    /// Questions that could not be looked for: the encoder or a shared store failed.
    pub failed: u64,
    /// Near ones that were compared with the model's answer.
    pub labels: u64,
    /// Of which the stored answer would have been wrong, or nobody knows.
    pub wrong: u64,
    /// Of which nobody knows yet.
    pub unsettled: u64,
    /// Times that the encoder or the store failed.
    pub errors: u64,
    /// Times that what was learnt was dropped: more waited to be written than there is room for.
    pub dropped: u64,
}

impl SemanticCounts {
    /// How often each guard stopped what was near.
    pub fn refused(&self) -> impl Iterator<Item = (Guard, u64)> {
        GUARDS.into_iter().zip(self.refusals)
    }

    pub(super) fn refuse(&mut self, near: &Candidate) {
        self.guarded += 1;
        let first = near.objections.first().map(|objection| objection.guard);
        if let Some(at) = first.and_then(|guard| GUARDS.iter().position(|other| *other == guard)) {
            self.refusals[at] += 1;
        }
    }
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
