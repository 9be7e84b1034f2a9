//! The server: in front of a scripted backend, over a socket, and with the real engine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod alerts;
mod connections;
mod deploy;
mod engine;
mod exact;
mod explain;
mod formats;
mod http;
mod listening;
mod pins;
mod pressure;
mod prompts;
mod scripted;
mod tenants;
mod upstreams;
mod wire;

const CHAT: &str = "/v1/chat/completions";
