//! `tapri.toml`: one way to say everything that `tapri serve` can be told.
//!
//! A value comes from, in this order: a flag, its `TAPRI_*` variable, `tapri.toml`, the default. Keys that have a flag
//! become the flag's default ([`flags`]), so that there is one rule for which value holds. Keys without one can be set
//! by `TAPRI_SECTION_KEY`. A key that isn't known is an error with its file, its line and the nearest key there is, and
//! all errors of a file are said at once.
//!
//! Map: [`reader`] tables with their lines, and what is wrong with them; [`sections`] what can be written; [`flags`]
//! the keys that are flags too; [`secret`] values that are kept elsewhere; [`access`] tenants, keys and scopes for the
//! server; [`command`] `tapri config`.

pub(crate) mod access;
pub(crate) mod command;
pub(crate) mod flags;
pub(crate) mod reader;
pub(crate) mod secret;
pub(crate) mod sections;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::failure::Failure;
use reader::{Problem, Reader};
use sections::Sections;

/// The variable that names the file.
pub(crate) const FILE_VARIABLE: &str = "TAPRI_CONFIG";

/// The file that is read where none is named, if it is there.
pub(crate) const FILE: &str = "tapri.toml";

/// A configuration that was read.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Its file; `None` where there is none, and everything is a default.
    pub(crate) file: Option<PathBuf>,
    pub(crate) sections: Sections,
    /// Values for flags: the flag's name in the program, the value and its line.
    pub(crate) flags: Vec<flags::Given>,
    /// Every value that the file or the environment sets, in the file's order.
    pub(crate) settings: Vec<reader::Setting>,
}

impl Config {
    /// The file to read: the one that is named, else `tapri.toml` in the current folder where it is there.
    pub(crate) fn file(named: Option<&Path>) -> Option<PathBuf> {
        let named = named.map(Path::to_owned).or_else(|| {
            std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
        });
        named.or_else(|| Some(PathBuf::from(FILE)).filter(|file| file.exists()))
    }

    /// Reads a file; without one, the environment alone.
    pub(crate) fn load(file: Option<PathBuf>) -> Result<Self> {
        let text = match &file {
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                let hint = format!("name another with --config, or unset {FILE_VARIABLE}");
                let what = anyhow!("the configuration {} can't be read: {error}", path.display());
                Failure::new(what, Some(hint)).with_code(2)
            })?,
            None => String::new(),
        };
        Config::parse(file, &text).map_err(|problems| wrong(&problems).into())
    }

    /// Reads a text. Every problem that is found comes back.
    pub(crate) fn parse(file: Option<PathBuf>, text: &str) -> Result<Self, Vec<Problem>> {
        let shown = file.clone().unwrap_or_else(|| PathBuf::from(FILE));
        let reader = Reader::new(&shown, text);
        let root = match reader.root() {
            Ok(root) => root,
            Err(problem) => return Err(vec![problem]),
        };
        let mut flags = Vec::new();
        let sections = sections::read(&root, &mut flags);
        root.end();
        let (settings, mut problems) = reader.into_parts();
        problems.sort_by_key(|problem| problem.line);
        if problems.is_empty() {
            Ok(Config { file, sections, flags, settings })
        } else {
            Err(problems)
        }
    }

    /// The folder that paths in the file start from.
    pub(crate) fn folder(&self) -> &Path {
        self.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""))
    }
}

/// All that is wrong, as one error.
fn wrong(problems: &[Problem]) -> Failure {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let hint = match problems {
        [one] => {
            one.hint.clone().unwrap_or_else(|| "'tapri config check' checks a file".to_owned())
        }
        _ => "'tapri config check' says what to do about each".to_owned(),
    };
    Failure::usage(lines.join("\nerror: "), hint)
}

#[cfg(test)]
mod tests;
