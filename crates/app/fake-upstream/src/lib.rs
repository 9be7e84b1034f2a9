//! A scripted server that plays OpenAI's and Anthropic's APIs, for tests and benchmarks of what stands before one.
//!
//! It answers chat completions, completions, responses, embeddings and messages, as bodies and as streams, and does
//! to a client what real servers do on bad days: errors with `Retry-After`, slow and stalled streams, streams cut in
//! the middle, usage that is absent, negative or wrong. What each request is answered with is a [`Script`]: the one a
//! test put into the queue, or one written into the model's name (`m@status=503,retry_after=2`), or the default.
//! Every request is kept as it came ([`Seen`]), with how it ended: a client that left is seen.
//!
//! It can play a prefix cache as well ([`CacheConfig`]), so that a repeated start of a prompt reads as cached: in
//! blocks and salted as vLLM does, in steps from a minimum as OpenAI does, or up to markers as Anthropic does.
//! Tokens are four bytes of text.
//!
//! ```no_run
//! # async fn run() -> std::io::Result<()> {
//! use tapri_fake_upstream::{Fake, FakeConfig, Script};
//!
//! let fake = Fake::start(FakeConfig::default()).await?;
//! fake.push(Script { status: Some(503), retry_after: Some("2".into()), ..Script::default() });
//! // ... a client asks fake.url() twice: the first request gets 503, the second an answer ...
//! assert_eq!(fake.seen().len(), 2);
//! fake.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Map: [`script`] what a request is answered with; [`server`] sockets and control; [`seen`] what came; [`asked`] what of a request
//! is read; [`answer`] the formats; [`prefix`] the played cache; `play` an answer's bytes, in time; `reply` the same as HTTP has them.

pub mod answer;
pub mod asked;
mod play;
pub mod prefix;
mod reply;
pub mod script;
pub mod seen;
pub mod server;

pub use prefix::{CacheConfig, CacheStyle};
pub use script::{Script, ToolScript, UsageScript};
pub use seen::{Ending, Seen};
pub use server::{Fake, FakeConfig};
