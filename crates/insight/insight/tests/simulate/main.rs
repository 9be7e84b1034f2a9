//! Simulations against the engine's cache, naive models, every possible choice, and real traces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod agreement;
mod bounds;
mod random;
mod real;
