//! SQLite files that are broken: told from others, and set aside.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::ErrorCode;

use crate::exact::entry::millis;

/// Whether SQLite says that the file itself is broken.
pub(crate) fn is_corrupt(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Moves a file and its log to a name that says when it was found corrupt.
pub(crate) fn set_aside(path: &Path, now: SystemTime) -> io::Result<PathBuf> {
    let seconds = millis(now) / 1000;
    let name = (0..)
        .map(|n| beside(path, &format!(".corrupt-{}", seconds + n)))
        .find(|name| !name.exists())
        .unwrap_or_else(|| beside(path, ".corrupt"));
    // The log first: a new database beside an old log could read it.
    for ending in ["-wal", "-shm", ""] {
        match fs::rename(beside(path, ending), beside(&name, ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(name)
}
