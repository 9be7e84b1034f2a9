//! The questions of a case.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction};

use super::{Store, StoreError, time, touch};
use crate::{CaseId, CaseTurn, Figures, TurnState};

const COLUMNS: &str = "n, question, answer, state, asked, figures";

impl Store {
    /// Begins a turn and gives its place. One question of a case runs at a time: a second one would not have the first
    /// one's answer before it.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another runs.
    pub fn ask(&self, case: &CaseId, question: &str, now: Timestamp) -> Result<u32, StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let n = begin(&transaction, case, question, now)?;
        transaction.commit()?;
        Ok(n)
    }

    /// Takes a turn out and asks its question anew, behind the others. Gives its new place and the question; `None`
    /// where there is no such turn.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another runs; then the turn stays.
    pub fn ask_again(
        &self,
        case: &CaseId,
        n: u32,
        now: Timestamp,
    ) -> Result<Option<(u32, String)>, StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        let question: Option<String> = transaction
            .query_row(
                "SELECT question FROM turns WHERE case_id = ?1 AND n = ?2",
                (case.as_str(), n),
                |row| row.get(0),
            )
            .optional()?;
        let Some(question) = question else { return Ok(None) };
        // One that runs stays, and is why the question can't begin.
        transaction.execute(
            "DELETE FROM turns WHERE case_id = ?1 AND n = ?2 AND state <> 'running'",
            (case.as_str(), n),
        )?;
        let n = begin(&transaction, case, &question, now)?;
        transaction.commit()?;
        Ok(Some((n, question)))
    }

    /// The turns of a case, oldest first.
    pub fn turns(&self, case: &CaseId) -> Result<Vec<CaseTurn>, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM turns WHERE case_id = ?1 ORDER BY n"
        ))?;
        let turns = query.query_map([case.as_str()], turn)?.collect::<Result<_, _>>()?;
        Ok(turns)
    }

    /// Keeps what of a running answer is there so far: a server that is killed leaves it behind.
    pub fn keep_partial(&self, case: &CaseId, n: u32, answer: &str) -> Result<(), StoreError> {
        self.connection().execute(
            "UPDATE turns SET answer = ?3 WHERE case_id = ?1 AND n = ?2 AND state = 'running'",
            (case.as_str(), n, answer),
        )?;
        Ok(())
    }

    /// Ends a turn. One whose case was deleted meanwhile stays gone.
    pub fn end_turn(
        &self,
        case: &CaseId,
        n: u32,
        answer: &str,
        state: TurnState,
        figures: &Figures,
    ) -> Result<(), StoreError> {
        let figures = serde_json::json!(figures).to_string();
        self.connection().execute(
            "UPDATE turns SET answer = ?3, state = ?4, figures = ?5 WHERE case_id = ?1 AND n = ?2",
            (case.as_str(), n, answer, state.as_str(), figures),
        )?;
        Ok(())
    }

    /// Turns before this one are no part of prompts any more.
    pub fn set_first_turn(&self, case: &CaseId, first: u32) -> Result<(), StoreError> {
        self.connection()
            .execute("UPDATE cases SET first_turn = ?2 WHERE id = ?1", (case.as_str(), first))?;
        Ok(())
    }
}

/// Begins a turn behind the others, if none runs.
fn begin(
    transaction: &Transaction<'_>,
    case: &CaseId,
    question: &str,
    now: Timestamp,
) -> Result<u32, StoreError> {
    let (next, running): (u32, u32) = transaction.query_row(
        "SELECT coalesce(max(n) + 1, 0), coalesce(sum(state = 'running'), 0) FROM turns WHERE case_id = ?1",
        [case.as_str()],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    if running > 0 {
        return Err(StoreError::Busy);
    }
    transaction.execute(
        "INSERT INTO turns (case_id, n, question, answer, state, asked) VALUES (?1, ?2, ?3, '', 'running', ?4)",
        (case.as_str(), next, question, now.as_microsecond()),
    )?;
    touch(transaction, case, now)?;
    Ok(next)
}

fn turn(row: &Row<'_>) -> rusqlite::Result<CaseTurn> {
    let state: String = row.get(3)?;
    let figures: Option<String> = row.get(5)?;
    Ok(CaseTurn {
        n: row.get(0)?,
        question: row.get(1)?,
        answer: row.get(2)?,
        state: TurnState::of(&state),
        asked: time(row, 4)?,
        // Figures that a later version wrote and this one can't read are unknown.
        figures: figures.and_then(|figures| serde_json::from_str(&figures).ok()),
    })
}
