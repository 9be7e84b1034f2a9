//! Calls as OpenTelemetry traces, and their tokens as metrics, sent to a collector over OTLP/HTTP.
//!
//! A call is one span, with a child for each cache that was asked and one for whoever computed the answer. It is made when
//! the call has ended, from its record and from when its steps were: nothing of this stands on a call's way but a
//! counter and a place in a queue. Names follow OpenTelemetry's GenAI conventions (open-telemetry/semantic-conventions-genai,
//! all of them in development); what these have no name for is `tapri.*`. A record has no text, and so a span has none.
//!
//! Invariants:
//! - **A collector that is slow or away costs no call anything.** The queue is bounded; what finds no room in it is
//!   dropped and counted, and so is what a collector doesn't take ([`Counts`]). Token counts are sums that go out whole each
//!   time, so that nothing of them is lost by that.
//! - **A call that is part of a caller's trace stays part of it.** Its `traceparent` (W3C Trace Context) is the span's
//!   parent, and where the caller's trace isn't sampled, neither is the span.
//! - **Everything ends.** [`Telemetry::close`] sends what waits, within its limit.
//!
//! ```
//! use std::time::Duration;
//! use tapri_telemetry::{Telemetry, TelemetryConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // No collector is there: calls go on, and what can't be sent is counted.
//! let telemetry = Telemetry::start(TelemetryConfig::new("http://127.0.0.1:9"))?;
//! let observer = telemetry.observer(); // for `Pipeline::observed`
//! # drop(observer);
//! telemetry.close(Duration::from_secs(1));
//! assert_eq!(telemetry.counts().exported, 0);
//! # Ok(())
//! # }
//! ```
//!
//! Map: [`config`] where to and how, with the variables that every OpenTelemetry program reads; `call` what of a record
//! is kept; `span` a call as spans; `tokens` the sums; `worker` the queue's other end.

mod call;
pub mod config;
mod span;
mod telemetry;
mod tokens;
mod value;
mod worker;

pub use config::{ConfigError, TelemetryConfig};
pub use telemetry::{Counts, StartError, Telemetry};
