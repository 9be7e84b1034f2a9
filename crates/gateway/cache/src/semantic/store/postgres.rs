//! Questions and labels in Postgres with pgvector, shared by several processes.
//!
//! Lookups have a connection of their own and a limit of time, so that what is written never holds them up; a store
//! that is slow or down costs a miss, and is left alone for a moment. Rows carry a digest of what was written: one that
//! isn't that any more is not served. The scan of a scope is exact, over an index of scopes; the few nearest are
//! compared by their f32 vectors, and by the guards, in this process.
//!
//! An erasure counts up in the same transaction in which it deletes, and whatever is written names the count that it
//! was begun under and holds its row meanwhile: it comes wholly before the erasure, which then deletes it, or is not
//! written at all.

mod connection;
mod sql;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pgvector::Vector;
use tapri_embed::vector;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use self::connection::{Lane, Link};
use super::{
    Found, FoundRow, Keeper, Known, Label, Owner, SemanticStoreError, Shared, SharedCounts, Shown,
    StoredQuestion, Verdict, Wanted,
};
use crate::exact::{Filter, Key};
use crate::semantic::RowId;

/// Rows that are compared by their f32 vectors, as many as by the index in memory.
const RESCORED: usize = 32;

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresConfig {
    /// How long a lookup waits.
    pub timeout: Duration,
    /// How long what is written waits.
    pub write_timeout: Duration,
    /// How long it is left alone after a failure.
    pub rest: Duration,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        PostgresConfig {
            timeout: Duration::from_millis(50),
            write_timeout: Duration::from_secs(5),
            rest: Duration::from_secs(1),
        }
    }
}

/// The database. Cheap to clone; clones share its connections.
#[derive(Clone)]
pub struct Postgres {
    link: Arc<Link>,
}

impl Postgres {
    /// A database at a URL (`postgres://USER@HOST:PORT/DATABASE`). It need not be there yet.
    ///
    /// # Errors
    /// Where the URL can't be read.
    pub fn new(url: &str, config: PostgresConfig) -> Result<Self, SemanticStoreError> {
        Ok(Postgres { link: Arc::new(Link::new(url, config)?) })
    }
}

impl Shared for Postgres {
    fn nearest(&self, wanted: &Wanted<'_>) -> Result<Found, SemanticStoreError> {
        let (scope, encoder) = (wanted.scope, wanted.encoder.to_owned());
        let (query, width) = (Vector::from(wanted.vector.to_vec()), wanted.vector.len() as i32);
        let rows = self.link.ask(Lane::Look, {
            let encoder = encoder.clone();
            move |live| async move {
                let rows = RESCORED as i64;
                let wanted: [&(dyn ToSql + Sync); 6] =
                    [&&scope.as_bytes()[..], &encoder, &sql::VERSION, &width, &query, &rows];
                live.client.query(&live.nearest, &wanted).await
            }
        })?;
        let mut found = Found::default();
        for row in &rows {
            found.erasures = number(row, 0)?;
            found.alarms = number(row, 1)?;
            // Without a near row there is one of counts alone.
            let Some(id) = row.try_get::<_, Option<i64>>(2).map_err(failed)? else { continue };
            match near(row, scope, &encoder, wanted.vector) {
                Some(near) => found.rows.push(FoundRow { id: id as RowId, ..near }),
                None => found.corrupt.push(id as RowId),
            }
        }
        let nearest = |a: &FoundRow, b: &FoundRow| {
            let similarity = b.similarity.total_cmp(&a.similarity);
            similarity.then(a.created.cmp(&b.created)).then(a.id.cmp(&b.id))
        };
        found.rows.sort_by(nearest);
        found.rows.truncate(wanted.count);
        Ok(found)
    }
}

/// A row, where it is what was written; its number is for the caller to fill in.
fn near(row: &Row, scope: Key, encoder: &str, query: &[f32]) -> Option<FoundRow> {
    let answer = Key::from_bytes(row.try_get::<_, Vec<u8>>(3).ok()?.try_into().ok()?);
    let question: String = row.try_get(4).ok()?;
    let stored = row.try_get::<_, Vector>(5).ok()?.to_vec();
    let digest: Vec<u8> = row.try_get(6).ok()?;
    let created: i64 = row.try_get(7).ok()?;
    let wanted = sql::digest(&scope, &answer, encoder, &question, &stored, created);
    if digest != wanted || stored.len() != query.len() {
        return None;
    }
    let similarity = vector::dot(query, &stored);
    Some(FoundRow { id: 0, answer, question, created: created as u64, similarity })
}

impl Keeper for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    /// None: it is asked for what is near.
    fn questions(&mut self, _: &str) -> Result<Vec<(RowId, StoredQuestion)>, SemanticStoreError> {
        Ok(Vec::new())
    }

    fn keep(
        &mut self,
        id: RowId,
        question: &StoredQuestion,
        encoder: &str,
        erasures: u64,
    ) -> Result<(), SemanticStoreError> {
        let StoredQuestion { scope, answer, question, vector, owner, created } = question.clone();
        // Postgres has no text with it.
        if question.contains('\0') {
            return Ok(());
        }
        let (encoder, created) = (encoder.to_owned(), created as i64);
        let digest = sql::digest(&scope, &answer, &encoder, &question, &vector, created);
        let vector = Vector::from(vector);
        self.link.ask(Lane::Write, move |live| async move {
            let (id, erasures) = (id as i64, erasures as i64);
            let Owner { tenant, route, model, session, document } = &owner;
            let values: [&(dyn ToSql + Sync); 15] = [
                &id,
                &sql::VERSION,
                &&scope.as_bytes()[..],
                &encoder,
                &&answer.as_bytes()[..],
                &question,
                &vector,
                &digest,
                tenant,
                route,
                model,
                session,
                document,
                &created,
                &erasures,
            ];
            live.client.execute(sql::KEEP, &values).await.map(|_| ())
        })
    }

    fn trim(&mut self, scope: Key, most: usize) -> Result<(), SemanticStoreError> {
        self.link.ask(Lane::Write, move |live| async move {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let values: [&(dyn ToSql + Sync); 2] = [&&scope.as_bytes()[..], &most];
            live.client.execute(sql::TRIM, &values).await.map(|_| ())
        })
    }

    fn remove(&mut self, id: RowId) -> Result<(), SemanticStoreError> {
        self.link.ask(Lane::Write, move |live| async move {
            live.client.execute(sql::REMOVE, &[&(id as i64)]).await.map(|_| ())
        })
    }

    fn label(&mut self, label: &Label, erasures: u64) -> Result<(), SemanticStoreError> {
        let mut label = label.clone();
        // Postgres has no text with it.
        for text in label.stored.iter_mut().chain(&mut label.asked) {
            if text.contains('\0') {
                *text = text.replace('\0', "\u{fffd}");
            }
        }
        self.link.ask(Lane::Write, move |live| async move {
            let (entry, at, erasures) = (label.entry as i64, label.at as i64, erasures as i64);
            let (verdict, similarity) = (label.verdict.as_str(), f64::from(label.similarity));
            let Owner { tenant, route, model, session, document } = &label.owner;
            let values: [&(dyn ToSql + Sync); 17] = [
                &sql::VERSION,
                &entry,
                tenant,
                route,
                model,
                session,
                document,
                &similarity,
                &verdict,
                &label.by,
                &label.served,
                &at,
                &label.stored[0],
                &label.stored[1],
                &label.asked[0],
                &label.asked[1],
                &erasures,
            ];
            let wrong = label.verdict.is_wrong();
            let statement = if wrong { sql::label_against() } else { sql::label_for() };
            live.client.execute(&statement, &values).await.map(|_| ())
        })
    }

    fn known(&mut self) -> Result<Known, SemanticStoreError> {
        let (counts, labels) = self.link.ask(Lane::Write, |live| async move {
            // First the count: a label that comes meanwhile is read and counted again, and never missed.
            let counts = live.client.query_one(sql::COUNTS, &[]).await?;
            Ok((counts, live.client.query(sql::LABELS, &[&sql::VERSION]).await?))
        })?;
        let mut known = Known {
            shared: Some(SharedCounts {
                alarms: number(&counts, 0)?,
                entries: usize::try_from(number(&counts, 1)?).unwrap_or(usize::MAX),
            }),
            labels: Vec::with_capacity(labels.len()),
        };
        for row in &labels {
            let similarity: f64 = row.try_get(1).map_err(failed)?;
            let verdict = Verdict::read(row.try_get(2).map_err(failed)?);
            let route = row.try_get(0).map_err(failed)?;
            known.labels.push((route, similarity as f32, verdict.is_wrong()));
        }
        Ok(known)
    }

    fn unsettled(&mut self, limit: usize) -> Result<Vec<Shown>, SemanticStoreError> {
        let rows = self.link.ask(Lane::Write, move |live| async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            live.client.query(sql::UNSETTLED, &[&sql::VERSION, &limit]).await
        })?;
        let shown = |row: &Row| -> Result<Shown, tokio_postgres::Error> {
            Ok(Shown {
                id: row.try_get(0)?,
                route: row.try_get(1)?,
                similarity: row.try_get::<_, f64>(2)? as f32,
                verdict: Verdict::Unsettled,
                stored_question: row.try_get(3)?,
                stored_answer: row.try_get(4)?,
                asked_question: row.try_get(5)?,
                asked_answer: row.try_get(6)?,
            })
        };
        rows.iter().map(|row| shown(row).map_err(failed)).collect()
    }

    fn settle(
        &mut self,
        id: i64,
        verdict: Verdict,
    ) -> Result<Option<(String, f32)>, SemanticStoreError> {
        let row = self.link.ask(Lane::Write, move |live| async move {
            live.client.query_opt(sql::SETTLE, &[&id, &verdict.as_str()]).await
        })?;
        let Some(row) = row else { return Ok(None) };
        let similarity: f64 = row.try_get(1).map_err(failed)?;
        Ok(Some((row.try_get(0).map_err(failed)?, similarity as f32)))
    }

    fn purge(&mut self, filter: &Filter, now: u64) -> Result<usize, SemanticStoreError> {
        let filter = filter.clone();
        let gone = self.link.ask(Lane::Erase, move |live| async move {
            let before = filter.before(now).map(|before| before as i64);
            let Filter { tenant, route, model, session, document, older_than: _ } = &filter;
            let values: [&(dyn ToSql + Sync); 6] =
                [tenant, route, model, session, document, &before];
            // Statements that are sent one after another; the transaction ends with the connection where one fails.
            live.client.batch_execute(sql::BEGIN_ERASURE).await?;
            let erased = async {
                let gone = live.client.execute(sql::ERASE_QUESTIONS, &values).await?;
                live.client.execute(sql::ERASE_LABELS, &values).await?;
                Ok(gone)
            };
            match erased.await {
                Ok(gone) => live.client.batch_execute("COMMIT").await.map(|()| gone),
                Err(error) => {
                    live.client.batch_execute("ROLLBACK").await?;
                    Err(error)
                }
            }
        })?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }
}

fn number(row: &Row, at: usize) -> Result<u64, SemanticStoreError> {
    row.try_get::<_, i64>(at).map(|number| number as u64).map_err(failed)
}

/// What the server says, without the text of statements and values.
fn failed(error: tokio_postgres::Error) -> SemanticStoreError {
    let said =
        error.as_db_error().map(|said| format!("{}: {}", said.code().code(), said.message()));
    let said = said.unwrap_or_else(|| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    });
    SemanticStoreError::Failed(said)
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its URL may have a password in it.
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}
