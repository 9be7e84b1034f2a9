//! One rule at a time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ends;
mod erasure;
mod events;
mod joins;
mod picture;
mod pins;
mod reasons;
mod restore;
mod scopes;
mod support;
mod windows;
