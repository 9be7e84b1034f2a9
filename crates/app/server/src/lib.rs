//! Tapri over HTTP: routes, metrics and limits in front of the [`Pipeline`](tapri_pipeline::Pipeline).
//!
//! [`bind`] takes the port, so that a port in use is known before a model is loaded; [`Bound::run`] serves until
//! it is told to stop. Nothing is printed here: the command line says where it listens.
//!
//! Invariants:
//! - A client that leaves cancels its call: whatever holds a running call is dropped with the connection.
//! - A call's headers are sent when it is admitted, so an error before that has its own status, and
//!   `Cache-Status` can say what was reused, streaming or not.
//! - A request has a tenant before anything else of it is looked at, and its scope is in the call before any cache
//!   sees it.
//! - No text of a prompt or an answer reaches the log.
//!
//! ```no_run
//! # async fn run(pipeline: tapri_pipeline::Pipeline) -> Result<(), tapri_server::ServeError> {
//! let config = tapri_server::ServerConfig { port: 0, ..Default::default() };
//! tapri_server::serve(config, pipeline, |address| println!("http://{address}")).await
//! # }
//! ```
//!
//! Map: [`config`] what can be set; [`tenants`] who calls, limits, scopes; `gate` what every request passes; [`admin`]
//! the operator's paths; [`alerts`] hit rates that fell; [`serve`](mod@serve) listening and stopping; `connections`
//! the sockets and what each may cost; [`pages`] what people look at; `routes` one file for each group of paths; `body` reading a request; `reply`
//! headers and errors; [`metrics`] what `/metrics` shows; `meter` the measuring of one call; `history` what the prefix cache did of late; `log_line` the line every
//! ten seconds.

pub mod admin;
pub mod alerts;
mod body;
pub mod config;
mod connections;
mod gate;
mod history;
mod log_line;
mod meter;
pub mod metrics;
pub mod pages;
mod reply;
mod routes;
pub mod serve;
pub mod tenants;

pub use admin::Reload;
pub use alerts::AlertConfig;
pub use alerts::webhook::WebhookConfig;
pub use config::{BodyLimit, Connections, ServerConfig, Start, StartPin, TraceCounts};
pub use metrics::Metrics;
pub use pages::PagesConfig;
pub use routes::pins::PREFIX as PIN_PREFIX;
pub use routes::{App, router};
pub use serve::{Bound, ServeError, bind, serve};
pub use tenants::{AccessConfig, AccessError, TenantConfig, Tenants};
