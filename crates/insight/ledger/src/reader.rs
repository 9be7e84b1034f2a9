//! Reading a ledger, also while servers write to it.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params_from_iter};

use crate::query::{Cursor, Filter, Order};
use crate::store::{self, Header, OpenError};
use crate::{CallRecord, row, schema};

/// A ledger, open for reading.
pub struct Ledger {
    path: PathBuf,
    connection: Connection,
}

/// Why a query broke off.
#[derive(Debug, thiserror::Error)]
#[error("the ledger {} can't be read", path.display())]
pub struct QueryError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub source: rusqlite::Error,
}

impl QueryError {
    /// What a person can do about it, if anything is known to help.
    pub fn hint(&self) -> Option<&'static str> {
        store::is_corrupt(&self.source).then_some(
            "the file is damaged: the next 'tapri serve' or 'tapri ask' sets it aside and begins a new one",
        )
    }
}

/// What a query gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queried {
    /// Records that were given.
    pub records: u64,
    /// Rows that could not be understood and were left out.
    pub unreadable: u64,
}

/// Some calls, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// The calls.
    pub records: Vec<CallRecord>,
    /// For [`Filter::after`], where there are more.
    pub next: Option<Cursor>,
    /// Rows that could not be understood and were left out.
    pub unreadable: u64,
}

impl Page {
    /// How many calls a page has where nothing else is said.
    pub const SIZE: u64 = 50;
}

/// Names that calls have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Tenants.
    pub tenants: BTreeSet<String>,
    /// Routes.
    pub routes: BTreeSet<String>,
    /// Models.
    pub models: BTreeSet<String>,
    /// Reasons of explanations.
    pub reasons: BTreeSet<String>,
}

impl Names {
    /// How many of the newest calls are looked at: a bound on the work, some ten milliseconds.
    pub const CALLS: u64 = 20_000;
}

/// What an id's beginning leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// One call.
    One(Box<CallRecord>),
    /// Several, the newest first; not more than [`Found::SHOWN`].
    Several(Vec<CallRecord>),
}

impl Found {
    /// How many candidates are named.
    pub const SHOWN: u64 = 10;
}

impl Ledger {
    /// Opens a ledger for reading. An older version is brought to this one first.
    pub fn open_read(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let sqlite = |source| OpenError::Sqlite { path: path.to_owned(), source };
        let metadata = fs::metadata(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => OpenError::Missing { path: path.to_owned() },
            _ => io(source),
        })?;
        if metadata.is_dir() {
            return Err(OpenError::NoLedger { path: path.to_owned(), what: "a folder" });
        }
        if !Header::of(path).map_err(io)?.judge(path)? {
            return Err(OpenError::NoLedger { path: path.to_owned(), what: "no database" });
        }
        let mut connection = Ledger::connect(path).map_err(sqlite)?;
        if store::judge(path, &connection)? < schema::VERSION {
            drop(connection);
            let mut writing = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
                .map_err(sqlite)?;
            writing.busy_timeout(store::BUSY).map_err(sqlite)?;
            schema::migrate(&mut writing, schema::VERSION).map_err(sqlite)?;
            drop(writing);
            connection = Ledger::connect(path).map_err(sqlite)?;
        }
        Ok(Ledger { path: path.to_owned(), connection })
    }

    fn connect(path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(store::BUSY)?;
        match schema::version(&connection) {
            // A folder that can't be written has no room for the index of a log. Without a log nobody writes,
            // and the file can be read as it is.
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
                ) && fs::metadata(store::beside(path, "-wal")).map_or(0, |log| log.len())
                    == 0 =>
            {
                let uri = format!("file:{}?immutable=1", escaped(path));
                Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
            }
            _ => Ok(connection),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives every call that the filter wants, one after the other, until there is no more or `each` breaks off.
    /// All are from one moment: what is written meanwhile is not among them. Memory is that of one record.
    pub fn query(
        &self,
        filter: &Filter,
        mut each: impl FnMut(CallRecord) -> ControlFlow<()>,
    ) -> Result<Queried, QueryError> {
        let mut queried = Queried::default();
        self.rows(filter, |row| match row::read(row) {
            Ok(record) => {
                queried.records += 1;
                each(record)
            }
            Err(error) => {
                queried.unreadable += 1;
                tracing::debug!("a row of the ledger can't be read: {error}");
                ControlFlow::Continue(())
            }
        })?;
        Ok(queried)
    }

    fn rows(
        &self,
        filter: &Filter,
        mut each: impl FnMut(&Row<'_>) -> ControlFlow<()>,
    ) -> Result<(), QueryError> {
        let failed = |source| QueryError { path: self.path.clone(), source };
        let sql = filter.sql();
        let mut statement = self.connection.prepare(&sql.text).map_err(failed)?;
        let mut rows = statement.query(params_from_iter(sql.values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            if each(row).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The calls that the filter wants, in a list.
    pub fn records(&self, filter: &Filter) -> Result<Vec<CallRecord>, QueryError> {
        let mut records = Vec::new();
        self.query(filter, |record| {
            records.push(record);
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    /// A page of the calls that the filter wants, of [`Filter::limit`] calls or [`Page::SIZE`].
    pub fn page(&self, filter: &Filter) -> Result<Page, QueryError> {
        let size = filter.limit.unwrap_or(Page::SIZE);
        // One more tells whether there are more.
        let filter = Filter { limit: Some(size.saturating_add(1)), ..filter.clone() };
        let mut page = Page::default();
        let (mut last, mut rows) = (None, 0);
        self.rows(&filter, |row| {
            rows += 1;
            if rows > size {
                page.next = last;
                return ControlFlow::Break(());
            }
            last =
                Some(Cursor { at: row.get("at").unwrap_or(0), seq: row.get("seq").unwrap_or(0) });
            match row::read(row) {
                Ok(record) => page.records.push(record),
                Err(error) => {
                    page.unreadable += 1;
                    tracing::debug!("a row of the ledger can't be read: {error}");
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(page)
    }

    /// The names that the newest calls have, for someone who chooses among them; of one tenant's calls where one is
    /// named.
    pub fn names(&self, tenant: Option<&str>) -> Result<Names, QueryError> {
        let failed = |source| QueryError { path: self.path.clone(), source };
        let newest = format!(
            "SELECT tenant, route, model, miss_reason FROM calls WHERE ?1 IS NULL OR tenant = ?1 \
             ORDER BY at DESC LIMIT {}",
            Names::CALLS
        );
        let mut statement = self
            .connection
            .prepare(&format!("SELECT DISTINCT * FROM ({newest})"))
            .map_err(failed)?;
        let mut names = Names::default();
        let mut rows = statement.query([tenant]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let name = |at| row.get::<_, Option<String>>(at).map_err(failed);
            names.tenants.extend(name(0)?);
            names.routes.extend(name(1)?);
            names.models.extend(name(2)?.filter(|model| !model.is_empty()));
            names.reasons.extend(name(3)?);
        }
        Ok(names)
    }

    /// The call with an id, or with an id that begins so.
    pub fn find(&self, id: &str) -> Result<Found, QueryError> {
        let filter = Filter {
            id_prefix: Some(id.to_owned()),
            order: Order::NewestFirst,
            limit: Some(Found::SHOWN),
            ..Filter::default()
        };
        let mut found = self.records(&filter)?;
        if let Some(exact) = found.iter().position(|record| record.id == id) {
            return Ok(Found::One(Box::new(found.swap_remove(exact))));
        }
        Ok(match found.pop() {
            None => Found::Nothing,
            Some(one) if found.is_empty() => Found::One(Box::new(one)),
            Some(last) => {
                found.push(last);
                Found::Several(found)
            }
        })
    }
}

/// A path as SQLite's URIs want it.
fn escaped(path: &Path) -> String {
    let mut uri = String::new();
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'?' | b'#' | b'%' => uri.push_str(&format!("%{byte:02x}")),
            byte if byte.is_ascii() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    uri
}
