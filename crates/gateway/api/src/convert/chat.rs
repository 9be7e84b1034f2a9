//! Chat completions.

pub(super) mod read;
pub(super) mod write;
