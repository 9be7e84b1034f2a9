//! The ledger's secret, and the fingerprints that it salts.
//!
//! 32 random bytes in a file of its own beside the database (`ledger.sqlite.secret`), readable by its owner alone.
//! Whoever gets hold of the database without it can't try texts against the fingerprints, and two ledgers have
//! nothing to compare.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tapri_api::OutlinePart;

use crate::{CallRecord, PartPrint};

/// Bytes of a secret.
const BYTES: usize = 32;

/// The key of a ledger's fingerprints. Never printed.
#[derive(Clone)]
pub struct Secret {
    parts: [u8; BYTES],
    trace: [u8; BYTES],
}

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file can't be read or made.
    #[error("the ledger's secret {} can't be read or made", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{} is no ledger's secret: it has {found} bytes instead of {BYTES}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes in it.
        found: u64,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes for the ledger's secret: {0}")]
    Random(String),
}

impl Secret {
    /// The file of a ledger's secret.
    pub fn path(ledger: &Path) -> PathBuf {
        crate::store::beside(ledger, ".secret")
    }

    /// Reads a ledger's secret, and makes one where there is none. Of two processes that make one at the same time,
    /// both get the same.
    pub fn of_ledger(ledger: &Path) -> Result<Self, SecretError> {
        let path = Secret::path(ledger);
        let io = |source| SecretError::Io { path: path.clone(), source };
        if let Some(secret) = Secret::read(&path)? {
            return Ok(secret);
        }
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| SecretError::Random(error.to_string()))?;
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(|error| SecretError::Random(error.to_string()))?;
        // Under a name of its own first, whole and safe on the disk; then a link, which fails where another
        // process was faster.
        let draft = crate::store::beside(&path, &format!(".{:016x}", u64::from_le_bytes(name)));
        let made = write(&draft, &bytes).and_then(|()| match fs::hard_link(&draft, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => {
                // File systems without links: a rename may replace another's, which was as new.
                fs::rename(&draft, &path)
            }
            _ => Ok(()),
        });
        // Gone already where it was renamed.
        let _ = fs::remove_file(&draft);
        made.map_err(io)?;
        Secret::read(&path)?.ok_or_else(|| io(io::ErrorKind::NotFound.into()))
    }

    fn read(path: &Path) -> Result<Option<Self>, SecretError> {
        let io = |source| SecretError::Io { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let found = file.metadata().map_err(io)?.len();
        let mut bytes = Vec::with_capacity(BYTES);
        file.take(BYTES as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
        match <[u8; BYTES]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(Some(Secret::from_bytes(&bytes))),
            Err(_) => Err(SecretError::Length { path: path.to_owned(), found }),
        }
    }

    /// A secret from its bytes.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        // Keys of their own, so that a part's print is never a link of a chain.
        let derive = |purpose: &[u8]| *blake3::keyed_hash(bytes, purpose).as_bytes();
        Secret { parts: derive(b"tapri ledger parts"), trace: derive(b"tapri ledger trace") }
    }

    /// The fingerprint of a text.
    pub fn print(&self, text: &str) -> u64 {
        short(&blake3::keyed_hash(&self.parts, text.as_bytes()))
    }

    /// The fingerprint of a part of a prompt.
    pub fn part(&self, part: &OutlinePart) -> PartPrint {
        PartPrint {
            kind: part.kind,
            path: part.path.to_string(),
            chars: part.text.chars().count() as u64,
            print: self.print(&part.text),
        }
    }

    /// [`CallRecord::trace`] of a prompt's token ids. The chain starts from what partitions the cache (model, tenant,
    /// salt), so that only calls that could share blocks share links.
    pub fn trace(&self, partition: &[&str], ids: &[u32]) -> Vec<u64> {
        let mut root = blake3::Hasher::new_keyed(&self.trace);
        for name in partition {
            root.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        }
        let mut link = root.finalize();
        let mut bytes = Vec::with_capacity(32 + 4 * CallRecord::TRACE_BLOCK);
        ids.chunks_exact(CallRecord::TRACE_BLOCK)
            .map(|block| {
                bytes.clear();
                bytes.extend_from_slice(link.as_bytes());
                block.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
                link = blake3::keyed_hash(&self.trace, &bytes);
                short(&link)
            })
            .collect()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// The first 64 bits: among a million texts the chance that any two are taken for each other is 1 in 37 million.
fn short(hash: &blake3::Hash) -> u64 {
    hash.as_bytes().iter().take(8).fold(0, |print, byte| (print << 8) | u64::from(*byte))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn made_once_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("ledger.sqlite");
        let many: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Secret::of_ledger(&ledger).unwrap().print("tea")))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(many.iter().all(|print| *print == many[0]), "{many:?}");
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["ledger.sqlite.secret"], "no draft is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(Secret::path(&ledger)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let other = dir.path().join("other.sqlite");
        assert_ne!(Secret::of_ledger(&other).unwrap().print("tea"), many[0]);
    }

    #[test]
    fn a_file_that_is_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("l");
        fs::write(Secret::path(&ledger), "short").unwrap();
        let error = Secret::of_ledger(&ledger).unwrap_err().to_string();
        assert!(error.ends_with("it has 5 bytes instead of 32"), "{error}");
    }

    #[test]
    fn traces_share_what_prompts_share() {
        let secret = Secret::from_bytes(&[7; 32]);
        let one: Vec<u32> = (0..1000).collect();
        let mut other = one.clone();
        other[300] = 0;
        let (a, b) = (secret.trace(&["m", "t"], &one), secret.trace(&["m", "t"], &other));
        assert_eq!((a.len(), b.len()), (7, 7), "full blocks only");
        assert_eq!(a[..2], b[..2]);
        assert!(a[2..].iter().zip(&b[2..]).all(|(a, b)| a != b), "a link covers all before it");
        assert_ne!(secret.trace(&["mt", ""], &one)[0], a[0], "no partition reads like another");
        assert_ne!(Secret::from_bytes(&[8; 32]).trace(&["m", "t"], &one)[0], a[0]);
    }
}
