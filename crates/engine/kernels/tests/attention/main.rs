//! Paged attention: against a naive reference, and bit for bit against itself however the work is cut.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bits;
mod edges;
mod naive;
mod scene;
mod shared;
