//! Files of JSON lines, of any size, plain or gzipped; broken lines are counted and named, never fatal.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

/// A line longer than this is skipped as broken: no request or record is, and a file without line ends would
/// otherwise be loaded whole.
pub const MAX_LINE: usize = 64 << 20;

/// How many broken lines are named; the others are only counted.
const NAMED: usize = 10;

/// Lines that could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// How many.
    pub count: u64,
    /// The first few: the line's number, from 1, and what is wrong with it.
    pub first: Vec<(u64, String)>,
}

impl Broken {
    /// Counts one.
    pub fn add(&mut self, line: u64, what: impl Into<String>) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push((line, what.into()));
        }
    }
}

/// Reads lines one at a time.
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
    /// The broken lines so far. A caller adds those that don't mean anything to it.
    pub broken: Broken,
}

/// A reader that undoes gzip where the content is gzipped, whatever the file is called.
pub fn decompressed<'a>(reader: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut reader = BufReader::with_capacity(1 << 18, reader);
    let gzipped = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if gzipped {
        Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(reader)))
    } else {
        Box::new(reader)
    })
}

impl<R: BufRead> Lines<R> {
    /// Lines of a reader.
    pub fn new(reader: R) -> Self {
        Lines { reader, buffer: Vec::new(), number: 0, bytes: 0, broken: Broken::default() }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far, after decompression: for a progress bar.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next line that isn't blank, as text; `None` at the end. Lines that are too long or not UTF-8 are counted
    /// as broken and skipped.
    pub fn next_text(&mut self) -> io::Result<Option<&str>> {
        loop {
            self.buffer.clear();
            let limit = MAX_LINE as u64 + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read as u64;
            if read > MAX_LINE {
                self.skip_rest()?;
                self.broken.add(self.number, format!("longer than {} MiB", MAX_LINE >> 20));
                continue;
            }
            match std::str::from_utf8(&self.buffer) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(_) => break,
                Err(error) => {
                    let at = error.valid_up_to();
                    self.broken.add(self.number, format!("not UTF-8 at byte {at}"));
                }
            }
        }
        // It was checked just now; a borrow out of the loop above is not possible yet.
        Ok(std::str::from_utf8(&self.buffer).ok())
    }

    /// The next line that is JSON of this shape; `None` at the end. Others are counted as broken and skipped.
    pub fn next_json<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            let parsed = match self.next_text()? {
                None => return Ok(None),
                Some(text) => serde_json::from_str(text),
            };
            match parsed {
                Ok(value) => return Ok(Some(value)),
                Err(error) => self.broken.add(self.number, error.to_string()),
            }
        }
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                return Ok(());
            }
            let (used, done) = match available.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (available.len(), false),
            };
            self.reader.consume(used);
            self.bytes += used as u64;
            if done {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::Value;

    use super::*;

    #[test]
    fn broken_lines_are_named_and_the_others_come() {
        let text = b"{\"a\":1}\n\n{broken\n\xff\xfe\n{\"a\":2}" as &[u8];
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(value) = lines.next_json::<Value>().unwrap() {
            found.push((lines.number(), value["a"].as_u64()));
        }
        assert_eq!(found, [(1, Some(1)), (5, Some(2))]);
        assert_eq!(lines.broken.count, 2);
        assert_eq!(lines.broken.first.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_line_without_end_is_skipped() {
        let mut text = vec![b'x'; MAX_LINE + 100];
        text.extend_from_slice(b"\n{\"a\":1}\n");
        let mut lines = Lines::new(text.as_slice());
        assert_eq!(lines.next_json::<Value>().unwrap().unwrap()["a"], 1);
        assert_eq!((lines.number(), lines.broken.count), (2, 1));
    }

    #[test]
    fn gzip_is_undone() {
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(b"{\"a\":7}\n").unwrap();
        let gz = gz.finish().unwrap();
        let mut lines = Lines::new(decompressed(gz.as_slice()).unwrap());
        assert_eq!(lines.next_json::<Value>().unwrap().unwrap()["a"], 7);
        assert!(lines.next_text().unwrap().is_none());
    }
}
