//! The file: opening, checking, setting aside.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};

use super::super::{Filter, Put, StoreError};
use super::known::{Known, MOST, short};
use super::ops;
use crate::broken::{is_corrupt, set_aside};
use crate::exact::Key;
use crate::exact::entry::millis;
use crate::private::make_private;

/// How long a wish waits for another process that writes at the same moment.
const BUSY: Duration = Duration::from_millis(500);

/// How long after it was given another process may have stored an answer, in milliseconds: clocks differ, and a long
/// answer is stored at its end. What came later than that is a miss here until the file is opened again.
const LATE: u64 = 600_000;

/// Writes between two looks at what has expired.
const LOOK_EVERY: u64 = 256;

/// Why a file can't be used. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It, or its folder, can't be read or written.
    #[error("the cache {} can't be opened", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is another program's database.
    #[error("{} is another program's database", path.display())]
    NoCache {
        /// The file.
        path: PathBuf,
    },
    /// A later version of Tapri wrote it.
    #[error("the cache {} has version {found}, and this Tapri knows up to {}", path.display(), ops::VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
    },
    /// SQLite refuses.
    #[error("the cache {} can't be opened", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

/// An open file.
pub(super) struct File {
    path: PathBuf,
    /// `None` after it was found corrupt and no new one could be begun.
    connection: Option<Connection>,
    bytes: u64,
    max_bytes: u64,
    writes: u64,
    known: Arc<Known>,
    /// SQLite's count of what other processes changed, when the keys were last read.
    version: i64,
}

impl File {
    /// Opens or makes a file; a corrupt one is set aside, and its new name given.
    pub(super) fn open(
        path: &Path,
        max_bytes: u64,
        now: SystemTime,
        known: Arc<Known>,
    ) -> Result<(Self, Option<PathBuf>), OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let mut aside = None;
        let mut connection = match connect(path) {
            Err(OpenError::Sqlite { source, .. }) if is_corrupt(&source) => {
                aside = Some(set_aside(path, now).map_err(io)?);
                connect(path)?
            }
            other => other?,
        };
        let stats = ops::stats(&mut connection)
            .map_err(|source| OpenError::Sqlite { path: path.to_owned(), source })?;
        let (path, connection) = (path.to_owned(), Some(connection));
        let bytes = stats.bytes;
        let mut file = File { path, connection, bytes, max_bytes, writes: 0, known, version: 0 };
        // With more of them none would be remembered.
        if stats.entries <= MOST as u64 {
            file.read_keys(None);
        }
        Ok((file, aside))
    }

    /// Reads which keys there are: all, or those of answers given since. Where that fails, nothing is known of them.
    fn read_keys(&mut self, since: Option<u64>) {
        let read = self.ask(|connection| {
            let version = ops::data_version(connection)?;
            Ok((version, ops::keys(connection, since)?))
        });
        match (read, since) {
            (Ok((version, keys)), None) => {
                self.version = version;
                self.known.begin(keys);
            }
            (Ok((version, keys)), Some(_)) => {
                self.version = version;
                self.known.add(keys);
            }
            (Err(_), _) => self.known.forget(),
        }
    }

    /// The count of erasures. Asked about once a second, so that it is also when other processes' answers are found.
    pub(super) fn epoch(&mut self) -> Result<u64, StoreError> {
        let (epoch, version) =
            self.ask(|connection| Ok((ops::epoch(connection)?, ops::data_version(connection)?)))?;
        if version != self.version && self.known.is_known() {
            self.read_keys(Some(millis(SystemTime::now()).saturating_sub(LATE)));
        }
        Ok(epoch)
    }

    /// Asks the database. One that turns out to be corrupt is set aside, and a new one begun for the next wish.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if self.connection.is_none() {
            self.begin_anew()?;
        }
        let Some(connection) = &mut self.connection else { return Err(StoreError::Closed) };
        match ask(connection) {
            Ok(value) => Ok(value),
            Err(error) => {
                if is_corrupt(&error) {
                    self.connection = None;
                }
                Err(StoreError::Failed(error.to_string()))
            }
        }
    }

    fn begin_anew(&mut self) -> Result<(), StoreError> {
        let failed = |error: &dyn std::error::Error| StoreError::Failed(error.to_string());
        let aside = set_aside(&self.path, SystemTime::now()).map_err(|error| failed(&error))?;
        tracing::warn!(
            "the exact cache's file was corrupt and is now {}; a new one is begun",
            aside.display()
        );
        let mut connection = connect(&self.path).map_err(|error| failed(&error))?;
        self.version = ops::data_version(&mut connection).map_err(|error| failed(&error))?;
        self.connection = Some(connection);
        self.bytes = 0;
        Ok(())
    }

    pub(super) fn put(&mut self, put: &Put) -> Result<bool, StoreError> {
        // Before it is there: nobody is to be told that it isn't.
        self.known.add([short(put.key.as_bytes())]);
        let Some(more) = self.ask(|connection| ops::put(connection, put))? else {
            return Ok(false);
        };
        self.bytes = self.bytes.saturating_add_signed(more);
        self.writes += 1;
        if self.bytes > self.max_bytes || self.writes.is_multiple_of(LOOK_EVERY) {
            // A little more than needed, so that the next write doesn't need it again.
            let most = if self.bytes > self.max_bytes {
                self.max_bytes - self.max_bytes / 10
            } else {
                self.max_bytes
            };
            let now = millis(SystemTime::now());
            self.bytes = self.ask(|connection| {
                ops::make_room(connection, most, now)?;
                ops::stats(connection).map(|stats| stats.bytes)
            })?;
        }
        Ok(true)
    }

    pub(super) fn delete(&mut self, key: &Key) -> Result<(), StoreError> {
        self.ask(|connection| ops::delete(connection, key))
    }

    pub(super) fn purge(&mut self, filter: &Filter, now: u64) -> Result<u64, StoreError> {
        let erased = self.ask(|connection| {
            let erased = ops::purge(connection, filter, now)?;
            ops::fold(connection)?;
            Ok(erased)
        })?;
        self.bytes = self.ask(|connection| ops::stats(connection).map(|stats| stats.bytes))?;
        Ok(erased)
    }
}

fn connect(path: &Path) -> Result<Connection, OpenError> {
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    make_private(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
    connection.busy_timeout(BUSY).map_err(sqlite)?;
    let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(sqlite);
    let is_empty = ask("SELECT count(*) FROM sqlite_master")? == 0;
    if !is_empty && ask("PRAGMA application_id")? != ops::APPLICATION_ID {
        return Err(OpenError::NoCache { path: path.to_owned() });
    }
    let found = ask("PRAGMA user_version")?;
    if found > ops::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found });
    }
    if is_empty {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(sqlite)?;
    }
    connection.pragma_update(None, "journal_mode", "WAL").map_err(sqlite)?;
    connection.pragma_update(None, "synchronous", "NORMAL").map_err(sqlite)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20).map_err(sqlite)?;
    // What is erased is overwritten, not only forgotten.
    connection.pragma_update(None, "secure_delete", "ON").map_err(sqlite)?;
    // Copies of rows that a statement needs are nobody else's to read.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(sqlite)?;
    if is_empty {
        // Two processes may begin it at the same time: the second one finds it done.
        connection
            .execute_batch(&format!(
                "BEGIN EXCLUSIVE; {} PRAGMA application_id = {}; PRAGMA user_version = {}; COMMIT",
                ops::SCHEMA,
                ops::APPLICATION_ID,
                ops::VERSION
            ))
            .or_else(|error| {
                if !connection.is_autocommit() {
                    connection.execute_batch("ROLLBACK")?;
                }
                let version =
                    connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0))?;
                if version == ops::VERSION { Ok(()) } else { Err(error) }
            })
            .map_err(sqlite)?;
    }
    let sound: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sqlite)?;
    if sound != "ok" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(sqlite(rusqlite::Error::SqliteFailure(code, Some(sound))));
    }
    Ok(connection)
}
