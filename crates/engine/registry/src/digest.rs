//! SHA-256 digests.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// A SHA-256 digest; shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// The digest that 64 hex digits spell.
    ///
    /// # Panics
    /// If `hex` is anything else. Meant for constants, where that is a compile error; see
    /// [`Sha256Digest::parse`] for text from outside.
    #[expect(clippy::panic, reason = "evaluated at compile time for every pin of the catalogue")]
    pub const fn pinned(hex: &str) -> Self {
        match Self::parse(hex) {
            Some(digest) => digest,
            None => panic!("a SHA-256 is 64 hex digits"),
        }
    }

    /// The digest that 64 hex digits spell, if they do.
    pub const fn parse(hex: &str) -> Option<Self> {
        let hex = hex.as_bytes();
        if hex.len() != 64 {
            return None;
        }
        let mut digest = [0; 32];
        let mut at = 0;
        while at < 64 {
            let value = match hex[at] {
                digit @ b'0'..=b'9' => digit - b'0',
                digit @ b'a'..=b'f' => digit - b'a' + 10,
                _ => return None,
            };
            digest[at / 2] = digest[at / 2] << 4 | value;
            at += 1;
        }
        Some(Sha256Digest(digest))
    }

    /// The digest of a file's bytes.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Sha256Digest(hasher.finalize().into())),
                n => hasher.update(&buffer[..n]),
            }
        }
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256Digest({self})")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hex_and_back() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Sha256Digest::pinned(hex).to_string(), hex);
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Sha256Digest::of_file(empty.path()).unwrap().to_string(), hex);
    }

    #[test]
    fn what_is_not_a_digest() {
        assert_eq!(Sha256Digest::parse(""), None);
        assert_eq!(Sha256Digest::parse(&"0".repeat(63)), None);
        assert_eq!(Sha256Digest::parse(&"g".repeat(64)), None);
    }
}
