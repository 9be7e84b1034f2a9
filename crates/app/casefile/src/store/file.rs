//! The file: opening it, its tables, and keeping it private.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

/// Written into the file's head: "tpcf".
const APPLICATION: i32 = 0x7470_6366;
const VERSION: i32 = 2;

/// How long a write waits for another process that writes at the same moment.
const BUSY: Duration = Duration::from_secs(2);

/// Version 1.
const SCHEMA: &str = "
CREATE TABLE cases (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, title TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    instructions TEXT, tools INTEGER NOT NULL DEFAULT 1, model TEXT, first_turn INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX cases_tenant ON cases (tenant, updated);
CREATE TABLE files (
    id TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES cases, position INTEGER NOT NULL, name TEXT NOT NULL,
    format TEXT NOT NULL, pages INTEGER, chars INTEGER NOT NULL, tokens INTEGER, section_tokens TEXT, chosen TEXT,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX files_case ON files (case_id, position);
CREATE TABLE turns (
    case_id TEXT NOT NULL REFERENCES cases, n INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
    state TEXT NOT NULL, asked INTEGER NOT NULL, figures TEXT, PRIMARY KEY (case_id, n)
) STRICT, WITHOUT ROWID;
";

/// What version 2 has more.
const SINCE_1: &str = "
ALTER TABLE cases ADD COLUMN search_first INTEGER NOT NULL DEFAULT 0;
CREATE TABLE sign_ins (
    name BLOB PRIMARY KEY, key BLOB NOT NULL, begun INTEGER NOT NULL, used INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Why a file can't be used. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It, or its folder, can't be read or written.
    #[error("the store of cases {} can't be opened", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is another program's database.
    #[error("{} is another program's database", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A later version of Tapri wrote it.
    #[error("the store of cases {} has version {found}, and this Tapri knows up to {VERSION}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
    },
    /// SQLite refuses.
    #[error("the store of cases {} can't be opened", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

pub(super) fn connect(path: &Path) -> Result<Connection, OpenError> {
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    make_private(path).map_err(io)?;
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    let mut connection = Connection::open(path).map_err(sqlite)?;
    connection.busy_timeout(BUSY).map_err(sqlite)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) =
        (pragma("application_id").map_err(sqlite)?, pragma("user_version").map_err(sqlite)?);
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(sqlite)?;
    match (application, version) {
        (0, 0) if tables == 0 => {}
        (APPLICATION, found) if found > VERSION => {
            return Err(OpenError::Newer { path: path.to_owned(), found });
        }
        (APPLICATION, _) => {}
        _ => return Err(OpenError::Foreign { path: path.to_owned() }),
    }
    let prepare = |connection: &mut Connection| {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // What is deleted is overwritten: a client's file must not be found in the disk's free pages.
        connection.pragma_update(None, "secure_delete", true)?;
        let transaction = connection.transaction()?;
        if tables == 0 {
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
        }
        if version < VERSION {
            transaction.execute_batch(SINCE_1)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        transaction
            .execute("UPDATE turns SET state = 'interrupted' WHERE state = 'running'", [])?;
        transaction.commit()
    };
    prepare(&mut connection).map_err(sqlite)?;
    Ok(connection)
}

/// Brings what is committed into the file and empties the log, where deleted text may still stand.
pub(super) fn empty_log(connection: &Connection) -> rusqlite::Result<()> {
    // It answers with a row, which says whether a reader was in the way; there is none but this connection.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// SQLite gives its log the rights of the file, so the file is made first.
#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &Path) -> io::Result<()> {
    Ok(())
}
