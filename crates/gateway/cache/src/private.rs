//! Files that hold what was asked and answered are their owner's alone.

use std::fs;
use std::io;
use std::path::Path;

/// Makes an empty file that its owner alone can read, where there is none: it comes to hold answers or
/// questions. SQLite gives its log the same mode.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
