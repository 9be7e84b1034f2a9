//! Search over a folder of past judgments: BM25 over passages.
//!
//! Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with the customary
//! k1 = 1.2 and b = 0.75. Words decide, not meanings: lawyers search for terms and names, and no second model is needed.

mod words;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Document, DocumentError, sections};

/// How soon more of the same word counts for less.
const K1: f64 = 1.2;
/// How much a long passage is held against it.
const B: f64 = 0.75;

/// Files that are taken in; beyond them the folder is an archive, and wants a search engine.
const MOST_FILES: usize = 10_000;

/// Folders in folders.
const DEEPEST: usize = 8;

/// About as many characters as a passage has: short enough to be shown to a model several at a time.
const PASSAGE: usize = 1200;

/// Past judgments, ready to be searched.
#[derive(Debug)]
pub struct Judgments {
    passages: Vec<Passage>,
    /// Of each word, in which passages it stands, and how often.
    words: HashMap<String, Vec<(u32, u32)>>,
    average: f64,
    files: usize,
    skipped: Vec<(PathBuf, DocumentError)>,
}

#[derive(Debug)]
struct Passage {
    file: String,
    place: String,
    text: String,
    length: u32,
}

/// A passage that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The judgment: its path in the folder.
    pub file: String,
    /// Where in it: `page 12`, or `part 3` of a text without pages.
    pub place: String,
    /// The passage.
    pub text: String,
    /// How well it fits; only the order means anything.
    pub score: f64,
}

/// Why a folder gives no judgments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JudgmentsError {
    /// It can't be listed.
    #[error("the folder of judgments {} can't be read", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Too many files.
    #[error("the folder of judgments {} has more than {MOST_FILES} files", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing in it can be read.
    #[error("the folder of judgments {} has no PDF, DOCX, Markdown or text that can be read", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

impl Judgments {
    /// Takes in a folder and the folders in it. `read` gives a file's text; a file that gives none is left out, and
    /// [`Judgments::skipped`] says so.
    ///
    /// # Errors
    /// See [`JudgmentsError`].
    pub fn open(
        folder: &Path,
        mut read: impl FnMut(&Path) -> Result<Document, DocumentError>,
    ) -> Result<Self, JudgmentsError> {
        let mut paths = Vec::new();
        list(folder, folder, 0, &mut paths)?;
        // The same folder gives the same index, whatever order the disk has.
        paths.sort();
        let mut judgments = Judgments {
            passages: Vec::new(),
            words: HashMap::new(),
            average: 0.0,
            files: 0,
            skipped: Vec::new(),
        };
        for path in paths {
            match read(&path) {
                Ok(document) => {
                    let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy();
                    judgments.add(&name, document.text());
                }
                Err(error) => judgments.skipped.push((path, error)),
            }
        }
        if judgments.passages.is_empty() {
            return Err(JudgmentsError::Empty { path: folder.to_owned() });
        }
        let total: u64 = judgments.passages.iter().map(|passage| u64::from(passage.length)).sum();
        judgments.average = total as f64 / judgments.passages.len() as f64;
        Ok(judgments)
    }

    fn add(&mut self, file: &str, text: &str) {
        self.files += 1;
        let unit = if text.contains('\u{c}') { "page" } else { "part" };
        for (n, section) in (1..).zip(sections::sections(text)) {
            for passage in sections::pieces(section, PASSAGE) {
                self.add_passage(file, format!("{unit} {n}"), passage);
            }
        }
    }

    fn add_passage(&mut self, file: &str, place: String, text: &str) {
        let mut counts: HashMap<String, u32> = HashMap::new();
        let mut length = 0;
        for word in words::of(text) {
            length += 1;
            *counts.entry(word).or_default() += 1;
        }
        if length == 0 {
            return;
        }
        let Ok(at) = u32::try_from(self.passages.len()) else { return };
        for (word, count) in counts {
            self.words.entry(word).or_default().push((at, count));
        }
        let (file, text) = (file.to_owned(), text.trim().to_owned());
        self.passages.push(Passage { file, place, text, length });
    }

    /// Files that were taken in.
    pub fn files(&self) -> usize {
        self.files
    }

    /// Files that gave no text, and why.
    pub fn skipped(&self) -> &[(PathBuf, DocumentError)] {
        &self.skipped
    }

    /// The passages that fit a query best, best first. A query whose words stand nowhere finds nothing.
    pub fn search(&self, query: &str, most: usize) -> Vec<Found> {
        let mut asked: Vec<String> = words::of(query).collect();
        asked.sort();
        asked.dedup();
        let all = self.passages.len() as f64;
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for word in &asked {
            let Some(places) = self.words.get(word) else { continue };
            let with = places.len() as f64;
            // Never below zero, so that a word that stands in most passages does no harm (as in Lucene).
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (at, count) in places {
                let length = self.passages.get(*at as usize).map_or(0, |passage| passage.length);
                let count = f64::from(*count);
                let long = 1.0 - B + B * f64::from(length) / self.average.max(1.0);
                *scores.entry(*at).or_default() +=
                    rarity * count * (K1 + 1.0) / (count + K1 * long);
            }
        }
        let mut best: Vec<(u32, f64)> = scores.into_iter().collect();
        // Equal scores in the order of the folder.
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| Reverse(b.0).cmp(&Reverse(a.0))));
        best.into_iter()
            .take(most)
            .filter_map(|(at, score)| {
                let Passage { file, place, text, .. } = self.passages.get(at as usize)?;
                let (file, place, text) = (file.clone(), place.clone(), text.clone());
                Some(Found { file, place, text, score })
            })
            .collect()
    }
}

fn list(
    root: &Path,
    folder: &Path,
    depth: usize,
    paths: &mut Vec<PathBuf>,
) -> Result<(), JudgmentsError> {
    let io = |source| JudgmentsError::Io { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        // Links aren't followed: they could lead anywhere, and round in circles.
        let kind = entry.file_type().map_err(io)?;
        let path = entry.path();
        if kind.is_dir() && depth < DEEPEST {
            list(root, &path, depth + 1, paths)?;
        } else if kind.is_file() && is_readable(&path) {
            if paths.len() == MOST_FILES {
                return Err(JudgmentsError::TooMany { path: root.to_owned() });
            }
            paths.push(path);
        }
    }
    Ok(())
}

fn is_readable(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ["pdf", "docx", "md", "markdown", "txt", "text"]
        .iter()
        .any(|known| ending.as_deref().is_some_and(|ending| ending == *known))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_passage_with_the_rare_word_comes_first() {
        let folder = folder(&[
            ("a.txt", "The tenant paid the rent. The court heard the parties."),
            ("deep/b.md", "The right of easement passed with the land. The court heard it."),
            ("c.txt", "The court heard the parties at length about the rent and the rent."),
            ("d.png", "no judgment"),
            ("broken.txt", "\u{0}"),
        ]);
        fs::write(folder.path().join("broken.txt"), b"\xff\xfe").unwrap();
        let judgments = Judgments::open(folder.path(), Document::open).unwrap();
        assert_eq!((judgments.files(), judgments.skipped().len()), (3, 1));
        let files = |query: &str| -> Vec<String> {
            judgments.search(query, 2).into_iter().map(|found| found.file).collect()
        };
        assert_eq!(files("Which court spoke of EASEMENTS?")[0], "deep/b.md");
        assert_eq!(files("rent"), ["c.txt", "a.txt"], "more of it, in less text");
        assert_eq!(files("nothing like it"), Vec::<String>::new());
        assert_eq!(judgments.search("easement", 1)[0].place, "part 1");
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let folder = folder(&[("a.txt", "well roof"), ("b.txt", "roof roof garden wall")]);
        let judgments = Judgments::open(folder.path(), Document::open).unwrap();
        let found = judgments.search("roof", 5);
        // Two passages of 2 and 4 words, 3 on average; "roof" stands in both.
        let rarity = (1.0f64 + 0.5 / 2.5).ln();
        let score = |count: f64, length: f64| {
            rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 3.0))
        };
        assert_eq!(found[0].file, "b.txt");
        assert!((found[0].score - score(2.0, 4.0)).abs() < 1e-12);
        assert!((found[1].score - score(1.0, 2.0)).abs() < 1e-12);
    }

    #[test]
    fn folders_that_give_nothing() {
        let folder = folder(&[("a.png", "x")]);
        let open = |path: &Path| Judgments::open(path, Document::open).unwrap_err().to_string();
        assert!(open(folder.path()).contains("no PDF, DOCX"));
        assert!(open(&folder.path().join("missing")).contains("can't be read"));
    }
}
