//! Sign-ins of the pages, so that they outlive the server's process.
//!
//! Nothing here opens anything: a sign-in is kept under the SHA-256 of its cookie, with the SHA-256 of its key.

use std::fmt;

use jiff::Timestamp;
use rusqlite::Row;

use super::{Store, StoreError, time};

/// Who signed in, with which key, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SignIn {
    /// The SHA-256 of the cookie that names it.
    pub name: [u8; 32],
    /// The SHA-256 of the API key.
    pub key: [u8; 32],
    /// When it began.
    pub begun: Timestamp,
    /// When it was last used, as far as that was written.
    pub used: Timestamp,
}

/// As little as it takes to tell them apart.
impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:02x}{:02x}***", self.name[0], self.name[1]);
        f.debug_struct("SignIn")
            .field("name", &name)
            .field("begun", &self.begun)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Every sign-in that is kept, also those whose time is over: who asks knows how long they last.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn sign_ins(&self) -> Result<Vec<SignIn>, StoreError> {
        let connection = self.connection();
        let mut query = connection.prepare("SELECT name, key, begun, used FROM sign_ins")?;
        let found = query.query_map([], sign_in)?.collect::<Result<_, _>>()?;
        Ok(found)
    }

    /// Writes sign-ins, new or used again, and takes others away.
    ///
    /// # Errors
    /// Where the file can't be written. Nothing was changed then.
    pub fn keep_sign_ins(&self, kept: &[SignIn], gone: &[[u8; 32]]) -> Result<(), StoreError> {
        let mut connection = self.connection();
        let transaction = connection.transaction()?;
        for one in kept {
            transaction.execute(
                "INSERT INTO sign_ins (name, key, begun, used) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET used = excluded.used",
                (one.name, one.key, one.begun.as_microsecond(), one.used.as_microsecond()),
            )?;
        }
        for name in gone {
            transaction.execute("DELETE FROM sign_ins WHERE name = ?1", [name])?;
        }
        Ok(transaction.commit()?)
    }
}

fn sign_in(row: &Row<'_>) -> rusqlite::Result<SignIn> {
    Ok(SignIn { name: row.get(0)?, key: row.get(1)?, begun: time(row, 2)?, used: time(row, 3)? })
}
