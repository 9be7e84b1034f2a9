//! A store by its address.

use std::path::PathBuf;

/// Where questions and labels are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of one process.
    File(PathBuf),
    /// A Postgres database that several share: its URL.
    Postgres(String),
}

/// Why an address names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It names no kind of store.
    #[error("`{shown}` names no store of questions")]
    Unknown {
        /// What came before the colon.
        shown: String,
    },
    /// This program was built without it.
    #[error("this Tapri was built without support for Postgres")]
    NotBuilt,
    /// It names no file.
    #[error("the address names no file")]
    NoFile,
}

impl PlaceError {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            PlaceError::Unknown { .. } | PlaceError::NoFile => {
                "write sqlite:FILE or postgres://USER@HOST:PORT/DATABASE"
            }
            PlaceError::NotBuilt => "build it with --features postgres, or use sqlite:FILE",
        }
    }
}

impl Place {
    /// Reads `sqlite:FILE` or `postgres://USER@HOST:PORT/DATABASE`.
    ///
    /// # Errors
    /// See [`PlaceError`].
    pub fn read(address: &str) -> Result<Self, PlaceError> {
        let (kind, rest) = address.split_once(':').unwrap_or((address, ""));
        match kind {
            "sqlite" => {
                // Both `sqlite:FILE` and `sqlite:///FILE` are in use.
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() { Err(PlaceError::NoFile) } else { Ok(Place::File(path.into())) }
            }
            "postgres" | "postgresql" if cfg!(feature = "postgres") => {
                Ok(Place::Postgres(address.to_owned()))
            }
            "postgres" | "postgresql" => Err(PlaceError::NotBuilt),
            other => Err(PlaceError::Unknown { shown: other.chars().take(32).collect() }),
        }
    }
}

/// Without an address, which may hold a password.
impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::File(path) => write!(f, "sqlite:{}", path.display()),
            Place::Postgres(_) => f.write_str("postgres://***"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let file = |name: &str| Ok(Place::File(name.into()));
        assert_eq!(Place::read("sqlite:a.sqlite"), file("a.sqlite"));
        assert_eq!(Place::read("sqlite:///var/a.sqlite"), file("/var/a.sqlite"));
        assert_eq!(Place::read("sqlite:"), Err(PlaceError::NoFile));
        let unknown = Place::read("redis://h");
        assert_eq!(unknown, Err(PlaceError::Unknown { shown: "redis".to_owned() }));
        let there = Place::read("postgres://u:secret@h/d");
        if cfg!(feature = "postgres") {
            assert_eq!(format!("{there:?}"), "Ok(postgres://***)");
        } else {
            assert_eq!(there, Err(PlaceError::NotBuilt));
            assert!(PlaceError::NotBuilt.hint().contains("--features postgres"));
        }
    }
}
