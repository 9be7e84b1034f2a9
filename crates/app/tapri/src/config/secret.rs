//! Values that are kept elsewhere: `env:NAME` or `file:PATH`.
//!
//! A secret in the configuration itself would be in every copy, backup and diff of it, so that is refused.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// Where a secret is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    /// In a variable.
    Variable(String),
    /// In a file, whole but for white space around it.
    File(PathBuf),
}

impl Secret {
    /// Reads `env:NAME` or `file:PATH`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Secret::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Secret::File(PathBuf::from(path))),
            // What was written may be the secret, so it isn't said again.
            _ => Err("a secret is not written here: name where it is, as env:NAME or file:PATH"
                .to_owned()),
        }
    }

    /// The secret itself. Relative paths start from a folder.
    pub(crate) fn read(&self, folder: &Path) -> Result<String> {
        match self {
            Secret::Variable(name) => std::env::var(name)
                .ok()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| anyhow!("the variable {name} is not set")),
            Secret::File(path) => {
                let path = folder.join(path);
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("the secret {} can't be read", path.display()))?;
                Ok(text.trim().to_owned())
            }
        }
    }
}

/// Where it is, which is no secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Variable(name) => write!(f, "env:{name}"),
            Secret::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}
