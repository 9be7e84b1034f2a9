//! Files of a model hub, through the `hf-hub` crate and its cache, which other programs share.

use std::fs;
use std::path::PathBuf;

use hf_hub::Cache;
use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError};

use crate::{HubFile, ModelFolder, PullError, PullEvent, Sha256Digest};

/// Which hub, and where its files are kept; `None` takes `HF_ENDPOINT` and `HF_HOME`, or their defaults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub {
    pub(crate) endpoint: Option<String>,
    pub(crate) cache: Option<PathBuf>,
}

impl Hub {
    fn cache(&self) -> Cache {
        self.cache.clone().map_or_else(Cache::from_env, Cache::new)
    }

    /// The file, if the hub's cache holds it.
    pub(crate) fn find(&self, wanted: &HubFile) -> Option<PathBuf> {
        self.cache().model(wanted.repo.clone()).get(&wanted.file)
    }

    /// The file, from the cache or else from the hub.
    pub(crate) fn get(
        &self,
        wanted: &HubFile,
        folder: &ModelFolder,
        on: &mut dyn FnMut(PullEvent<'_>),
    ) -> Result<PathBuf, PullError> {
        if let Some(path) = self.find(wanted) {
            return Ok(path);
        }
        // hf-hub gives up on its own lock after five seconds; a pull takes longer.
        let lock_name = format!("hf-{}-{}", wanted.repo, wanted.file).replace('/', "-");
        let _lock = folder
            .lock(&lock_name, || on(PullEvent::Waiting { name: &wanted.file }))
            .map_err(PullError::io("lock", folder.path()))?;
        if let Some(path) = self.find(wanted) {
            return Ok(path);
        }
        let failed = |error: ApiError| failure(wanted, error, folder);
        let mut builder = ApiBuilder::from_env().with_progress(false);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        if let Some(cache) = &self.cache {
            builder = builder.with_cache_dir(cache.clone());
        }
        let repo = builder.build().map_err(failed)?.model(wanted.repo.clone());
        let path = repo
            .download_with_progress(
                &wanted.file,
                Meter { name: &wanted.file, done: 0, total: 0, on: &mut *on },
            )
            .map_err(failed)?;
        on(PullEvent::Checking { name: &wanted.file });
        check(wanted, path)
    }
}

/// Compares a large file with the digest that the hub announced: the cache names such files by it.
fn check(wanted: &HubFile, path: PathBuf) -> Result<PathBuf, PullError> {
    let blob = fs::canonicalize(&path).map_err(PullError::io("find", &path))?;
    let announced = blob.file_name().and_then(|name| name.to_str()).and_then(Sha256Digest::parse);
    let Some(expected) = announced else { return Ok(path) };
    let found = Sha256Digest::of_file(&blob).map_err(PullError::io("read", &blob))?;
    if found == expected {
        return Ok(path);
    }
    for wrong in [&path, &blob] {
        fs::remove_file(wrong).map_err(PullError::io("delete", wrong))?;
    }
    Err(PullError::WrongChecksum { what: wanted.file.clone(), expected, found })
}

fn failure(wanted: &HubFile, error: ApiError, folder: &ModelFolder) -> PullError {
    let (unreachable, message) = match &error {
        ApiError::IoError(io) if io.kind() == std::io::ErrorKind::StorageFull => {
            return PullError::DiskFull { path: folder.path().to_owned() };
        }
        // The hub answered, with a refusal; anything else is a connection that did not come about.
        ApiError::RequestError(request) => {
            let text = request.to_string();
            (!text.starts_with("http status"), text)
        }
        other => (false, other.to_string()),
    };
    PullError::Hub { file: format!("hf:{}:{}", wanted.repo, wanted.file), unreachable, message }
}

/// hf-hub's progress as ours.
struct Meter<'a, 'b> {
    name: &'a str,
    done: u64,
    total: u64,
    on: &'b mut dyn FnMut(PullEvent<'_>),
}

impl Progress for Meter<'_, '_> {
    fn init(&mut self, size: usize, _file: &str) {
        self.done = 0;
        self.total = size as u64;
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        (self.on)(PullEvent::Downloading { name: self.name, done: self.done, total: self.total });
    }

    fn finish(&mut self) {}
}
