//! Files to text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{docx, normal, pdf};

/// Kinds of files that aren't read, as their errors name them.
pub(crate) const KINDS: [&str; 3] = [
    "a ZIP archive or another office document",
    "a Word document of before 2007 (DOC)",
    "a picture",
];

/// A document's text, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    name: String,
    format: Format,
    pages: Option<usize>,
    text: String,
}

/// What a file was read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// PDF, page by page.
    Pdf,
    /// Word's format since 2007.
    Docx,
    /// Markdown, as it is written.
    Markdown,
    /// Plain text.
    Text,
}

impl Format {
    /// Its name, as it is kept.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Pdf => "pdf",
            Format::Docx => "docx",
            Format::Markdown => "markdown",
            Format::Text => "text",
        }
    }

    /// By its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        [Format::Pdf, Format::Docx, Format::Markdown, Format::Text]
            .into_iter()
            .find(|format| format.as_str() == name)
    }
}

/// Why a file gave no text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// No such file.
    #[error("there is no file at {0}")]
    Missing(PathBuf),
    /// A folder.
    #[error("{0} is a folder, not a document")]
    Folder(PathBuf),
    /// It can't be read.
    #[error("failed to read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing in it but white space.
    #[error("{name} is empty")]
    Empty {
        /// The document.
        name: String,
    },
    /// Text in another encoding, or no text.
    #[error("{name} is not UTF-8 text: byte {offset} is not part of a character")]
    NotUtf8 {
        /// The document.
        name: String,
        /// Where the first wrong byte is, from 0.
        offset: usize,
    },
    /// A kind of file that isn't read.
    #[error("{name} is {kind}, which is not read yet")]
    Unsupported {
        /// The document.
        name: String,
        /// What it looks like.
        kind: &'static str,
    },
    /// A PDF that needs a password.
    #[error("{name} is encrypted and needs a password")]
    Encrypted {
        /// The document.
        name: String,
    },
    /// A PDF of pictures.
    #[error("{name} has {pages} pages and no text: it is scanned")]
    Scanned {
        /// The document.
        name: String,
        /// How many pages it has.
        pages: usize,
    },
    /// A PDF that can't be parsed.
    #[error("{name} is a broken PDF: {detail}")]
    BrokenPdf {
        /// The document.
        name: String,
        /// What the parser said.
        detail: String,
    },
    /// A Word document that can't be parsed.
    #[error("{name} is a broken Word document: {detail}")]
    BrokenDocx {
        /// The document.
        name: String,
        /// What the parser said.
        detail: String,
    },
    /// An archive that unpacks to far more than it should.
    #[error("{name} unpacks to far more than a document holds, so it was not opened")]
    Bomb {
        /// The document.
        name: String,
    },
    /// A file that took more memory or time than its reader may have.
    #[error(
        "{name} took more memory or time than reading a document should, so its reader was ended"
    )]
    Costly {
        /// The document.
        name: String,
    },
    /// A page that can't be read; the document would be incomplete without it.
    #[error("page {page} of {name} could not be read: {detail}")]
    BrokenPage {
        /// The document.
        name: String,
        /// The page, from 1.
        page: u32,
        /// What the parser said.
        detail: String,
    },
}

/// PNG, JPEG, TIFF: what scanners write.
fn is_picture(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"\x89PNG", b"\xff\xd8\xff", b"II*\0", b"MM\0*"];
    starts.iter().any(|start| bytes.starts_with(start))
}

impl DocumentError {
    /// What the person can do about it, if anything is known to help.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            DocumentError::Encrypted { .. } => {
                "save a copy without a password, for example: qpdf --decrypt IN OUT"
            }
            DocumentError::Scanned { .. } => "it needs OCR first, for example: ocrmypdf IN OUT",
            DocumentError::BrokenPdf { .. } | DocumentError::BrokenPage { .. } => {
                "a PDF reader may repair it: open it and print it to a new PDF, or save its text"
            }
            DocumentError::BrokenDocx { .. } => {
                "open it in a word processor and save it again, or save it as PDF"
            }
            DocumentError::Bomb { .. } | DocumentError::Costly { .. } => {
                "if you trust it, open it in its own program and save it again, as PDF or text, or divide it"
            }
            DocumentError::NotUtf8 { .. } => {
                "convert it, for example: iconv -f WINDOWS-1252 -t UTF-8 IN > OUT"
            }
            DocumentError::Unsupported { kind: "a picture", .. } => {
                "it needs OCR first: put it into a PDF, then for example: ocrmypdf IN OUT"
            }
            DocumentError::Unsupported { .. } => "save it as PDF, Word (DOCX), Markdown or text",
            DocumentError::Missing(_)
            | DocumentError::Folder(_)
            | DocumentError::Io { .. }
            | DocumentError::Empty { .. } => return None,
        })
    }
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`DocumentError`].
    pub fn open(path: &Path) -> Result<Self, DocumentError> {
        let meta = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DocumentError::Missing(path.to_owned()),
            _ => DocumentError::Io { path: path.to_owned(), source: error },
        })?;
        if meta.is_dir() {
            return Err(DocumentError::Folder(path.to_owned()));
        }
        let bytes =
            fs::read(path).map_err(|source| DocumentError::Io { path: path.to_owned(), source })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Document::from_bytes(&name, &bytes)
    }

    /// Reads a file's bytes. What they are is told by the bytes, and by the name's ending where those don't tell.
    ///
    /// # Errors
    /// See [`DocumentError`].
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let name = name.to_owned();
        let ending = Path::new(&name).extension().map(|ending| ending.to_ascii_lowercase());
        let ends_in = |wanted: &[&str]| {
            ending.as_ref().is_some_and(|ending| wanted.iter().any(|w| ending == w))
        };
        if bytes.is_empty() {
            return Err(DocumentError::Empty { name });
        }
        if pdf::is_pdf(bytes) || ends_in(&["pdf"]) {
            let pages = pdf::pages(&name, bytes)?;
            let text =
                pages.iter().map(|page| normal::page(page)).collect::<Vec<_>>().join("\u{c}");
            if text.chars().all(char::is_whitespace) {
                return Err(DocumentError::Scanned { name, pages: pages.len() });
            }
            return Ok(Document { name, format: Format::Pdf, pages: Some(pages.len()), text });
        }
        if let Some(encrypted) = docx::compound(bytes) {
            return Err(match encrypted {
                true => DocumentError::Encrypted { name },
                false => DocumentError::Unsupported { name, kind: KINDS[1] },
            });
        }
        if bytes.starts_with(b"PK\x03\x04") || ends_in(&["docx"]) {
            let text = normal::page(&docx::text(&name, bytes)?);
            if text.chars().all(char::is_whitespace) {
                return Err(DocumentError::Empty { name });
            }
            return Ok(Document { name, format: Format::Docx, pages: None, text });
        }
        if is_picture(bytes) {
            return Err(DocumentError::Unsupported { name, kind: KINDS[2] });
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let raw = match std::str::from_utf8(bytes) {
            Ok(raw) => raw,
            Err(error) => return Err(DocumentError::NotUtf8 { name, offset: error.valid_up_to() }),
        };
        let format = if ends_in(&["md", "markdown"]) { Format::Markdown } else { Format::Text };
        let text = normal::text(raw);
        if text.chars().all(char::is_whitespace) {
            return Err(DocumentError::Empty { name });
        }
        Ok(Document { name, format, pages: None, text })
    }

    /// From its parts, as they were read elsewhere.
    pub(crate) fn of_parts(
        name: String,
        format: Format,
        pages: Option<usize>,
        text: String,
    ) -> Self {
        Document { name, format, pages, text }
    }

    /// Its text, and nothing else of it.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Several files' texts as one document, in their order. One alone is its text and nothing else; of several, each
    /// begins on a page of its own with its name, so that the model can tell them apart.
    pub fn joined(files: &[(String, String)]) -> Self {
        let (name, text) = match files {
            [(name, text)] => (name.clone(), text.clone()),
            _ => {
                let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
                let count = files.len();
                let texts: Vec<String> = (1..)
                    .zip(files)
                    .map(|(n, (name, text))| format!("File {n} of {count}: {name}\n\n{text}"))
                    .collect();
                (names.join(", "), texts.join("\u{c}"))
            }
        };
        Document { name, format: Format::Text, pages: None, text }
    }

    /// The file's name, without its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was read as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// How many pages it has, where it has pages.
    pub fn pages(&self) -> Option<usize> {
        self.pages
    }

    /// Its text; pages are joined by a form feed.
    pub fn text(&self) -> &str {
        &self.text
    }
}
