//! Pulls through the real pip and the real hub client, against packages and a hub made here: no network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod hub;
mod packages;
mod support;
