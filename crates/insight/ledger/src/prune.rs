//! Keeping a ledger within its limits: the oldest records go.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use crate::row::micros;

/// Records that go in one transaction: another process that writes doesn't wait longer for it than for a batch.
const AT_ONCE: i64 = 500;

/// How large and how old a ledger may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the database; its log adds a few megabytes at most. When it is above, the oldest records go until a
    /// twentieth is free.
    pub bytes: u64,
    /// Records older than this go.
    pub age: Duration,
}

impl Default for Limits {
    /// 1 GiB and 90 days.
    fn default() -> Self {
        Limits { bytes: 1 << 30, age: Duration::from_secs(90 * 24 * 3600) }
    }
}

/// What one round of pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pruned {
    /// Records that went.
    pub(crate) records: u64,
    /// Whether more have to go.
    pub(crate) more: bool,
}

/// Lets a bounded number of the oldest records go.
pub(crate) fn prune(
    connection: &mut Connection,
    limits: &Limits,
    now: Timestamp,
) -> rusqlite::Result<Pruned> {
    let mut pruned = Pruned::default();
    if let Ok(oldest) = now.checked_sub(limits.age) {
        let old: Option<i64> = connection
            .query_row("SELECT min(at) FROM calls", [], |row| row.get(0))
            .optional()?
            .flatten();
        if old.is_some_and(|at| at < micros(oldest)) {
            let gone = connection.execute(
                "DELETE FROM calls WHERE seq IN (SELECT seq FROM calls WHERE at < ?1 ORDER BY at LIMIT ?2)",
                (micros(oldest), AT_ONCE),
            )?;
            pruned.records += gone as u64;
            pruned.more |= gone as i64 == AT_ONCE;
        }
    }
    let used = used(connection)?;
    if used > limits.bytes {
        let target = limits.bytes - limits.bytes / 20;
        let records: i64 = connection.query_row(
            "SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM calls",
            [],
            |row| row.get(0),
        )?;
        // As many as their share of the file says; the next round corrects it.
        let share = (used - target) as f64 / used as f64;
        let enough = ((records as f64 * share).ceil() as i64).clamp(1, AT_ONCE);
        let gone = connection.execute(
            "DELETE FROM calls WHERE seq IN (SELECT seq FROM calls ORDER BY at, seq LIMIT ?1)",
            [enough],
        )?;
        pruned.records += gone as u64;
        pruned.more |= gone > 0;
    }
    if pruned.records > 0 {
        give_back(connection)?;
    }
    Ok(pruned)
}

/// Bytes of the pages that hold something.
pub(crate) fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let ask = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, u64>(0));
    let pages = ask("PRAGMA page_count")?.saturating_sub(ask("PRAGMA freelist_count")?);
    Ok(pages * ask("PRAGMA page_size")?)
}

/// Gives free pages back to the disk.
fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("PRAGMA incremental_vacuum(4096)")?;
    let mut rows = statement.query([])?;
    // Each row that is asked for frees a page.
    while rows.next()?.is_some() {}
    Ok(())
}
