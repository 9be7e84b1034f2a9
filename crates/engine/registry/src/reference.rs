//! How a person names a model.

use std::path::PathBuf;
use std::str::FromStr;

use crate::catalogue::{self, PackagedModel};

/// A model, as a person names it.
#[derive(Debug, Clone)]
pub enum ModelRef {
    /// A name of the [`catalogue`].
    Named(&'static PackagedModel),
    /// A file of a model hub.
    Hub(HubFile),
    /// A file on this machine.
    Path(PathBuf),
}

/// A file of a model hub: `hf:OWNER/REPO:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubFile {
    /// `OWNER/REPO`.
    pub repo: String,
    /// The file's path inside the repository.
    pub file: String,
}

/// Why text names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// Not a name of the catalogue, and it doesn't look like a path.
    #[error("there is no model named '{name}'")]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The name that is nearest to it, if one is near.
        nearest: Option<&'static str>,
    },
    /// `hf:` with something else than `OWNER/REPO:FILE` behind it.
    #[error("'{0}' doesn't name a file of the hub")]
    BadHubFile(String),
}

impl ReferenceError {
    /// What the person can do about it.
    pub fn hint(&self) -> String {
        match self {
            ReferenceError::UnknownName { nearest: Some(nearest), .. } => {
                format!("did you mean '{nearest}'? A path needs a '/' or ends in '.gguf'")
            }
            ReferenceError::UnknownName { nearest: None, .. } => {
                let names: Vec<_> = catalogue::models().iter().map(|model| model.name).collect();
                format!(
                    "the names are {}; a path needs a '/' or ends in '.gguf'; a file of the hub is \
                     hf:OWNER/REPO:FILE",
                    names.join(", ")
                )
            }
            ReferenceError::BadHubFile(_) => {
                format!(
                    "write hf:OWNER/REPO:FILE, for example {}",
                    catalogue::SUGGESTIONS[0].reference
                )
            }
        }
    }
}

impl FromStr for ModelRef {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if let Some(rest) = text.strip_prefix("hf:") {
            return hub_file(rest)
                .map(ModelRef::Hub)
                .ok_or_else(|| ReferenceError::BadHubFile(text.to_owned()));
        }
        if let Some(model) = catalogue::find(text) {
            return Ok(ModelRef::Named(model));
        }
        let path = PathBuf::from(text);
        let looks_like_a_path = text.contains(std::path::MAIN_SEPARATOR)
            || text.contains('/')
            || text.ends_with(".gguf");
        if looks_like_a_path || path.exists() {
            return Ok(ModelRef::Path(path));
        }
        let nearest = catalogue::models()
            .iter()
            .map(|model| (strsim::jaro_winkler(text, model.name), model.name))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(likeness, _)| *likeness > 0.75)
            .map(|(_, name)| name);
        Err(ReferenceError::UnknownName { name: text.to_owned(), nearest })
    }
}

fn hub_file(text: &str) -> Option<HubFile> {
    let (repo, file) = text.split_once(':')?;
    let (owner, name) = repo.split_once('/')?;
    // The hub's names; anything else (a second '/', '..', a URL) would end up in a request's path.
    let is_name = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    let good = is_name(owner) && is_name(name) && file.split('/').all(is_name);
    good.then(|| HubFile { repo: repo.to_owned(), file: file.to_owned() })
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ModelRef::Named(model) => f.write_str(model.name),
            ModelRef::Hub(hub) => write!(f, "hf:{}:{}", hub.repo, hub.file),
            ModelRef::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn names_hub_files_and_paths() {
        assert!(
            matches!("gemma-3-270m".parse().unwrap(), ModelRef::Named(m) if m.name == "gemma-3-270m")
        );
        let ModelRef::Hub(hub) = "hf:a/b-GGUF:q4/x.gguf".parse().unwrap() else { unreachable!() };
        assert_eq!(hub, HubFile { repo: "a/b-GGUF".into(), file: "q4/x.gguf".into() });
        assert!(matches!("models/x.bin".parse().unwrap(), ModelRef::Path(_)));
        assert!(matches!("x.gguf".parse().unwrap(), ModelRef::Path(_)));
    }

    #[test]
    fn a_near_miss_is_named() {
        let error = "gemma-3-270".parse::<ModelRef>().unwrap_err();
        assert!(error.hint().contains("'gemma-3-270m'"), "{}", error.hint());
        let error = "llama".parse::<ModelRef>().unwrap_err();
        assert!(error.hint().contains("smollm2"), "{}", error.hint());
    }

    #[test]
    fn what_is_no_hub_file() {
        for text in [
            "hf:",
            "hf:a",
            "hf:a/b",
            "hf:a/b:",
            "hf:a/b/c:d",
            "hf:../b:c",
            "hf:a/b:../c",
            "hf:a/b:/c",
        ] {
            let error = text.parse::<ModelRef>().unwrap_err();
            assert_eq!(error, ReferenceError::BadHubFile(text.into()));
        }
    }
}
