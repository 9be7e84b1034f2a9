//! Tables of a TOML file with their lines, and everything that is wrong with them.
//!
//! A section is read by asking it for its keys. What was never asked for is not known, and the nearest key that was
//! asked for is what was probably meant: the code that reads a section is its list of keys.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

/// Something wrong with a configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) file: PathBuf,
    /// Counted from 1; `None` where a variable is to blame.
    pub(crate) line: Option<usize>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// `file:line: message`.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message)
    }
}

/// A value that was set, for `tapri config show`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// `server.port`, `route[0].exact.mode`.
    pub(crate) key: String,
    /// As it is written; `***` for secrets.
    pub(crate) value: String,
    /// Its line in the file, or the variable that sets it.
    pub(crate) source: Source,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The file.
    Line(usize),
    /// A variable.
    Variable(String),
}

/// A file in reading.
pub(crate) struct Reader<'t> {
    file: &'t Path,
    text: &'t str,
    found: RefCell<(Vec<Setting>, Vec<Problem>)>,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(file: &'t Path, text: &'t str) -> Self {
        Reader { file, text, found: RefCell::default() }
    }

    /// The whole file.
    pub(crate) fn root(&self) -> Result<Section<'_, 't>, Problem> {
        let table = DeTable::parse(self.text).map_err(|error| Problem {
            file: self.file.to_owned(),
            line: error.span().map(|span| self.line(span.start)),
            message: error.message().to_owned(),
            hint: Some("the file should be TOML: see https://toml.io".to_owned()),
        })?;
        Ok(Section::new(self, String::new(), Some(table.into_inner()), None))
    }

    /// What was set and what was wrong.
    pub(crate) fn into_parts(self) -> (Vec<Setting>, Vec<Problem>) {
        self.found.into_inner()
    }

    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    fn problem(&self, line: Option<usize>, message: String, hint: Option<String>) {
        let problem = Problem { file: self.file.to_owned(), line, message, hint };
        self.found.borrow_mut().1.push(problem);
    }

    fn setting(&self, setting: Setting) {
        self.found.borrow_mut().0.push(setting);
    }
}

/// What a value is written as: `"text"` or `text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// A string, or a variable's value.
    Text(String),
    /// A number.
    Number(String),
    /// `true` or `false`.
    Truth(bool),
}

impl Scalar {
    /// As it would be written on a command line.
    pub(crate) fn as_text(&self) -> &str {
        match self {
            Scalar::Text(text) | Scalar::Number(text) => text,
            Scalar::Truth(true) => "true",
            Scalar::Truth(false) => "false",
        }
    }
}

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) line: Option<usize>,
}

/// A table in reading.
pub(crate) struct Section<'r, 't> {
    reader: &'r Reader<'t>,
    path: String,
    table: DeTable<'t>,
    line: Option<usize>,
    /// Whether variables can set its keys: those of lists can't be named.
    variables: bool,
    asked: RefCell<Vec<&'static str>>,
}

impl<'r, 't> Section<'r, 't> {
    fn new(
        reader: &'r Reader<'t>,
        path: String,
        table: Option<DeTable<'t>>,
        line: Option<usize>,
    ) -> Self {
        let variables = !path.contains('[');
        let table = table.unwrap_or_default();
        Section { reader, path, table, line, variables, asked: RefCell::default() }
    }

    /// Where it begins.
    pub(crate) fn line(&self) -> Option<usize> {
        self.line
    }

    /// The whole name of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Says what is wrong with a key.
    pub(crate) fn wrong(&self, key: &str, line: Option<usize>, what: &str, hint: Option<String>) {
        self.reader.problem(line, format!("`{}`: {what}", self.path(key)), hint);
    }

    fn find(&self, key: &'static str) -> Option<(usize, &DeValue<'t>)> {
        self.asked.borrow_mut().push(key);
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((self.reader.line(name.span().start), value.get_ref()))
    }

    /// A string, a number or a truth: the variable's, else the file's.
    pub(crate) fn scalar(&self, key: &'static str) -> Option<At<Scalar>> {
        self.read(key, false, self.variables)
    }

    /// The same, of the file alone: where a flag has the key, the flag has its variable too.
    pub(crate) fn of_file(&self, key: &'static str, secret: bool) -> Option<At<Scalar>> {
        self.read(key, secret, false)
    }

    fn read(&self, key: &'static str, secret: bool, variables: bool) -> Option<At<Scalar>> {
        let found = self.find(key);
        let hide = |text: &str| if secret { "***".to_owned() } else { text.to_owned() };
        if let Some((variable, value)) = self.variable(key).filter(|_| variables) {
            let (key, source) = (self.path(key), Source::Variable(variable));
            self.reader.setting(Setting { key, value: hide(&value), source });
            return Some(At { value: Scalar::Text(value), line: None });
        }
        let (line, value) = found?;
        let value = match value {
            DeValue::String(text) => Scalar::Text(text.as_ref().to_owned()),
            DeValue::Integer(number) => Scalar::Number(number.to_string()),
            DeValue::Float(number) => Scalar::Number(number.to_string()),
            DeValue::Boolean(truth) => Scalar::Truth(*truth),
            other => {
                let what = format!("it should be one value, and is {}", kind(other));
                self.wrong(key, Some(line), &what, None);
                return None;
            }
        };
        let (key, source) = (self.path(key), Source::Line(line));
        self.reader.setting(Setting { key, value: hide(value.as_text()), source });
        Some(At { value, line: Some(line) })
    }

    fn variable(&self, key: &str) -> Option<(String, String)> {
        if self.path.is_empty() {
            return None;
        }
        let name = format!("TAPRI_{}", self.path(key).replace(['.', '-'], "_").to_uppercase());
        let value = std::env::var(&name).ok().filter(|value| !value.is_empty())?;
        Some((name, value))
    }

    /// A value that a parser takes; what it doesn't take is a problem.
    pub(crate) fn get<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.get_at(key, parse).map(|at| at.value)
    }

    /// The same with its line.
    pub(crate) fn get_at<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<At<T>> {
        let At { value, line } = self.scalar(key)?;
        match parse(value.as_text()) {
            Ok(value) => Some(At { value, line }),
            Err(what) => {
                self.wrong(key, line, &what, None);
                None
            }
        }
    }

    /// A value that isn't shown: `env:NAME` or `file:PATH`, so not secret itself, but who knows what is written there.
    pub(crate) fn secret<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let At { value, line } = self.read(key, true, self.variables)?;
        parse(value.as_text()).map_err(|what| self.wrong(key, line, &what, None)).ok()
    }

    /// A value, or the default where it isn't set.
    pub(crate) fn or<T>(
        &self,
        key: &'static str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        self.get(key, parse).unwrap_or(default)
    }

    /// A string that must be there.
    pub(crate) fn required(&self, key: &'static str) -> Option<At<String>> {
        let found = self.get_at(key, text);
        if found.is_none() && !self.table.keys().any(|name| name.get_ref() == key) {
            self.wrong(key, self.line, "it is missing", None);
        }
        found
    }

    /// A list of strings, each taken by a parser. `None` where it isn't set.
    pub(crate) fn list<T>(
        &self,
        key: &'static str,
        secret: bool,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<At<T>>> {
        let (line, value) = self.find(key)?;
        let DeValue::Array(array) = value else {
            let what = format!("it should be a list, and is {}", kind(value));
            let hint = format!("write {key} = [\"...\"]");
            self.wrong(key, Some(line), &what, Some(hint));
            return None;
        };
        let mut items = Vec::new();
        let mut shown = Vec::new();
        for item in array.iter() {
            let line = Some(self.reader.line(item.span().start));
            let DeValue::String(text) = item.get_ref() else {
                let what =
                    format!("its items should be strings, and one is {}", kind(item.get_ref()));
                self.wrong(key, line, &what, None);
                continue;
            };
            shown.push(if secret { "***".to_owned() } else { format!("\"{text}\"") });
            match parse(text) {
                Ok(value) => items.push(At { value, line }),
                Err(what) => self.wrong(key, line, &what, None),
            }
        }
        let (key, value) = (self.path(key), format!("[{}]", shown.join(", ")));
        self.reader.setting(Setting { key, value, source: Source::Line(line) });
        Some(items)
    }

    /// Every key with its string, for tables whose keys are names.
    pub(crate) fn names(&self) -> Vec<(String, At<String>)> {
        let mut names = Vec::new();
        for (name, value) in &self.table {
            let line = Some(self.reader.line(name.span().start));
            match value.get_ref() {
                DeValue::String(text) => {
                    let at = At { value: text.as_ref().to_owned(), line };
                    names.push((name.get_ref().as_ref().to_owned(), at));
                }
                other => {
                    let what = format!("it should be a string, and is {}", kind(other));
                    self.wrong(name.get_ref(), line, &what, None);
                }
            }
        }
        names
    }

    /// A table in it; an empty one where it isn't there.
    pub(crate) fn section(&self, key: &'static str) -> Section<'r, 't> {
        self.section_if(key)
            .unwrap_or_else(|| Section::new(self.reader, self.path(key), None, None))
    }

    /// A table in it.
    pub(crate) fn section_if(&self, key: &'static str) -> Option<Section<'r, 't>> {
        let (line, value) = self.find(key)?;
        match value {
            DeValue::Table(table) => {
                Some(Section::new(self.reader, self.path(key), Some(table.clone()), Some(line)))
            }
            other => {
                let what = format!("it should be a table, and is {}", kind(other));
                self.wrong(key, Some(line), &what, Some(format!("write [{}]", self.path(key))));
                None
            }
        }
    }

    /// A list of tables in it.
    pub(crate) fn sections(&self, key: &'static str) -> Vec<Section<'r, 't>> {
        let Some((line, value)) = self.find(key) else { return Vec::new() };
        let hint = || Some(format!("write [[{}]] before each", self.path(key)));
        let DeValue::Array(array) = value else {
            let what = format!("it should be a list of tables, and is {}", kind(value));
            self.wrong(key, Some(line), &what, hint());
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (at, item) in array.iter().enumerate() {
            let line = Some(self.reader.line(item.span().start));
            match item.get_ref() {
                DeValue::Table(table) => {
                    let path = format!("{}[{at}]", self.path(key));
                    sections.push(Section::new(self.reader, path, Some(table.clone()), line));
                }
                other => {
                    let what = format!("it should be a table, and is {}", kind(other));
                    self.wrong(key, line, &what, hint());
                }
            }
        }
        sections
    }

    /// Says which keys are not known. To be called when all that are have been asked for.
    pub(crate) fn end(&self) {
        let asked = self.asked.borrow();
        for name in self.table.keys() {
            let key = name.get_ref().as_ref();
            if asked.contains(&key) {
                continue;
            }
            let hint = match nearest(key, asked.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are {}", asked.join(", ")),
            };
            let line = Some(self.reader.line(name.span().start));
            self.wrong(key, line, "there is no such key", Some(hint));
        }
    }
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Any text but none.
pub(crate) fn text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// `true` or `false`.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("it should be true or false".to_owned()),
    }
}

/// One of several words.
pub(crate) fn word<T: Copy>(
    words: &'static [(&'static str, T)],
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let all: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            format!("{text:?} is none of {}", all.join(", "))
        })
    }
}

/// A number of a type.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no number that fits here"))
}
