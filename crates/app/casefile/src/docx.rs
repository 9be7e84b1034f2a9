//! Text out of Word documents (DOCX): a ZIP archive with XML in it (ECMA-376).
//!
//! What is read: paragraphs, tables, tabs and breaks of the body, then footnotes and endnotes. What isn't in the text:
//! headers and footers, which repeat on every page; comments; deleted text of tracked changes; numbers that Word gives
//! to lists when it shows them. A page break becomes a form feed, as in PDFs.
//!
//! An archive may unpack to any size, so everything is read through a limit.

use std::io::{Cursor, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::DocumentError;

/// The most bytes of XML of one part. The text of 10,000 pages has some 30 MB; markup makes it three times that.
const MOST: u64 = 128 << 20;

/// How much larger than its packed form a part may be. Word's XML packs to a tenth, rarely to a fiftieth.
const MOST_RATIO: u64 = 400;

/// Parts below this size may pack as well as they like: a small file of blanks is no attack.
const SMALL: u64 = 4 << 20;

/// Entries of the archive. Each picture is one.
const MOST_ENTRIES: usize = 20_000;

/// A compound file: what Word wrote before 2007, and what an encrypted document is wrapped in ([MS-CFB]).
const COMPOUND: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

/// Whether the bytes are a compound file, and whether an encrypted document is in it.
pub(crate) fn compound(bytes: &[u8]) -> Option<bool> {
    if !bytes.starts_with(&COMPOUND) {
        return None;
    }
    // The name of the stream that holds it, in UTF-16 ([MS-OFFCRYPTO]).
    let name: Vec<u8> = "EncryptedPackage".bytes().flat_map(|byte| [byte, 0]).collect();
    Some(memchr::memmem::find(bytes, &name).is_some())
}

/// A document's text.
pub(crate) fn text(name: &str, bytes: &[u8]) -> Result<String, DocumentError> {
    let mut file = File { name, archive: None };
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| file.broken(&error))?;
    if archive.len() > MOST_ENTRIES {
        return Err(file.bomb());
    }
    file.archive = Some(archive);
    let Some(body) = file.part("word/document.xml")? else {
        return Err(DocumentError::Unsupported {
            name: name.to_owned(),
            kind: crate::document::KINDS[0],
        });
    };
    let mut text = file.read(&body)?;
    for (part, title) in [("word/footnotes.xml", "Footnotes"), ("word/endnotes.xml", "Endnotes")] {
        if let Some(notes) = file.part(part)? {
            let notes = file.read(&notes)?;
            if !notes.trim().is_empty() {
                text.push_str("\n\n");
                text.push_str(title);
                text.push_str("\n\n");
                text.push_str(&notes);
            }
        }
    }
    Ok(text)
}

struct File<'a> {
    name: &'a str,
    archive: Option<ZipArchive<Cursor<&'a [u8]>>>,
}

impl File<'_> {
    fn broken(&self, error: &impl ToString) -> DocumentError {
        DocumentError::BrokenDocx { name: self.name.to_owned(), detail: error.to_string() }
    }

    fn bomb(&self) -> DocumentError {
        DocumentError::Bomb { name: self.name.to_owned() }
    }

    /// A part's bytes; `None` where it isn't there.
    fn part(&mut self, path: &str) -> Result<Option<Vec<u8>>, DocumentError> {
        let (name, bomb) = (self.name.to_owned(), self.bomb());
        let Some(archive) = &mut self.archive else { return Ok(None) };
        let broken = |detail: String| DocumentError::BrokenDocx { name: name.clone(), detail };
        let part = match archive.by_name(path) {
            Ok(part) => part,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
                return Err(DocumentError::Encrypted { name });
            }
            Err(error) => return Err(broken(error.to_string())),
        };
        // The sizes in the archive are what its writer says; the limit counts what comes.
        let limit = MOST.min(SMALL.max(part.compressed_size().saturating_mul(MOST_RATIO)));
        let mut bytes = Vec::new();
        part.take(limit + 1).read_to_end(&mut bytes).map_err(|error| broken(error.to_string()))?;
        if bytes.len() as u64 > limit {
            return Err(bomb);
        }
        Ok(Some(bytes))
    }

    fn read(&self, xml: &[u8]) -> Result<String, DocumentError> {
        let xml = std::str::from_utf8(xml).map_err(|error| self.broken(&error))?;
        let mut reader = Reader::from_str(xml.trim_start_matches('\u{feff}'));
        let mut text = Text::default();
        loop {
            match reader.read_event().map_err(|error| self.broken(&error))? {
                Event::Start(tag) => text.open(&tag),
                Event::Empty(tag) => {
                    text.open(&tag);
                    text.close(tag.local_name().as_ref());
                }
                Event::End(tag) => text.close(tag.local_name().as_ref()),
                Event::Text(piece) => {
                    text.say(&piece);
                }
                Event::GeneralRef(entity) => {
                    let resolved = resolve(&entity);
                    text.say(resolved.as_deref().unwrap_or("\u{fffd}"));
                }
                Event::CData(piece) => {
                    text.say(&piece);
                }
                Event::Eof => return Ok(text.text),
                // A document type could define entities without end; Word writes none.
                Event::DocType(_) => {
                    return Err(self.broken(&"it has a document type, which Word never writes"));
                }
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            }
        }
    }
}

/// One of XML's own entities, or a character by its number.
fn resolve(entity: &str) -> Option<String> {
    let named = match entity {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let digits = entity.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some(named.to_string())
}

/// The text so far, and where in the markup the reader is.
#[derive(Default)]
struct Text {
    text: String,
    /// Inside how many `w:t`.
    spoken: usize,
    /// Inside how many elements that repeat what stands elsewhere, or that were deleted.
    silent: usize,
    /// Whether a cell of this row came before.
    cells: usize,
}

impl Text {
    fn open(&mut self, tag: &BytesStart<'_>) {
        match tag.local_name().as_ref() {
            "t" => self.spoken += 1,
            // A drawing for older programs, which says the same again; text that was deleted or moved away.
            "Fallback" | "del" | "moveFrom" => self.silent += 1,
            "tab" if self.silent == 0 => self.text.push('\t'),
            "br" if self.silent == 0 => {
                let page = tag
                    .attributes()
                    .flatten()
                    .any(|it| it.key.local_name().as_ref() == "type" && &*it.value == "page");
                self.text.push(if page { '\u{c}' } else { '\n' });
            }
            "cr" if self.silent == 0 => self.text.push('\n'),
            "noBreakHyphen" if self.silent == 0 => self.text.push('-'),
            "tr" => self.cells = 0,
            "tc" => {
                if self.cells > 0 && self.silent == 0 {
                    let kept = self.text.trim_end_matches('\n').len();
                    self.text.truncate(kept);
                    self.text.push('\t');
                }
                self.cells += 1;
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "t" => self.spoken = self.spoken.saturating_sub(1),
            "Fallback" | "del" | "moveFrom" => self.silent = self.silent.saturating_sub(1),
            // A blank line between paragraphs.
            "p" if self.silent == 0 => self.text.push_str("\n\n"),
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        if self.spoken > 0 && self.silent == 0 {
            self.text.push_str(text);
        }
    }
}
