//! Who answers a call: the trait [`Backend`], and the embedded engine behind it.
//!
//! A backend turns a [`Call`](tapri_api::Call) into a stream of [`CallEvent`](tapri_api::CallEvent)s. Nothing
//! above this crate knows whether the model runs in this process or elsewhere.
//!
//! ```no_run
//! use tapri_engine::{Engine, EngineConfig};
//! use tapri_upstream::{Backend, Embedded};
//!
//! let engine = Engine::start("model.gguf".as_ref(), EngineConfig::default())?;
//! let backend = Embedded::new(engine, "my-model", vec!["another-name".to_owned()]);
//! let model = backend.model(None)?;
//! println!("{} reads {:?} tokens", model.id, model.context);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Map: [`backend`] the trait; [`embedded`] the engine in this process; [`stream`] the events of one call; [`stats`] counters.

pub mod backend;
pub mod embedded;
pub mod stats;
pub mod stream;

pub use backend::{Answer, Backend, ModelCard, unknown_model};
pub use embedded::Embedded;
pub use stats::BackendStats;
pub use stream::{CallStream, EventSource};
