//! Explanations held against pairs with known answers, against a plain difference of real calls, and against random
//! edits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod hostile;
mod neighbours;
mod pairs;
mod privacy;
mod random;

use std::path::{Path, PathBuf};

/// A file of the repository's examples.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/transcripts").join(name)
}
