//! The LoRA adapters of an engine: loaded when it starts, chosen by name.

use std::path::PathBuf;
use std::sync::Arc;

use tapri_gguf::{Gguf, GgufError};
use tapri_kernels::Compute;
use tapri_model::{Adapter, AdapterError, Model};

/// An adapter to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterFile {
    /// What calls name it by.
    pub name: String,
    /// Its GGUF file.
    pub path: PathBuf,
}

/// What is known of a loaded adapter.
#[derive(Debug, Clone)]
pub struct AdapterInfo {
    /// What calls name it by.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// SHA-256 of its contents: what keeps its blocks apart from those of other adapters, and of the same name's with other weights.
    pub digest: [u8; 32],
    /// Digest of the model and the adapter together.
    pub fingerprint: [u8; 32],
    /// The largest rank of its matrices.
    pub rank: usize,
    /// How many of the model's matrices it adds to.
    pub matrices: usize,
    /// Bytes that it takes in memory.
    pub bytes: usize,
}

/// Why an adapter could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdapterStartError {
    /// Two of them have one name.
    #[error("two adapters have the name {0:?}")]
    Twice(String),
    /// The file isn't a GGUF that can be read.
    #[error("the adapter {name:?}, {}: {source}", path.display())]
    File {
        /// The adapter's name.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: GgufError,
    },
    /// The adapter can't be applied to the model exactly as the file says.
    #[error("the adapter {name:?}, {}: {source}", path.display())]
    Adapter {
        /// The adapter's name.
        name: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<AdapterError>,
    },
}

impl AdapterFile {
    fn open(&self) -> Result<Gguf, AdapterStartError> {
        let AdapterFile { name, path } = self;
        Gguf::open(path).map_err(|source| AdapterStartError::File {
            name: name.clone(),
            path: path.clone(),
            source,
        })
    }

    fn wrong(&self, source: AdapterError) -> AdapterStartError {
        let AdapterFile { name, path } = self.clone();
        AdapterStartError::Adapter { name, path, source: Box::new(source) }
    }

    /// SHA-256 of the adapter's contents ([`AdapterInfo::digest`]), without loading it: for those who only pass it on.
    ///
    /// # Errors
    /// When the file can't be read or is no LoRA adapter.
    pub fn digest(&self) -> Result<[u8; 32], AdapterStartError> {
        Adapter::digest_of(&self.open()?).map_err(|source| self.wrong(source))
    }
}

/// The loaded adapters, in the order of the configuration.
#[derive(Default)]
pub(crate) struct Adapters(Vec<(AdapterInfo, Arc<Adapter>)>);

impl Adapters {
    pub(crate) fn load(
        files: &[AdapterFile],
        model: &Model,
        compute: &Compute,
    ) -> Result<Adapters, AdapterStartError> {
        let mut adapters = Adapters::default();
        for file in files {
            if adapters.get(&file.name).is_some() {
                return Err(AdapterStartError::Twice(file.name.clone()));
            }
            let adapter = Adapter::load(&file.open()?, model, compute)
                .map_err(|source| file.wrong(source))?;
            let info = AdapterInfo {
                name: file.name.clone(),
                file: file.path.clone(),
                digest: adapter.digest(),
                fingerprint: adapter.fingerprint(),
                rank: adapter.rank(),
                matrices: adapter.matrices(),
                bytes: adapter.bytes(),
            };
            adapters.0.push((info, Arc::new(adapter)));
        }
        Ok(adapters)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Adapter>> {
        self.0.iter().find(|(info, _)| info.name == name).map(|(_, adapter)| adapter)
    }

    pub(crate) fn infos(&self) -> Vec<AdapterInfo> {
        self.0.iter().map(|(info, _)| info.clone()).collect()
    }
}
