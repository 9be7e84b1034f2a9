//! The database file: opening, checking, setting aside, writing.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::{CallRecord, Secret, SecretError, row, schema};

/// How long a writer waits for another process that writes at the same moment.
pub(crate) const BUSY: Duration = Duration::from_secs(2);

/// Why a ledger can't be opened. The file is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is none.
    #[error("there is no ledger at {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It, or its folder, can't be read or written.
    #[error("the ledger {} can't be opened", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A later version of Tapri wrote it.
    #[error(
        "the ledger {} has version {found}, and this Tapri knows up to version {}",
        path.display(),
        schema::VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i32,
    },
    /// Something else.
    #[error("{} is no ledger: it is {what}", path.display())]
    NoLedger {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: &'static str,
    },
    /// SQLite refuses.
    #[error("the ledger {} can't be opened", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// Its secret is missing and can't be made.
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl OpenError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            OpenError::Missing { .. } => {
                "'tapri ask' and 'tapri serve' write one; --ledger or TAPRI_LEDGER says where it is"
            }
            OpenError::Newer { .. } => "use that later Tapri, or give another file with --ledger",
            OpenError::NoLedger { .. } => "give another file with --ledger",
            OpenError::Io { .. } | OpenError::Sqlite { .. } | OpenError::Secret(_) => {
                "check who may write there, or give another file with --ledger"
            }
        }
    }
}

/// `ledger.sqlite` and `-wal` make `ledger.sqlite-wal`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether SQLite says that the file itself is broken.
pub(crate) fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// What the first bytes of a file say, without opening it as a database.
pub(crate) enum Header {
    /// No file, or an empty one.
    Nothing,
    /// No database.
    Other,
    /// A database, maybe of another program.
    Database { application: i32, version: i32 },
}

impl Header {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(100);
        match File::open(path) {
            Ok(file) => file.take(100).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Header::Nothing),
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(Header::Nothing);
        }
        // SQLite's file format, section 1.3: the user version at byte 60, the application id at byte 68.
        let field = |at: usize| {
            let field = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(i32::from_be_bytes(field))
        };
        Ok(match (bytes.starts_with(b"SQLite format 3\0"), field(60), field(68)) {
            (true, Some(version), Some(application)) => Header::Database { application, version },
            _ => Header::Other,
        })
    }

    /// Refuses what is no ledger of this version or an earlier one. `Ok(false)` is a file that is no database.
    pub(crate) fn judge(&self, path: &Path) -> Result<bool, OpenError> {
        match *self {
            Header::Nothing => Ok(true),
            Header::Other => Ok(false),
            // A new ledger's first pages have no id while they are still in the log.
            Header::Database { application: 0, .. } => Ok(true),
            Header::Database { application: schema::APPLICATION_ID, version } => {
                if version > schema::VERSION {
                    return Err(OpenError::Newer { path: path.to_owned(), found: version });
                }
                Ok(true)
            }
            Header::Database { .. } => Err(OpenError::NoLedger {
                path: path.to_owned(),
                what: "another program's database",
            }),
        }
    }
}

/// Refuses, by what the database itself says, what [`Header::judge`] could not see in its first bytes.
pub(crate) fn judge(path: &Path, connection: &Connection) -> Result<i32, OpenError> {
    let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
    let version = schema::version(connection).map_err(sqlite)?;
    let ask = |sql| connection.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(sqlite);
    let empty = ask("SELECT count(*) FROM sqlite_master")? == 0;
    if !empty && ask("PRAGMA application_id")? != schema::APPLICATION_ID {
        return Err(OpenError::NoLedger {
            path: path.to_owned(),
            what: "another program's database",
        });
    }
    if version > schema::VERSION {
        return Err(OpenError::Newer { path: path.to_owned(), found: version });
    }
    Ok(version)
}

/// An open ledger that can be written.
pub(crate) struct Store {
    path: PathBuf,
    connection: Connection,
    file: Option<FileId>,
    insert: String,
}

/// Whether a file is read through at opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Every page: seconds for a gigabyte.
    Whole,
    /// Only what opening reads anyway: for a file that was checked before.
    Head,
}

/// A store, and where a corrupt one went for it.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) aside: Option<PathBuf>,
}

impl Store {
    /// Opens a ledger, makes one where there is none, and brings an older one to this version. A corrupt one is
    /// set aside under another name, and a new one is begun.
    pub(crate) fn open(path: &Path, now: Timestamp, check: Check) -> Result<Opened, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)
                .map_err(|source| OpenError::Io { path: folder.to_owned(), source })?;
        }
        let broken = match Header::of(path).map_err(io)?.judge(path)? {
            true => match Store::open_sound(path, check)? {
                Some(store) => return Ok(Opened { store, aside: None }),
                None => true,
            },
            false => Secret::path(path).exists(),
        };
        if !broken {
            // Without a secret beside it, it never was one: a wrong path is no reason to move a file.
            return Err(OpenError::NoLedger { path: path.to_owned(), what: "no database" });
        }
        let aside = set_aside(path, now).map_err(io)?;
        match Store::open_sound(path, check)? {
            Some(store) => Ok(Opened { store, aside: Some(aside) }),
            None => Err(io(io::Error::other("a new one is corrupt as well"))),
        }
    }

    /// `None` is a corrupt file.
    fn open_sound(path: &Path, check: Check) -> Result<Option<Self>, OpenError> {
        match Store::connect(path, check) {
            Err(OpenError::Sqlite { source, .. }) if is_corrupt(&source) => Ok(None),
            other => other,
        }
    }

    fn connect(path: &Path, check: Check) -> Result<Option<Self>, OpenError> {
        let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        make_private(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let mut connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
        connection.busy_timeout(BUSY).map_err(sqlite)?;
        // Until it is known to be ours and sound, closing it changes nothing.
        let leave = |connection: &Connection, on| {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on).map(|_| ())
        };
        leave(&connection, true).map_err(sqlite)?;
        if judge(path, &connection)? == 0 {
            // Only before the first table: pages of records that went can be given back to the disk.
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(sqlite)?;
        }
        connection.pragma_update(None, "journal_mode", "WAL").map_err(sqlite)?;
        // A crash of the process loses nothing that was committed, a crash of the machine at most the last commits;
        // neither corrupts (SQLite's documentation of WAL).
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(sqlite)?;
        connection.pragma_update(None, "journal_size_limit", 16 << 20).map_err(sqlite)?;
        // What was pruned is overwritten, not only forgotten.
        connection.pragma_update(None, "secure_delete", "ON").map_err(sqlite)?;
        schema::migrate(&mut connection, schema::VERSION).map_err(sqlite)?;
        if check == Check::Whole {
            let found: String = connection
                .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
                .map_err(sqlite)?;
            if found != "ok" {
                return Ok(None);
            }
        }
        leave(&connection, false).map_err(sqlite)?;
        let file = FileId::of(path);
        Ok(Some(Store { path: path.to_owned(), connection, file, insert: row::insert_sql() }))
    }

    /// Whether the path still leads to the file that is open.
    pub(crate) fn is_current(&self) -> bool {
        FileId::of(&self.path) == self.file
    }

    /// Writes records, all or none.
    pub(crate) fn write(&mut self, records: &[CallRecord]) -> rusqlite::Result<()> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut statement = transaction.prepare_cached(&self.insert)?;
            for record in records {
                row::insert(&mut statement, record)?;
            }
        }
        transaction.commit()
    }

    /// Takes the texts of a conversation out of the file and of its log: `secure_delete` overwrites them where they were.
    pub(crate) fn erase_texts(&self, tenant: &str, conversation: &str) -> rusqlite::Result<u64> {
        let changed = self.connection.execute(
            "UPDATE calls SET text = NULL,
                explanation = json_set(explanation, '$.new', json('null'), '$.old', json('null'))
             WHERE tenant = ?1 AND conversation = ?2",
            (tenant, conversation),
        )?;
        // The log holds pages as they were before.
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(changed as u64)
    }

    /// Closes it without folding its log back in.
    pub(crate) fn abandon(self) {
        // What fails here fails again at the next opening.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Makes an empty file that its owner alone can read, where there is none: it may come to hold prompts. SQLite gives
/// its log the same mode.
fn make_private(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Moves a ledger and its log to a name that says when it was found corrupt.
fn set_aside(path: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let stamp = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let name = (0..)
        .map(|n| match n {
            0 => beside(path, &format!(".corrupt-{stamp}")),
            n => beside(path, &format!(".corrupt-{stamp}-{n}")),
        })
        .find(|name| !name.exists())
        .unwrap_or_else(|| beside(path, ".corrupt"));
    // The log first: a log without its database is nothing, but a new database beside an old log could read it.
    for ending in ["-wal", "-shm", ""] {
        match fs::rename(beside(path, ending), beside(&name, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(name)
}

/// What tells a file from another one that has its name later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(path).ok()?;
        Some(FileId(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    fn of(_path: &Path) -> Option<Self> {
        // An open file can't be moved away there.
        None
    }
}
