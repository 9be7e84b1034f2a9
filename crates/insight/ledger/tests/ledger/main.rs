//! The ledger against real files: writing, reading, migration, damage, limits, processes that share one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[cfg(unix)]
mod child;
#[cfg(unix)]
mod crash;
#[cfg(unix)]
mod damage;
#[cfg(target_os = "linux")]
mod full_disk;
mod limits;
mod migration;
mod reading;
mod sharing;
mod support;
mod writing;
