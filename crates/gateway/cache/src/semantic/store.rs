//! Where stored questions and labels are kept. Answers are the exact cache's.
//!
//! A [`Keeper`] writes and reads on the cache's own thread, off every call's way: [`SemanticStore`], a file of one
//! process, whose questions are found in memory; or a Postgres database that several processes share
//! (feature `postgres`), which is asked for what is near as well, as a [`Shared`] index.

mod open;
#[cfg(feature = "postgres")]
pub mod postgres;
mod sqlite;

use std::io;

use super::RowId;
use crate::exact::{Filter, Key};

pub use open::{Place, PlaceError};
pub use sqlite::SemanticStore;

/// A stored question.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredQuestion {
    /// The scope in which it may be found.
    pub scope: Key,
    /// The exact cache's key of its answer.
    pub answer: Key,
    /// The question.
    pub question: String,
    /// Its vector.
    pub vector: Vec<f32>,
    /// What it belongs to.
    pub owner: Owner,
    /// When it was asked, in milliseconds since 1970.
    pub created: u64,
}

/// What an entry or a label belongs to, for erasure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// The tenant's name.
    pub tenant: String,
    /// The route's name.
    pub route: String,
    /// The model that answered.
    pub model: String,
    /// The session that asked.
    pub session: Option<String>,
    /// The document that was asked about.
    pub document: Option<String>,
}

/// What is known of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// One answer is right for both.
    Same,
    /// It isn't.
    Wrong,
    /// Nobody knows yet. Counts as wrong.
    Unsettled,
}

impl Verdict {
    /// Whether it counts as wrong.
    pub fn is_wrong(self) -> bool {
        self != Verdict::Same
    }

    /// Its name in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Wrong => "wrong",
            Verdict::Unsettled => "unsettled",
        }
    }

    pub(crate) fn read(text: &str) -> Self {
        match text {
            "same" => Verdict::Same,
            "wrong" => Verdict::Wrong,
            _ => Verdict::Unsettled,
        }
    }
}

/// A pair that was compared, or waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// The stored question's row.
    pub entry: RowId,
    /// What it belongs to.
    pub owner: Owner,
    /// The cosine of the questions.
    pub similarity: f32,
    /// What is known.
    pub verdict: Verdict,
    /// Who said so: `text`, `model`, `person`.
    pub by: &'static str,
    /// Whether the stored answer was served.
    pub served: bool,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The stored question and its answer.
    pub stored: [String; 2],
    /// The question that came and the model's answer to it.
    pub asked: [String; 2],
}

/// A label as it is shown to a person.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Shown {
    /// Its number.
    pub id: i64,
    /// The route.
    pub route: String,
    /// The cosine.
    pub similarity: f32,
    /// What is known.
    pub verdict: Verdict,
    /// The stored question.
    pub stored_question: String,
    /// Its answer.
    pub stored_answer: String,
    /// The question that came.
    pub asked_question: String,
    /// The model's answer to it.
    pub asked_answer: String,
}

/// Why a store can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SemanticStoreError {
    /// The file, or its folder, can't be made.
    #[error("the semantic cache's file can't be made")]
    Io(#[source] io::Error),
    /// SQLite failed.
    #[error("the semantic cache's file failed")]
    Sqlite(#[from] rusqlite::Error),
    /// Another version wrote it.
    #[error(
        "the semantic cache's file has version {found}, and this Tapri reads version {}; move it away to begin anew",
        sqlite::VERSION
    )]
    Version {
        /// Its version.
        found: i64,
    },
    /// It is another program's database.
    #[error("the semantic cache's file is another program's database")]
    NotOurs,
    /// The address of a shared store can't be read.
    #[error("the address of the semantic cache's store can't be read: {0}")]
    Address(String),
    /// A shared store refused, or can't be reached.
    #[error("the semantic cache's store failed: {0}")]
    Failed(String),
    /// It didn't answer in time.
    #[error("the semantic cache's store did not answer in time")]
    Slow,
    /// It failed a moment ago.
    #[error("the semantic cache's store failed a moment ago and is left alone for another")]
    Resting,
    /// It was closed.
    #[error("the semantic cache's store is closed")]
    Closed,
}

/// What a store knows of labels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// Of each label: its route, its similarity, and whether it counts as wrong.
    pub labels: Vec<(String, f32, bool)>,
    /// What a shared store counts besides.
    pub shared: Option<SharedCounts>,
}

/// What a shared store counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedCounts {
    /// What makes routes serve less: see [`Found::alarms`].
    pub alarms: u64,
    /// Stored questions.
    pub entries: usize,
}

/// A store of questions and labels. It may block: only the cache's writing thread asks it.
pub trait Keeper: Send + 'static {
    /// What it is, for messages and metrics: `sqlite`, `postgres`.
    fn name(&self) -> &'static str;

    /// All questions whose vectors this encoder made, oldest first; none where the store is asked for what is near.
    ///
    /// # Errors
    /// Where it fails.
    fn questions(
        &mut self,
        encoder: &str,
    ) -> Result<Vec<(RowId, StoredQuestion)>, SemanticStoreError>;

    /// Keeps a question under its number; one that is there is replaced. A shared store keeps nothing where
    /// something was erased since it counted so many erasures.
    ///
    /// # Errors
    /// Where it fails.
    fn keep(
        &mut self,
        id: RowId,
        question: &StoredQuestion,
        encoder: &str,
        erasures: u64,
    ) -> Result<(), SemanticStoreError>;

    /// Lets the oldest questions of a scope go that are too many. A file has no need: its process names them.
    ///
    /// # Errors
    /// Where it fails.
    fn trim(&mut self, _scope: Key, _most: usize) -> Result<(), SemanticStoreError> {
        Ok(())
    }

    /// Forgets a question.
    ///
    /// # Errors
    /// Where it fails.
    fn remove(&mut self, id: RowId) -> Result<(), SemanticStoreError>;

    /// Keeps a label, as [`Keeper::keep`] does.
    ///
    /// # Errors
    /// Where it fails.
    fn label(&mut self, label: &Label, erasures: u64) -> Result<(), SemanticStoreError>;

    /// What it knows.
    ///
    /// # Errors
    /// Where it fails.
    fn known(&mut self) -> Result<Known, SemanticStoreError>;

    /// Labels that wait for a person, oldest first.
    ///
    /// # Errors
    /// Where it fails.
    fn unsettled(&mut self, limit: usize) -> Result<Vec<Shown>, SemanticStoreError>;

    /// A person's word on a label: its route and similarity, where there is such a label that waits.
    ///
    /// # Errors
    /// Where it fails.
    fn settle(
        &mut self,
        id: i64,
        verdict: Verdict,
    ) -> Result<Option<(String, f32)>, SemanticStoreError>;

    /// Erases questions and labels that a filter matches; how many questions went.
    ///
    /// # Errors
    /// Where it fails: what it holds is still there.
    fn purge(&mut self, filter: &Filter, now: u64) -> Result<usize, SemanticStoreError>;
}

/// What is looked for in a shared index.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// In which scope.
    pub scope: Key,
    /// What made the vector.
    pub encoder: &'a str,
    /// The question's vector.
    pub vector: &'a [f32],
    /// How many rows.
    pub count: usize,
}

/// A row that a shared index found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundRow {
    /// Its number.
    pub id: RowId,
    /// The exact cache's key of its answer.
    pub answer: Key,
    /// The question.
    pub question: String,
    /// When it was asked, in milliseconds since 1970.
    pub created: u64,
    /// Its cosine, of the f32 vectors.
    pub similarity: f32,
}

/// What a shared index says, all as of one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// Its count of erasures.
    pub erasures: u64,
    /// Its count of labels that were wrong or unsettled, words of people, and erasures, by anyone: what has a route
    /// serve less. A process that knows another count doesn't serve until it has read the labels again.
    pub alarms: u64,
    /// The nearest, nearest first.
    pub rows: Vec<FoundRow>,
    /// Rows that aren't what was written.
    pub corrupt: Vec<RowId>,
}

/// An index of questions that several processes share. It may block, up to a limit of its own; after a failure it
/// rests, and answers at once that it does.
pub trait Shared: Send + Sync + 'static {
    /// The stored questions of a scope that are nearest.
    ///
    /// # Errors
    /// Where it fails or is too slow: the caller has a miss.
    fn nearest(&self, wanted: &Wanted<'_>) -> Result<Found, SemanticStoreError>;
}

impl StoredQuestion {
    /// Its number in every store: the start of its answer's key, so that the same call answered anew takes the place
    /// of what it was before, in this process and in others. Positive, as SQL wants it.
    pub fn id(&self) -> RowId {
        id_of(self.answer)
    }
}

/// See [`StoredQuestion::id`].
pub(crate) fn id_of(answer: Key) -> RowId {
    let start = answer.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
    RowId::from_be_bytes(start) >> 1
}

impl Owner {
    /// Whether a filter matches what belongs to it and was made then.
    pub(crate) fn matches(&self, filter: &Filter, created: u64, now: u64) -> bool {
        let Filter { tenant, route, model, session, document, older_than: _ } = filter;
        let is = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|it| it == has);
        let maybe = |wanted: &Option<String>, has: &Option<String>| {
            wanted.as_ref().is_none_or(|it| has.as_ref() == Some(it))
        };
        is(tenant, &self.tenant)
            && is(route, &self.route)
            && is(model, &self.model)
            && maybe(session, &self.session)
            && maybe(document, &self.document)
            && filter.before(now).is_none_or(|before| created < before)
    }
}
