//! The tables, and the steps from one version of them to the next.
//!
//! The version stands in SQLite's `user_version`, and `application_id` says that the file is a ledger. A version is
//! never edited: what changes is a new step, and a test holds a database of each earlier version to it.

use rusqlite::{Connection, TransactionBehavior};

/// "Tapr": tells a ledger from any other SQLite database.
pub(crate) const APPLICATION_ID: i32 = 0x5461_7072;

/// The version that this build reads and writes.
pub const VERSION: i32 = STEPS.len() as i32;

/// Step `n` leads from version `n` to `n + 1`.
const STEPS: [&str; 3] = [V1, V2, V3];

/// Times are microseconds since 1970, durations microseconds, money decimal text. `parts` is JSON:
/// `[[kind, path, characters, fingerprint], ...]` with the fingerprint as 16 hexadecimal digits. `trace` has 8 bytes for
/// each block, little-endian.
const V1: &str = "
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    route TEXT NOT NULL,
    model TEXT NOT NULL,
    upstream TEXT NOT NULL,
    conversation TEXT,
    ending TEXT NOT NULL,
    error TEXT,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    joined_tokens INTEGER,
    written_tokens INTEGER,
    answer_tokens INTEGER,
    ttft_us INTEGER,
    total_us INTEGER NOT NULL,
    exact_outcome TEXT,
    exact_reason TEXT,
    semantic_outcome TEXT,
    semantic_reason TEXT,
    prefix_outcome TEXT,
    prefix_reason TEXT,
    explanation TEXT,
    cost_paid TEXT,
    cost_without_cache TEXT,
    currency TEXT,
    price_list TEXT,
    price_date TEXT,
    parts TEXT NOT NULL,
    trace BLOB NOT NULL,
    text TEXT
) STRICT;
CREATE INDEX calls_at ON calls (at);
CREATE INDEX calls_id ON calls (id);
";

/// The reason gets a column of its own, so that calls are counted by it without reading JSON; and the calls of a
/// conversation, or the last ones of a tenant, are found without reading all.
const V2: &str = "
ALTER TABLE calls ADD COLUMN miss_reason TEXT;
UPDATE calls SET miss_reason = json_extract(explanation, '$.reason') WHERE explanation IS NOT NULL;
CREATE INDEX calls_conversation ON calls (conversation, at) WHERE conversation IS NOT NULL;
CREATE INDEX calls_tenant ON calls (tenant, at);
";

/// How much of what was cached came from disk; unknown of earlier calls.
const V3: &str = "
ALTER TABLE calls ADD COLUMN restored_tokens INTEGER;
";

/// The version of a database; 0 of an empty one.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings a database to a version, one step after the other, each whole or not at all.
pub(crate) fn migrate(connection: &mut Connection, to: i32) -> rusqlite::Result<()> {
    loop {
        // Immediate: of two processes that find an old version one waits, and then finds a new one.
        let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let from = version(&step)?;
        let Some(sql) =
            usize::try_from(from).ok().and_then(|at| STEPS.get(at)).filter(|_| from < to)
        else {
            return Ok(());
        };
        step.execute_batch(sql)?;
        step.pragma_update(None, "application_id", APPLICATION_ID)?;
        step.pragma_update(None, "user_version", from + 1)?;
        step.commit()?;
    }
}
