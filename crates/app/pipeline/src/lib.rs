//! One call's way through the caches to a backend: the same for the server and the command line.
//!
//! [`Pipeline::start`] takes a [`Call`](tapri_api::Call) and gives back a [`Running`] one as soon as it is known
//! what was reused: early enough for an HTTP status and a `Cache-Status` header, and for an error with its own
//! status. The rest comes as [`CallEvent`](tapri_api::CallEvent)s. A command line without async code uses
//! [`BlockingPipeline`], whose [`BlockingCall`] is an iterator.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tapri_pipeline::api::{Call, CallEvent, Message};
//! use tapri_pipeline::{Backend, BlockingPipeline, Pipeline};
//!
//! fn ask(backend: Arc<dyn Backend>) -> Result<(), Box<dyn std::error::Error>> {
//!     let pipeline = BlockingPipeline::new(Pipeline::new(backend))?;
//!     let running = pipeline.start(Call::chat(vec![Message::user("What is a lease?")]))?;
//!     if let Some(reuse) = running.admission().reuse {
//!         println!("{} of {} prompt tokens were there", reuse.cached, reuse.prompt);
//!     }
//!     for event in running {
//!         match event {
//!             CallEvent::Token(token) => print!("{}", token.text),
//!             CallEvent::Finished(finish) => println!("{}", finish.tail),
//!             CallEvent::Failed(error) => return Err(error.into()),
//!             _ => {}
//!         }
//!     }
//!     Ok(())
//! }
//! ```
//!
//! With a [`Recorder`] every call leaves one record in the ledger, refused, failed and abandoned ones too.
//!
//! Map: [`pipeline`] the way; [`running`] a call on it; [`recording`] its record; [`live`] its end as others see it; [`erasing`] what is erased; [`explaining`] why it reused
//! less than it could; [`blocking`] the same without async code.

pub mod blocking;
pub mod erasing;
mod exact;
pub mod explaining;
pub mod live;
pub mod pipeline;
pub mod recording;
pub mod running;
pub mod semantic;
mod steps;

pub use blocking::{BlockingCall, BlockingPipeline};
pub use erasing::{PurgeError, PurgeReport};
pub use explaining::{ExplainConfig, Explainer};
pub use live::{Ended, Follower, Live, Seen};
pub use pipeline::Pipeline;
pub use recording::{Observer, Pricing, Recorder};
pub use running::Running;
pub use semantic::SemanticWay;
pub use steps::{Step, Steps};
pub use tapri_api as api;
pub use tapri_cache as cache;
pub use tapri_insight as insight;
pub use tapri_ledger as ledger;
pub use tapri_upstream::{
    Backend, BackendStats, DiskStats, EMBEDDED, Erased, Holding, Holdings, MapRun, ModelCard, Pin,
    Pinned, Pins, PrefixMap, UpstreamStats, Whose, no_pins,
};
