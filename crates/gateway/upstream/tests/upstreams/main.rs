//! Upstreams over HTTP, against a scripted one on loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod convert;
mod faults;
mod forward;
mod llama_server;
mod prefix;
mod replicas;
mod scene;
