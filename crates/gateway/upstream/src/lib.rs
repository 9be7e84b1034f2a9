//! Who answers a call: the trait [`Backend`], the embedded engine, and upstreams over HTTP.
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
//! Map: [`backend`] the trait; [`embedded`] the engine in this process; [`fleet`] upstreams over HTTP; [`config`] what can be
//! set of them; [`http`] one of them; [`prefix`] help for their prefix caches and the choice among them; [`prefix_map`] what a
//! prefix cache here holds, and [`holdings`] which call holds it; [`breaker`] and
//! [`clock`]; [`sentences`] a sentence encoder in this
//! process; [`several`] backends as one; [`stream`] the events of one call; [`stats`] counters.

pub mod backend;
pub mod breaker;
pub mod clock;
pub mod config;
pub mod embedded;
pub mod fleet;
pub mod holdings;
pub mod http;
pub mod prefix;
pub mod prefix_map;
pub mod sentences;
pub mod several;
pub mod stats;
pub mod stream;

pub use backend::{
    Answer, Backend, EMBEDDED, Erased, ModelCard, Pin, Pinned, Pins, Whose, no_pins, unknown_model,
};
pub use config::{
    Api, Credential, FleetConfig, Health, Kind, Retry, Secret, ServedModel, Timeouts,
    UpstreamConfig,
};
pub use embedded::Embedded;
pub use fleet::stats::UpstreamStats;
pub use fleet::{Fleet, FleetError};
pub use holdings::{Holding, Holdings};
pub use prefix_map::{MapRun, PrefixMap};
pub use sentences::Sentences;
pub use several::Several;
pub use stats::BackendStats;
pub use stream::{CallStream, EventSource};
pub use tapri_engine::DiskStats;
