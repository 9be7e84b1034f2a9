//! What the semantic cache keeps in a file: stored questions and labels. Answers are the exact cache's.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::RowId;
use crate::exact::{Filter, Key};
use crate::private::make_private;

/// The version of the tables. A file of another version is refused: it would be read wrongly.
const VERSION: i64 = 1;

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

    fn read(text: &str) -> Self {
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

/// Why the file can't be used.
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
        "the semantic cache's file has version {found}, and this Tapri reads version {VERSION}; move it away to begin anew"
    )]
    Version {
        /// Its version.
        found: i64,
    },
}

/// The file.
#[derive(Debug)]
pub struct SemanticStore {
    connection: Connection,
}

impl SemanticStore {
    /// Opens a file, and makes it where there is none.
    ///
    /// # Errors
    /// See [`SemanticStoreError`].
    pub fn open(path: &Path) -> Result<Self, SemanticStoreError> {
        make_private(path).map_err(SemanticStoreError::Io)?;
        SemanticStore::with(Connection::open(path)?)
    }

    /// One that is forgotten at the end.
    ///
    /// # Errors
    /// See [`SemanticStoreError`].
    pub fn in_memory() -> Result<Self, SemanticStoreError> {
        SemanticStore::with(Connection::open_in_memory()?)
    }

    fn with(connection: Connection) -> Result<Self, SemanticStoreError> {
        connection.busy_timeout(Duration::from_secs(5))?;
        // What was erased is overwritten, so that it is gone from the file as well.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;",
        )?;
        let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        match found {
            0 => connection.execute_batch(&format!(
                "BEGIN IMMEDIATE;
                CREATE TABLE IF NOT EXISTS questions (
                    id INTEGER PRIMARY KEY AUTOINCREMENT, scope BLOB NOT NULL, answer BLOB NOT NULL, question TEXT NOT NULL,
                    vector BLOB NOT NULL, encoder TEXT NOT NULL, tenant TEXT NOT NULL, route TEXT NOT NULL,
                    model TEXT NOT NULL, session TEXT, document TEXT, created INTEGER NOT NULL);
                CREATE TABLE IF NOT EXISTS labels (
                    id INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, tenant TEXT NOT NULL, route TEXT NOT NULL,
                    model TEXT NOT NULL, session TEXT, document TEXT, similarity REAL NOT NULL, verdict TEXT NOT NULL,
                    judge TEXT NOT NULL, served INTEGER NOT NULL, created INTEGER NOT NULL, stored_question TEXT NOT NULL,
                    stored_answer TEXT NOT NULL, asked_question TEXT NOT NULL, asked_answer TEXT NOT NULL);
                PRAGMA user_version = {VERSION}; COMMIT;"
            ))?,
            VERSION => {}
            found => return Err(SemanticStoreError::Version { found }),
        }
        Ok(SemanticStore { connection })
    }

    /// Keeps a question; its row.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn insert(
        &self,
        question: &StoredQuestion,
        encoder: &str,
    ) -> Result<RowId, SemanticStoreError> {
        let owner = &question.owner;
        self.connection.execute(
            "INSERT INTO questions (scope, answer, question, vector, encoder, tenant, route, model, session, document, created)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                question.scope.as_bytes(),
                question.answer.as_bytes(),
                question.question,
                bytes(&question.vector),
                encoder,
                owner.tenant,
                owner.route,
                owner.model,
                owner.session,
                owner.document,
                question.created as i64,
            ],
        )?;
        Ok(self.connection.last_insert_rowid() as RowId)
    }

    /// Forgets a question.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn remove(&self, id: RowId) -> Result<(), SemanticStoreError> {
        self.connection.execute("DELETE FROM questions WHERE id = ?1", [id as i64])?;
        Ok(())
    }

    /// All questions whose vectors this encoder made, oldest first. Those of another encoder are forgotten: their
    /// vectors can't be compared.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn questions(
        &self,
        encoder: &str,
    ) -> Result<Vec<(RowId, StoredQuestion)>, SemanticStoreError> {
        self.connection.execute("DELETE FROM questions WHERE encoder <> ?1", [encoder])?;
        let mut select = self.connection.prepare(
            "SELECT id, scope, answer, question, vector, tenant, route, model, session, document, created
             FROM questions ORDER BY id",
        )?;
        let rows = select.query_map([], |row| {
            let question = StoredQuestion {
                scope: Key::from_bytes(row.get(1)?),
                answer: Key::from_bytes(row.get(2)?),
                question: row.get(3)?,
                vector: floats(&row.get::<_, Vec<u8>>(4)?),
                owner: owner(row, 5)?,
                created: row.get::<_, i64>(10)? as u64,
            };
            Ok((row.get::<_, i64>(0)? as RowId, question))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Keeps a label.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn label(&self, label: &Label) -> Result<i64, SemanticStoreError> {
        let owner = &label.owner;
        self.connection.execute(
            "INSERT INTO labels (entry, tenant, route, model, session, document, similarity, verdict, judge, served,
                created, stored_question, stored_answer, asked_question, asked_answer)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                label.entry as i64,
                owner.tenant,
                owner.route,
                owner.model,
                owner.session,
                owner.document,
                f64::from(label.similarity),
                label.verdict.as_str(),
                label.by,
                label.served,
                label.at as i64,
                label.stored[0],
                label.stored[1],
                label.asked[0],
                label.asked[1],
            ],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    /// What each label says: route, similarity, and whether it counts as wrong.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn evidence(&self) -> Result<Vec<(String, f32, bool)>, SemanticStoreError> {
        let mut select =
            self.connection.prepare("SELECT route, similarity, verdict FROM labels ORDER BY id")?;
        let rows = select.query_map([], |row| {
            let verdict = Verdict::read(&row.get::<_, String>(2)?);
            Ok((row.get(0)?, row.get::<_, f64>(1)? as f32, verdict.is_wrong()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Labels that wait for a person, oldest first.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn unsettled(&self, limit: usize) -> Result<Vec<Shown>, SemanticStoreError> {
        let mut select = self.connection.prepare(
            "SELECT id, route, similarity, verdict, stored_question, stored_answer, asked_question, asked_answer
             FROM labels WHERE verdict = 'unsettled' ORDER BY id LIMIT ?1",
        )?;
        let rows = select.query_map([limit as i64], |row| {
            Ok(Shown {
                id: row.get(0)?,
                route: row.get(1)?,
                similarity: row.get::<_, f64>(2)? as f32,
                verdict: Verdict::read(&row.get::<_, String>(3)?),
                stored_question: row.get(4)?,
                stored_answer: row.get(5)?,
                asked_question: row.get(6)?,
                asked_answer: row.get(7)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A person's word on a label: its route and similarity, where there is such a label that waits.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn settle(
        &self,
        id: i64,
        verdict: Verdict,
    ) -> Result<Option<(String, f32)>, SemanticStoreError> {
        let found = self
            .connection
            .query_row(
                "UPDATE labels SET verdict = ?2, judge = 'person' WHERE id = ?1 AND verdict = 'unsettled'
                 RETURNING route, similarity",
                params![id, verdict.as_str()],
                |row| Ok((row.get(0)?, row.get::<_, f64>(1)? as f32)),
            )
            .optional()?;
        Ok(found)
    }

    /// Erases questions and labels that a filter matches; the rows of questions that went.
    ///
    /// # Errors
    /// Where SQLite fails.
    pub fn purge(&mut self, filter: &Filter, now: u64) -> Result<Vec<RowId>, SemanticStoreError> {
        let before = filter.before(now).map(|before| before as i64);
        let mut conditions = vec!["1".to_owned()];
        let mut values: Vec<rusqlite::types::Value> = Vec::new();
        for (column, wanted) in [
            ("tenant", &filter.tenant),
            ("route", &filter.route),
            ("model", &filter.model),
            ("session", &filter.session),
            ("document", &filter.document),
        ] {
            if let Some(wanted) = wanted {
                values.push(wanted.clone().into());
                conditions.push(format!("{column} = ?{}", values.len()));
            }
        }
        if let Some(before) = before {
            values.push(before.into());
            conditions.push(format!("created < ?{}", values.len()));
        }
        let matching = conditions.join(" AND ");
        let both = self.connection.transaction()?;
        let gone = {
            let mut delete =
                both.prepare(&format!("DELETE FROM questions WHERE {matching} RETURNING id"))?;
            let rows = delete.query_map(params_from_iter(values.iter()), |row| {
                Ok(row.get::<_, i64>(0)? as RowId)
            })?;
            rows.collect::<Result<Vec<_>, _>>()?
        };
        both.execute(
            &format!("DELETE FROM labels WHERE {matching}"),
            params_from_iter(values.iter()),
        )?;
        both.commit()?;
        // The log still holds what was there before; it is emptied as well.
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(gone)
    }
}

fn owner(row: &Row<'_>, at: usize) -> rusqlite::Result<Owner> {
    Ok(Owner {
        tenant: row.get(at)?,
        route: row.get(at + 1)?,
        model: row.get(at + 2)?,
        session: row.get(at + 3)?,
        document: row.get(at + 4)?,
    })
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn questions_are_their_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let _store = SemanticStore::open(&folder.path().join("new/semantic.sqlite")).unwrap();
        for file in std::fs::read_dir(folder.path().join("new")).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }
}
