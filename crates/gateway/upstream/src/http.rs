//! One replica of an upstream, over HTTP: what is sent to it, and what its answer is read into.
//!
//! Map: `endpoint` the connection; `outgoing` the request's body, with its edits; `trouble` what can go wrong and
//! what follows from it; `answer` the events of an answer; [`sse`] the parser of streams; `splice` edits of JSON text.

pub(crate) mod answer;
pub(crate) mod endpoint;
pub(crate) mod outgoing;
pub(crate) mod splice;
pub mod sse;
pub(crate) mod trouble;
