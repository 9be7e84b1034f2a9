//! The files of a case.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row};

use super::{Store, StoreError, file, touch};
use crate::case::random_digits;
use crate::{CaseFile, CaseId, Document, Sections};

/// A file to be kept.
#[derive(Debug, Clone, Copy)]
pub struct NewFile<'a> {
    /// Its text and what is known of it.
    pub document: &'a Document,
    /// Tokens of each of its sections, where they were counted.
    pub tokens: Option<&'a [u64]>,
}

const COLUMNS: &str = "id, name, format, pages, chars, tokens, chosen";

impl Store {
    /// Adds a file behind those that are there.
    pub fn add_file(
        &self,
        case: &CaseId,
        new: NewFile<'_>,
        now: Timestamp,
    ) -> Result<String, StoreError> {
        let NewFile { document, tokens } = new;
        let id = random_digits()?;
        let total: Option<u64> = tokens.map(|tokens| tokens.iter().sum());
        let sections = tokens.map(|tokens| serde_json::json!(tokens).to_string());
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        transaction.execute(
            "INSERT INTO files (id, case_id, position, name, format, pages, chars, tokens, section_tokens, body)
             SELECT ?1, ?2, coalesce(max(position) + 1, 0), ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM files WHERE case_id = ?2",
            (
                &id,
                case.as_str(),
                document.name(),
                document.format().as_str(),
                document.pages().map(|pages| pages as u64),
                document.text().chars().count() as u64,
                total,
                sections,
                document.text(),
            ),
        )?;
        touch(&transaction, case, now)?;
        transaction.commit()?;
        Ok(id)
    }

    /// The files of a case, in their order.
    pub fn files(&self, case: &CaseId) -> Result<Vec<CaseFile>, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM files WHERE case_id = ?1 ORDER BY position"
        ))?;
        let files = query.query_map([case.as_str()], case_file)?.collect::<Result<_, _>>()?;
        Ok(files)
    }

    /// A file's whole text.
    pub fn text(&self, case: &CaseId, id: &str) -> Result<String, StoreError> {
        self.connection()
            .query_row(
                "SELECT body FROM files WHERE case_id = ?1 AND id = ?2",
                (case.as_str(), id),
                |row| row.get(0),
            )
            .optional()?
            .ok_or(StoreError::NoFile)
    }

    /// Tokens of each section of a file, where they were counted.
    pub fn section_tokens(&self, case: &CaseId, id: &str) -> Result<Option<Vec<u64>>, StoreError> {
        let kept: Option<String> = self
            .connection()
            .query_row(
                "SELECT section_tokens FROM files WHERE case_id = ?1 AND id = ?2",
                (case.as_str(), id),
                |row| row.get(0),
            )
            .optional()?
            .ok_or(StoreError::NoFile)?;
        Ok(kept.and_then(|kept| serde_json::from_str(&kept).ok()))
    }

    /// Sets which sections of a file the model reads; `None` for all of them.
    pub fn choose(
        &self,
        case: &CaseId,
        id: &str,
        chosen: Option<&Sections>,
    ) -> Result<(), StoreError> {
        let changed = self.connection().execute(
            "UPDATE files SET chosen = ?3 WHERE case_id = ?1 AND id = ?2",
            (case.as_str(), id, chosen.map(Sections::to_string)),
        )?;
        if changed == 0 { Err(StoreError::NoFile) } else { Ok(()) }
    }

    /// Deletes a file, and every question and answer of its case: they were made from it.
    pub fn delete_file(&self, case: &CaseId, id: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let gone = transaction
            .execute("DELETE FROM files WHERE case_id = ?1 AND id = ?2", (case.as_str(), id))?;
        if gone == 0 {
            return Err(StoreError::NoFile);
        }
        transaction.execute("DELETE FROM turns WHERE case_id = ?1", [case.as_str()])?;
        let left: Option<String> = transaction
            .query_row(
                "SELECT name FROM files WHERE case_id = ?1 ORDER BY position LIMIT 1",
                [case.as_str()],
                |row| row.get(0),
            )
            .optional()?;
        // A case was named after its first file; that name goes with it.
        transaction.execute(
            "UPDATE cases SET updated = ?2, first_turn = 0, title = ?3 WHERE id = ?1",
            (case.as_str(), now.as_microsecond(), left.unwrap_or_default()),
        )?;
        transaction.commit()?;
        file::empty_log(&connection)?;
        Ok(())
    }
}

fn case_file(row: &Row<'_>) -> rusqlite::Result<CaseFile> {
    let chosen: Option<String> = row.get(6)?;
    Ok(CaseFile {
        id: row.get(0)?,
        name: row.get(1)?,
        format: row.get(2)?,
        pages: row.get(3)?,
        chars: row.get(4)?,
        tokens: row.get(5)?,
        chosen: chosen.and_then(|chosen| chosen.parse().ok()),
    })
}
