//! The tables, and what is asked of them.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::super::{Filter, Found, Put, StoreStats};
use super::known::short;
use crate::exact::Key;

/// `TPRX`, in the file's header: whose it is.
pub(super) const APPLICATION_ID: i32 = 0x5450_5258;

/// The version of the tables.
pub(super) const VERSION: i32 = 1;

/// The tables. Bodies are in a table of their own, so that a search by tags doesn't read them.
pub(super) const SCHEMA: &str = "
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL,
        slot INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        route TEXT NOT NULL,
        model TEXT NOT NULL,
        document TEXT,
        created INTEGER NOT NULL,
        expires INTEGER,
        bytes INTEGER NOT NULL,
        UNIQUE (key, slot)
    );
    CREATE INDEX entries_created ON entries (created);
    CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE sessions (
        session TEXT NOT NULL,
        key BLOB NOT NULL,
        PRIMARY KEY (session, key)
    ) WITHOUT ROWID;
    CREATE INDEX sessions_key ON sessions (key);
    CREATE TABLE erasures (count INTEGER NOT NULL);
    INSERT INTO erasures VALUES (0);
";

/// What an answer takes besides its body.
const OVERHEAD: u64 = 256;

pub(super) fn epoch(connection: &mut Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT count FROM erasures")?;
    statement.query_row([], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

/// Changes whenever another connection has changed the file.
pub(super) fn data_version(connection: &mut Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// The first parts of the keys of all answers, or of those given since (in milliseconds since 1970).
pub(super) fn keys(
    connection: &mut Connection,
    since: Option<u64>,
) -> rusqlite::Result<HashSet<u64>> {
    let since = since.map_or(i64::MIN, |since| since as i64);
    let mut statement = connection.prepare_cached("SELECT key FROM entries WHERE created >= ?1")?;
    statement.query_map([since], |row| Ok(short(&row.get::<_, [u8; 32]>(0)?)))?.collect()
}

pub(super) fn get(connection: &mut Connection, key: &Key) -> rusqlite::Result<Found> {
    let transaction = connection.transaction()?;
    let epoch = {
        let mut statement = transaction.prepare_cached("SELECT count FROM erasures")?;
        statement.query_row([], |row| row.get::<_, i64>(0))? as u64
    };
    let entries = {
        let mut statement = transaction.prepare_cached(
            "SELECT slot, body FROM entries JOIN bodies USING (id) WHERE key = ?1 ORDER BY slot",
        )?;
        let rows = statement.query_map([&key.as_bytes()[..]], |row| {
            Ok((row.get::<_, i64>(0)? as usize, row.get(1)?))
        })?;
        rows.collect::<rusqlite::Result<_>>()?
    };
    Ok(Found { epoch, entries })
}

/// Keeps an answer; how many bytes there are more, or `None` where something was erased since its call began.
pub(super) fn put(connection: &mut Connection, put: &Put) -> rusqlite::Result<Option<i64>> {
    let Put { key, slot, bytes, tags, created, expires, epoch } = put;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now: i64 = transaction.query_row("SELECT count FROM erasures", [], |row| row.get(0))?;
    if now as u64 != *epoch {
        return Ok(None);
    }
    let key = &key.as_bytes()[..];
    let old: Option<(i64, i64)> = transaction
        .query_row(
            "SELECT id, bytes FROM entries WHERE key = ?1 AND slot = ?2",
            params![key, *slot as i64],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    if let Some((id, _)) = old {
        transaction.execute("DELETE FROM entries WHERE id = ?1", [id])?;
        transaction.execute("DELETE FROM bodies WHERE id = ?1", [id])?;
    }
    let size = (bytes.len() as u64 + OVERHEAD) as i64;
    transaction.execute(
        "INSERT INTO entries (key, slot, tenant, route, model, document, created, expires, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            key,
            *slot as i64,
            tags.tenant,
            tags.route,
            tags.model,
            tags.document,
            *created as i64,
            expires.map(|at| at as i64),
            size,
        ],
    )?;
    let id = transaction.last_insert_rowid();
    transaction.execute("INSERT INTO bodies VALUES (?1, ?2)", params![id, &bytes[..]])?;
    for session in &tags.sessions {
        transaction
            .execute("INSERT OR IGNORE INTO sessions VALUES (?1, ?2)", params![session, key])?;
    }
    transaction.commit()?;
    Ok(Some(size - old.map_or(0, |(_, bytes)| bytes)))
}

pub(super) fn tag(connection: &mut Connection, key: &Key, session: &str) -> rusqlite::Result<()> {
    let key = &key.as_bytes()[..];
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO sessions
             SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM entries WHERE key = ?2)",
        )?
        .execute(params![session, key])
        .map(drop)
}

pub(super) fn stats(connection: &mut Connection) -> rusqlite::Result<StoreStats> {
    let sums = "SELECT count(*), coalesce(sum(bytes), 0), min(created) FROM entries";
    connection.query_row(sums, [], |row| {
        Ok(StoreStats {
            entries: row.get::<_, i64>(0)? as u64,
            bytes: row.get::<_, i64>(1)? as u64,
            oldest: row.get::<_, Option<i64>>(2)?.map(|at| at as u64),
        })
    })
}

pub(super) fn delete(connection: &mut Connection, key: &Key) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")?;
    transaction
        .execute("INSERT INTO gone SELECT id FROM entries WHERE key = ?1", [&key.as_bytes()[..]])?;
    drop_gone(&transaction)?;
    transaction.commit()
}

/// Erases what a filter matches, and counts up the erasures whether or not anything did.
pub(super) fn purge(
    connection: &mut Connection,
    filter: &Filter,
    now: u64,
) -> rusqlite::Result<u64> {
    let Filter { tenant, route, model, session, document, older_than: _ } = filter;
    let before = filter.before(now).map(|before| before as i64);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("UPDATE erasures SET count = count + 1", [])?;
    transaction.execute_batch("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")?;
    let erased = transaction.execute(
        "INSERT INTO gone SELECT id FROM entries
         WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR route = ?2)
           AND (?3 IS NULL OR model = ?3) AND (?4 IS NULL OR document = ?4)
           AND (?5 IS NULL OR created < ?5)
           AND (?6 IS NULL OR key IN (SELECT key FROM sessions WHERE session = ?6))",
        params![tenant, route, model, document, before, session],
    )?;
    drop_gone(&transaction)?;
    transaction.commit()?;
    Ok(erased as u64)
}

/// Makes room: what has expired goes, then the oldest until so many bytes are left.
pub(super) fn make_room(connection: &mut Connection, most: u64, now: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch("CREATE TEMP TABLE IF NOT EXISTS gone (id INTEGER PRIMARY KEY)")?;
    transaction
        .execute("INSERT INTO gone SELECT id FROM entries WHERE expires <= ?1", [now as i64])?;
    drop_gone(&transaction)?;
    transaction.execute(
        "INSERT INTO gone SELECT id FROM
         (SELECT id, sum(bytes) OVER (ORDER BY created DESC, id DESC) AS newer FROM entries)
         WHERE newer > ?1",
        [most as i64],
    )?;
    drop_gone(&transaction)?;
    transaction.commit()
}

fn drop_gone(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "DELETE FROM bodies WHERE id IN (SELECT id FROM gone);
         DELETE FROM entries WHERE id IN (SELECT id FROM gone);
         DELETE FROM sessions WHERE key NOT IN (SELECT key FROM entries);
         DELETE FROM gone;",
    )
}

/// Overwrites what was erased everywhere: the log is folded into the file and emptied, free pages go back to the disk.
pub(super) fn fold(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA incremental_vacuum")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
