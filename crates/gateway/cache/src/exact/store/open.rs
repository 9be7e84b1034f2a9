//! A store by its URL.

use std::path::PathBuf;
use std::sync::Arc;

use super::Store;
use super::sqlite::{OpenError, Sqlite, SqliteConfig};

/// Why there is no store at a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// It names no kind of store.
    #[error("`{shown}` names no store")]
    Unknown {
        /// What came before the colon.
        shown: String,
    },
    /// This program was built without it.
    #[error("this Tapri was built without support for {0}")]
    NotBuilt(&'static str),
    /// It is no URL of its kind.
    #[error("the store's URL can't be read: {0}")]
    Url(String),
    /// The file can't be used.
    #[error(transparent)]
    Sqlite(#[from] OpenError),
}

impl OpenStoreError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            OpenStoreError::Unknown { .. } | OpenStoreError::Url(_) => {
                "write memory:, sqlite:FILE, redis://HOST:PORT/DATABASE or rediss://HOST:PORT/DATABASE (TLS)"
            }
            OpenStoreError::NotBuilt(_) => "build it with --features redis, or use sqlite:FILE",
            OpenStoreError::Sqlite(_) => {
                "check who may write there, or give another file: sqlite:FILE"
            }
        }
    }
}

/// A store that was opened.
#[derive(Debug)]
pub struct Opened {
    /// It; `None` for `memory:`, which needs none.
    pub store: Option<Arc<dyn Store>>,
    /// Where a corrupt file went.
    pub aside: Option<PathBuf>,
}

/// The store at a URL: `memory:`, `sqlite:FILE`, `redis://HOST:PORT/DATABASE`, `rediss://HOST:PORT/DATABASE?ca=FILE`. A Redis server need not be there yet.
///
/// # Errors
/// Where the URL names none, or the file can't be used.
pub fn open(url: &str, max_bytes: u64) -> Result<Opened, OpenStoreError> {
    let (kind, rest) = url.split_once(':').unwrap_or((url, ""));
    match kind {
        "memory" if rest.is_empty() => Ok(Opened { store: None, aside: None }),
        "sqlite" => {
            // Both `sqlite:FILE` and `sqlite:///FILE` are in use.
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path.is_empty() {
                return Err(OpenStoreError::Url("it names no file".to_owned()));
            }
            let sqlite = Sqlite::open(SqliteConfig { path: path.into(), max_bytes })?;
            let aside = sqlite.aside().map(PathBuf::from);
            Ok(Opened { store: Some(Arc::new(sqlite)), aside })
        }
        "redis" | "rediss" | "unix" | "redis+unix" => redis(url),
        other => Err(OpenStoreError::Unknown { shown: other.chars().take(32).collect() }),
    }
}

#[cfg(feature = "redis")]
fn redis(url: &str) -> Result<Opened, OpenStoreError> {
    let store =
        super::redis::Redis::new(url).map_err(|error| OpenStoreError::Url(error.to_string()))?;
    Ok(Opened { store: Some(Arc::new(store)), aside: None })
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str) -> Result<Opened, OpenStoreError> {
    Err(OpenStoreError::NotBuilt("Redis"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_what_is_not_built_in_says_so() {
        let opened = open("redis://127.0.0.1:6379/0", 0);
        if cfg!(feature = "redis") {
            // A server need not be there yet.
            assert!(opened.is_ok_and(|opened| opened.store.is_some()));
        } else {
            let error = opened.err();
            assert!(matches!(error, Some(OpenStoreError::NotBuilt("Redis"))), "{error:?}");
        }
        let error = OpenStoreError::NotBuilt("Redis");
        assert!(error.to_string().contains("Redis") && error.hint().contains("--features redis"));
        assert!(matches!(open("mysql://h/d", 0), Err(OpenStoreError::Unknown { .. })));
    }
}
