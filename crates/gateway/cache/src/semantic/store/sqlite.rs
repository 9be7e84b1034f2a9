//! Questions and labels in an SQLite file. One that is corrupt is set aside, and a new one begun: what it held is lost,
//! and its routes gather labels anew.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::{Keeper, Known, Label, Owner, SemanticStoreError, Shown, StoredQuestion, Verdict};
use crate::broken::{is_corrupt, set_aside};
use crate::exact::{Filter, Key};
use crate::private::make_private;
use crate::semantic::RowId;

/// The version of the tables. A file of a later version is refused: it would be read wrongly. In version 1 questions
/// had other numbers; they are forgotten, and labels stay.
pub(super) const VERSION: i64 = 2;

/// How long a statement waits for another process that writes at the same moment.
const BUSY: Duration = Duration::from_secs(5);

/// The file.
#[derive(Debug)]
pub struct SemanticStore {
    /// `None` in memory.
    path: Option<PathBuf>,
    /// `None` after it was found corrupt and no new one could be begun.
    connection: Option<Connection>,
    aside: Option<PathBuf>,
}

impl SemanticStore {
    /// Opens a file, and makes it where there is none. A corrupt one is set aside: see [`SemanticStore::aside`].
    ///
    /// # Errors
    /// See [`SemanticStoreError`].
    pub fn open(path: &Path) -> Result<Self, SemanticStoreError> {
        let mut aside = None;
        let connection = match connect(path) {
            Err(SemanticStoreError::Sqlite(error)) if is_corrupt(&error) => {
                let name = set_aside(path, SystemTime::now()).map_err(SemanticStoreError::Io)?;
                aside = Some(name);
                connect(path)?
            }
            other => other?,
        };
        Ok(SemanticStore { path: Some(path.to_owned()), connection: Some(connection), aside })
    }

    /// One that is forgotten at the end.
    ///
    /// # Errors
    /// See [`SemanticStoreError`].
    pub fn in_memory() -> Result<Self, SemanticStoreError> {
        let connection = Some(prepared(Connection::open_in_memory()?)?);
        Ok(SemanticStore { path: None, connection, aside: None })
    }

    /// Where a corrupt file went, when this one was opened.
    pub fn aside(&self) -> Option<&Path> {
        self.aside.as_deref()
    }

    /// Asks the database. One that turns out to be corrupt is set aside, and a new one begun for the next wish.
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, SemanticStoreError> {
        if self.connection.is_none() {
            self.begin_anew()?;
        }
        let Some(connection) = &mut self.connection else { return Err(SemanticStoreError::Closed) };
        let error = match ask(connection) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if is_corrupt(&error) {
            self.connection = None;
        }
        Err(error.into())
    }

    fn begin_anew(&mut self) -> Result<(), SemanticStoreError> {
        let Some(path) = &self.path else { return Err(SemanticStoreError::Closed) };
        let aside = set_aside(path, SystemTime::now()).map_err(SemanticStoreError::Io)?;
        tracing::warn!(
            "the semantic cache's file was corrupt and is now {}; a new one is begun",
            aside.display()
        );
        self.connection = Some(connect(path)?);
        Ok(())
    }
}

fn connect(path: &Path) -> Result<Connection, SemanticStoreError> {
    make_private(path).map_err(SemanticStoreError::Io)?;
    let connection = prepared(Connection::open(path)?)?;
    let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if sound != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(code, Some(sound)).into());
    }
    Ok(connection)
}

fn prepared(connection: Connection) -> Result<Connection, SemanticStoreError> {
    connection.busy_timeout(BUSY)?;
    let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    // Before anything is written: another program's file stays as it is.
    let is_empty = ask("SELECT count(*) FROM sqlite_master")? == 0;
    let found = ask("PRAGMA user_version")?;
    if !is_empty && found == 0 {
        return Err(SemanticStoreError::NotOurs);
    }
    // What was erased is overwritten, so that it is gone from the file as well.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;
        PRAGMA temp_store = MEMORY;",
    )?;
    match found {
        0 => connection.execute_batch(&format!(
            "BEGIN IMMEDIATE;
            CREATE TABLE IF NOT EXISTS questions (
                id INTEGER PRIMARY KEY, scope BLOB NOT NULL, answer BLOB NOT NULL, question TEXT NOT NULL,
                vector BLOB NOT NULL, encoder TEXT NOT NULL, tenant TEXT NOT NULL, route TEXT NOT NULL,
                model TEXT NOT NULL, session TEXT, document TEXT, created INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS labels (
                id INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, tenant TEXT NOT NULL, route TEXT NOT NULL,
                model TEXT NOT NULL, session TEXT, document TEXT, similarity REAL NOT NULL, verdict TEXT NOT NULL,
                judge TEXT NOT NULL, served INTEGER NOT NULL, created INTEGER NOT NULL, stored_question TEXT NOT NULL,
                stored_answer TEXT NOT NULL, asked_question TEXT NOT NULL, asked_answer TEXT NOT NULL);
            PRAGMA user_version = {VERSION}; COMMIT;"
        ))?,
        1 => connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; DELETE FROM questions; PRAGMA user_version = {VERSION}; COMMIT;"
        ))?,
        VERSION => {}
        found => return Err(SemanticStoreError::Version { found }),
    }
    Ok(connection)
}

impl Keeper for SemanticStore {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    /// Those of another encoder are forgotten: their vectors can't be compared.
    fn questions(
        &mut self,
        encoder: &str,
    ) -> Result<Vec<(RowId, StoredQuestion)>, SemanticStoreError> {
        self.ask(|connection| {
            connection.execute("DELETE FROM questions WHERE encoder <> ?1", [encoder])?;
            let mut select = connection.prepare(
                "SELECT id, scope, answer, question, vector, tenant, route, model, session, document, created
                 FROM questions ORDER BY created, id",
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
            rows.collect()
        })
    }

    fn keep(
        &mut self,
        id: RowId,
        question: &StoredQuestion,
        encoder: &str,
        _erasures: u64,
    ) -> Result<(), SemanticStoreError> {
        let owner = &question.owner;
        self.ask(|connection| {
            connection.execute(
                "INSERT OR REPLACE INTO questions
                    (id, scope, answer, question, vector, encoder, tenant, route, model, session, document, created)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    id as i64,
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
            )
        })?;
        Ok(())
    }

    fn remove(&mut self, id: RowId) -> Result<(), SemanticStoreError> {
        self.ask(|connection| {
            connection.execute("DELETE FROM questions WHERE id = ?1", [id as i64])
        })?;
        Ok(())
    }

    fn label(&mut self, label: &Label, _erasures: u64) -> Result<(), SemanticStoreError> {
        let owner = &label.owner;
        self.ask(|connection| {
            connection.execute(
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
            )
        })?;
        Ok(())
    }

    fn known(&mut self) -> Result<Known, SemanticStoreError> {
        self.ask(|connection| {
            let mut select =
                connection.prepare("SELECT route, similarity, verdict FROM labels ORDER BY id")?;
            let rows = select.query_map([], |row| {
                let verdict = Verdict::read(&row.get::<_, String>(2)?);
                Ok((row.get(0)?, row.get::<_, f64>(1)? as f32, verdict.is_wrong()))
            })?;
            let labels = rows.collect::<Result<_, _>>()?;
            Ok(Known { labels, shared: None })
        })
    }

    fn unsettled(&mut self, limit: usize) -> Result<Vec<Shown>, SemanticStoreError> {
        self.ask(|connection| {
            let mut select = connection.prepare(
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
            rows.collect()
        })
    }

    fn settle(
        &mut self,
        id: i64,
        verdict: Verdict,
    ) -> Result<Option<(String, f32)>, SemanticStoreError> {
        self.ask(|connection| {
            connection
                .query_row(
                    "UPDATE labels SET verdict = ?2, judge = 'person' WHERE id = ?1 AND verdict = 'unsettled'
                     RETURNING route, similarity",
                    params![id, verdict.as_str()],
                    |row| Ok((row.get(0)?, row.get::<_, f64>(1)? as f32)),
                )
                .optional()
        })
    }

    fn purge(&mut self, filter: &Filter, now: u64) -> Result<usize, SemanticStoreError> {
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
        self.ask(|connection| {
            let both = connection.transaction()?;
            let delete = |table: &str| {
                let sql = format!("DELETE FROM {table} WHERE {matching}");
                both.execute(&sql, params_from_iter(values.iter()))
            };
            let gone = delete("questions")?;
            delete("labels")?;
            both.commit()?;
            // The log still holds what was there before; it is emptied as well.
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            Ok(gone)
        })
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use std::fs;
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[cfg(unix)]
    #[test]
    fn questions_are_their_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let _store = SemanticStore::open(&folder.path().join("new/semantic.sqlite")).unwrap();
        for file in fs::read_dir(folder.path().join("new")).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }

    fn asides(folder: &Path) -> usize {
        let files = fs::read_dir(folder).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().contains("corrupt")).count()
    }

    #[test]
    fn a_corrupt_file_is_set_aside_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("semantic.sqlite");
        fs::write(&path, "this is no database, and was one once ".repeat(200)).unwrap();
        let mut store = SemanticStore::open(&path).unwrap();
        assert!(store.aside().is_some_and(Path::exists));
        assert_eq!(store.known().unwrap(), Known::default());
        drop(store);
        assert!(SemanticStore::open(&path).unwrap().aside().is_none(), "the new one is sound");
        assert_eq!(asides(folder.path()), 1);
    }

    #[test]
    fn a_file_that_turns_corrupt_is_set_aside_and_a_new_one_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("semantic.sqlite");
        let mut store = SemanticStore::open(&path).unwrap();
        let question = |n: u8| StoredQuestion {
            scope: Key::from_bytes([n; 32]),
            answer: Key::from_bytes([n; 32]),
            question: "What is it? ".repeat(100),
            vector: vec![0.5; 384],
            owner: Owner::default(),
            created: 1,
        };
        for n in 0..100 {
            store.keep(question(n).id(), &question(n), "e", 0).unwrap();
        }
        // Into the file itself, and overwritten behind SQLite's back.
        store
            .ask(|connection| {
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            })
            .unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&vec![0xa5; usize::try_from(length).unwrap()]).unwrap();
        file.sync_all().unwrap();
        // What SQLite holds in memory may answer for a while.
        let failed = (0..20).any(|n| {
            store.ask(|connection| connection.execute_batch("PRAGMA shrink_memory")).unwrap_or(());
            store.keep(question(n).id(), &question(n), "e", 0).is_err() || store.known().is_err()
        });
        assert!(failed, "nobody noticed");
        store.keep(7, &question(7), "e", 0).unwrap();
        assert_eq!(store.questions("e").unwrap().len(), 1);
        assert_eq!(asides(folder.path()), 1);
    }

    #[test]
    fn another_programs_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.sqlite");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
        let error = SemanticStore::open(&path).unwrap_err();
        assert!(matches!(error, SemanticStoreError::NotOurs), "{error}");
        assert_eq!(asides(folder.path()), 0);
    }
}
