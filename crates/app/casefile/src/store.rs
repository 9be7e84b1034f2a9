//! Cases in an SQLite file, private to its owner; and the sign-ins of the pages that show them.
//!
//! What is deleted is gone from the file, not only from its tables: `secure_delete` overwrites it, and the log is
//! emptied. Every method blocks for a disk's time; a server calls them where that is allowed.

mod file;
mod files;
mod sign_ins;
mod turns;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

pub use self::file::OpenError;
pub use self::files::NewFile;
pub use self::sign_ins::SignIn;
use crate::{Case, CaseId};

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such case of this tenant.
    #[error("there is no such case")]
    NoCase,
    /// There is no such file in the case.
    #[error("there is no such file in this case")]
    NoFile,
    /// The case has a question that is being answered.
    #[error("a question of this case is being answered")]
    Busy,
    /// SQLite refuses.
    #[error("the store of cases can't be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The system has no randomness to give.
    #[error("no random name could be made: {0}")]
    Random(#[from] getrandom::Error),
}

/// The cases of a server.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
}

impl Store {
    /// Opens a file, or makes it. Answers that were being made when an earlier process ended are interrupted.
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was changed.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let connection = file::connect(path)?;
        Ok(Store { connection: Mutex::new(connection) })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a case.
    pub fn create(&self, tenant: &str, title: &str, now: Timestamp) -> Result<CaseId, StoreError> {
        let id = CaseId::random()?;
        self.connection().execute(
            "INSERT INTO cases (id, tenant, title, created, updated) VALUES (?1, ?2, ?3, ?4, ?4)",
            (id.as_str(), tenant, title, now.as_microsecond()),
        )?;
        Ok(id)
    }

    /// A tenant's cases, the last used first.
    pub fn list(&self, tenant: &str) -> Result<Vec<Case>, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM cases WHERE tenant = ?1 ORDER BY updated DESC, id LIMIT 200"
        ))?;
        let cases = query.query_map([tenant], case)?.collect::<Result<_, _>>()?;
        Ok(cases)
    }

    /// A case of a tenant. Another's is not there.
    pub fn case(&self, tenant: &str, id: &CaseId) -> Result<Case, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM cases WHERE tenant = ?1 AND id = ?2"
        ))?;
        query.query_row((tenant, id.as_str()), case).optional()?.ok_or(StoreError::NoCase)
    }

    /// Sets the instructions, and whether tools are offered. `None` for the layout's own instructions.
    pub fn instruct(
        &self,
        id: &CaseId,
        instructions: Option<&str>,
        tools: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.connection().execute(
            "UPDATE cases SET instructions = ?2, tools = ?3, updated = ?4 WHERE id = ?1",
            (id.as_str(), instructions, tools, now.as_microsecond()),
        )?;
        Ok(())
    }

    /// Sets whether the model searches before every answer.
    pub fn set_search_first(&self, id: &CaseId, search_first: bool) -> Result<(), StoreError> {
        self.connection().execute(
            "UPDATE cases SET search_first = ?2 WHERE id = ?1",
            (id.as_str(), search_first),
        )?;
        Ok(())
    }

    /// Sets the model that answers.
    pub fn set_model(&self, id: &CaseId, model: Option<&str>) -> Result<(), StoreError> {
        self.connection()
            .execute("UPDATE cases SET model = ?2 WHERE id = ?1", (id.as_str(), model))?;
        Ok(())
    }

    /// Deletes a case with all that belongs to it.
    pub fn delete(&self, id: &CaseId) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        for table in ["turns", "files"] {
            transaction
                .execute(&format!("DELETE FROM {table} WHERE case_id = ?1"), [id.as_str()])?;
        }
        transaction.execute("DELETE FROM cases WHERE id = ?1", [id.as_str()])?;
        transaction.commit()?;
        file::empty_log(&connection)?;
        Ok(())
    }
}

/// Notes that a case was used.
fn touch(connection: &Connection, id: &CaseId, now: Timestamp) -> rusqlite::Result<()> {
    let used = (id.as_str(), now.as_microsecond());
    connection.execute("UPDATE cases SET updated = ?2 WHERE id = ?1", used).map(drop)
}

const COLUMNS: &str =
    "id, tenant, title, created, updated, instructions, tools, model, first_turn, search_first";

fn case(row: &Row<'_>) -> rusqlite::Result<Case> {
    let id: String = row.get(0)?;
    Ok(Case {
        id: id.parse().map_err(|error| wrong(0, error))?,
        tenant: row.get(1)?,
        title: row.get(2)?,
        created: time(row, 3)?,
        updated: time(row, 4)?,
        instructions: row.get(5)?,
        tools: row.get(6)?,
        model: row.get(7)?,
        first_turn: row.get(8)?,
        search_first: row.get(9)?,
    })
}

fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(row.get(at)?).map_err(|error| wrong(at, error))
}

fn wrong(at: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, Box::new(error))
}
