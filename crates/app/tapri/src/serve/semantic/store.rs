//! Where questions and labels are kept.

use std::path::PathBuf;

use anyhow::{Context, Result};
use tapri_cache::semantic::store::PlaceError;
use tapri_cache::semantic::{Keeper, SemanticStore, SemanticStoreError};

use crate::config::Config;
use crate::config::sections::Secretive;
use crate::data;
use crate::failure::Failure;

pub(super) use tapri_cache::semantic::store::Place;

/// Where the configuration says, else a file in the data folder.
pub(super) fn place(config: &Config) -> Result<Place> {
    match &config.sections.semantic.store {
        Some(written) => {
            let address = written.read(config.folder());
            let address = address.context("the address in semantic.store can't be read")?;
            Place::read(&address).map_err(|error| refused(&error))
        }
        None => Ok(Place::File(data::folder()?.join("semantic.sqlite"))),
    }
}

pub(super) fn refused(error: &PlaceError) -> anyhow::Error {
    Failure::usage(format!("semantic.store: {error}"), error.hint()).into()
}

/// Whether this program can use the store that is configured. An address that is kept elsewhere may not be there where
/// a configuration is only checked.
pub(crate) fn check(config: &Config) -> Result<()> {
    let address = match &config.sections.semantic.store {
        Some(written @ Secretive::Plain(_)) => written.read(config.folder())?,
        Some(Secretive::Kept(secret)) => match secret.read(config.folder()) {
            Ok(address) => address,
            Err(_) => return Ok(()),
        },
        None => return Ok(()),
    };
    Place::read(&address).map(|_| ()).map_err(|error| refused(&error))
}

/// With what to do about it.
pub(super) fn failure(error: SemanticStoreError) -> anyhow::Error {
    let hint = match error {
        SemanticStoreError::Address(_) => "write postgres://USER@HOST:PORT/DATABASE",
        _ => {
            "check who may write there, or name another file: store = \"sqlite:FILE\" in [semantic]"
        }
    };
    Failure::new(error, Some(hint)).into()
}

#[cfg(feature = "postgres")]
pub(super) fn postgres(
    url: &str,
    timeout: Option<std::time::Duration>,
) -> Result<tapri_cache::semantic::store::postgres::Postgres> {
    use tapri_cache::semantic::store::postgres::{Postgres, PostgresConfig};
    let default = PostgresConfig::default();
    let config = PostgresConfig { timeout: timeout.unwrap_or(default.timeout), ..default };
    Postgres::new(url, config).map_err(failure)
}

/// The store at an address, or the file, for a person who waits.
pub(crate) fn opened(address: Option<&str>, file: Option<PathBuf>) -> Result<Box<dyn Keeper>> {
    let place = match (address, file) {
        (Some(address), _) => {
            Place::read(address).map_err(|error| Failure::usage(error.to_string(), error.hint()))?
        }
        (None, Some(file)) => Place::File(file),
        (None, None) => Place::File(data::folder()?.join("semantic.sqlite")),
    };
    match place {
        Place::File(path) => {
            if !path.exists() {
                let what = anyhow::anyhow!("there is no semantic cache at {}", path.display());
                let hint =
                    "'tapri serve --semantic shadow' makes one, or name it with --file or --store";
                return Err(Failure::new(what, Some(hint)).into());
            }
            Ok(Box::new(SemanticStore::open(&path).map_err(failure)?))
        }
        #[cfg(feature = "postgres")]
        Place::Postgres(url) => {
            Ok(Box::new(postgres(&url, Some(std::time::Duration::from_secs(10)))?))
        }
        #[cfg(not(feature = "postgres"))]
        Place::Postgres(_) => Err(refused(&PlaceError::NotBuilt)),
    }
}
