//! The server's secret, and the scopes that are made from it.
//!
//! A scope is what every cache puts into its keys for a tenant: `HMAC-SHA-256(secret, parts)`, where each part is
//! preceded by its length as 8 bytes, little end first, so that no two lists of parts read alike. Nobody who doesn't
//! have the secret can say a scope, so no client can ask for another's. (Salts that clients choose were found to be
//! no boundary in vLLM and in gateways before it; a scope made by the gateway is.)
//!
//! The secret is 32 random bytes, written as 64 hexadecimal digits in a file that its owner alone can read. When it
//! is rotated, new calls have new scopes: what was cached under the old ones is never found again, and makes room as
//! anything does that isn't used. There is no time in which both are valid: the reason to rotate is that the old one
//! may be known.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use tapri_api::TenantScope;

use super::key::unhex;

/// The first part of a scope: another purpose, or a later form of scopes, has another.
const SCOPE: &str = "tapri scope v1";

/// The first part of secrets for other purposes.
const DERIVED: &str = "tapri derived secret v1";

/// The server's secret. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSecret([u8; 32]);

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file can't be read or made.
    #[error("the server's secret {} can't be read or made", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{} holds no server's secret, which is 64 hexadecimal digits", path.display())]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// Others can read it, and that can't be changed.
    #[error("others can read the server's secret {} (mode {mode:03o}), and it can't be changed", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Why they stay.
        source: io::Error,
    },
    /// The system gives no random bytes.
    #[error("the system gives no random bytes for the server's secret: {0}")]
    Random(String),
}

/// A secret that was read, and what to say about it.
#[derive(Debug)]
pub struct Loaded {
    /// The secret.
    pub secret: ServerSecret,
    /// Others could read the file until now: its permissions, which have been made tight.
    pub was_open: Option<u32>,
    /// It was made just now.
    pub made: bool,
}

impl ServerSecret {
    /// A secret from its bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        ServerSecret(bytes)
    }

    /// A new one.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| SecretError::Random(error.to_string()))?;
        Ok(ServerSecret(bytes))
    }

    /// Reads the secret, and makes one where there is none. Of two servers that make one at the same time, both get
    /// the same.
    pub fn load(path: &Path) -> Result<Loaded, SecretError> {
        if let Some(loaded) = read(path)? {
            return Ok(loaded);
        }
        let secret = ServerSecret::random()?;
        let draft = draft(path)?;
        let io = |source| SecretError::Io { path: path.to_owned(), source };
        let made = write(&draft, &secret).and_then(|()| match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // File systems without links: a rename may replace another's, which was as new.
            Err(_) => fs::rename(&draft, path),
            Ok(()) => Ok(()),
        });
        // Gone already where it was renamed.
        let _ = fs::remove_file(&draft);
        made.map_err(io)?;
        let loaded = read(path)?.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
        Ok(Loaded { made: true, ..loaded })
    }

    /// Replaces the secret in the file by a new one, whole at once: a server that reads meanwhile gets one or the other.
    pub fn rotate(path: &Path) -> Result<(), SecretError> {
        let secret = ServerSecret::random()?;
        let draft = draft(path)?;
        write(&draft, &secret)
            .and_then(|()| fs::rename(&draft, path))
            .map_err(|source| SecretError::Io { path: path.to_owned(), source })
    }

    /// The scope of a tenant.
    pub fn scope(&self, tenant: &str) -> TenantScope {
        TenantScope(self.mac(&[SCOPE, tenant]).to_vec())
    }

    /// A secret for another purpose, as hexadecimal digits: whoever has it can't say a scope.
    pub fn derive(&self, purpose: &str) -> String {
        self.mac(&[DERIVED, purpose]).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn mac(&self, parts: &[&str]) -> [u8; 32] {
        // HMAC takes keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return [0; 32] };
        for part in parts {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerSecret(***)")
    }
}

/// A name beside the file that no other process takes.
fn draft(path: &Path) -> Result<PathBuf, SecretError> {
    let io = |source| SecretError::Io { path: path.to_owned(), source };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(io)?;
    }
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| SecretError::Random(error.to_string()))?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_le_bytes(bytes)));
    Ok(PathBuf::from(name))
}

fn write(path: &Path, secret: &ServerSecret) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    for byte in secret.0 {
        write!(file, "{byte:02x}")?;
    }
    writeln!(file)?;
    file.sync_all()
}

fn read(path: &Path) -> Result<Option<Loaded>, SecretError> {
    let io = |source| SecretError::Io { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let was_open = tighten(path, &file)?;
    let mut text = String::new();
    match file.take(128).read_to_string(&mut text) {
        // Bytes that are no text are no secret of ours.
        Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(io(error)),
        _ => {}
    }
    let secret =
        unhex(text.trim()).ok_or_else(|| SecretError::Content { path: path.to_owned() })?;
    Ok(Some(Loaded { secret: ServerSecret(secret), was_open, made: false }))
}

/// Takes the permissions of others away, where they have any; the ones that were.
#[cfg(unix)]
fn tighten(path: &Path, file: &File) -> Result<Option<u32>, SecretError> {
    use std::os::unix::fs::PermissionsExt;
    let io = |source| SecretError::Io { path: path.to_owned(), source };
    let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(None);
    }
    file.set_permissions(fs::Permissions::from_mode(mode & 0o700))
        .map_err(|source| SecretError::Open { path: path.to_owned(), mode, source })?;
    Ok(Some(mode))
}

#[cfg(not(unix))]
fn tighten(_: &Path, _: &File) -> Result<Option<u32>, SecretError> {
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Vectors that anyone can compute:
    /// `hmac.new(bytes(range(32)), b"".join(len(p).to_bytes(8, "little") + p for p in parts), "sha256")`.
    #[test]
    fn scopes_are_the_published_ones() {
        let bytes: Vec<u8> = (0..32).collect();
        let secret = ServerSecret::from_bytes(bytes.try_into().unwrap());
        assert_eq!(
            hex(&secret.scope("red").0),
            "f32f87cbb41379340a2cbc0ebf855f4653f1077048282dc8207768204a5f80b7"
        );
        assert_eq!(
            hex(&secret.scope("").0),
            "503a10b4ef7b005396e0b6244e7cdc5510c9842f964d37e2b1e5b599f3a2b5b1"
        );
        assert_eq!(
            hex(&secret.mac(&["a", "bc"])),
            "c3c9c3696dc367b58a693eb7dfa40171f48959648a28e1eeaf0d6225de005f6d"
        );
    }

    #[test]
    fn no_two_lists_of_parts_read_alike() {
        let secret = ServerSecret::from_bytes([7; 32]);
        let lists: [&[&str]; 6] =
            [&["ab"], &["a", "b"], &["", "ab"], &["ab", ""], &[], &["", "", "ab"]];
        let macs: std::collections::HashSet<_> =
            lists.iter().map(|list| secret.mac(list)).collect();
        assert_eq!(macs.len(), lists.len());
        assert_ne!(secret.scope("a"), ServerSecret::from_bytes([8; 32]).scope("a"));
        assert_eq!(format!("{secret:?}"), "ServerSecret(***)");
    }

    #[test]
    fn made_once_kept_and_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/scope.secret");
        let first = ServerSecret::load(&path).unwrap();
        assert!(first.made && first.was_open.is_none());
        let again = ServerSecret::load(&path).unwrap();
        assert!(again.secret == first.secret && !again.made);
        ServerSecret::rotate(&path).unwrap();
        let rotated = ServerSecret::load(&path).unwrap();
        assert!(rotated.secret != first.secret && !rotated.made);
        let names: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["scope.secret"], "no draft is left");
        for wrong in ["", "abc", &"g".repeat(64), &"a".repeat(200)] {
            fs::write(&path, wrong).unwrap();
            assert!(matches!(ServerSecret::load(&path), Err(SecretError::Content { .. })));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_closed_and_said() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scope.secret");
        ServerSecret::load(&path).unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(ServerSecret::load(&path).unwrap().was_open, Some(0o644));
        assert_eq!(mode(), 0o600);
        assert_eq!(ServerSecret::load(&path).unwrap().was_open, None);
    }
}
