//! The exact cache's way: what is stored, who gets it, who shares a call, and what erases it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod admission;
mod directives;
mod erasure;
mod faults;
mod flight;
mod play;
mod replay;
mod stored;
