//! Anthropic's messages.

pub(super) mod read;
pub(super) mod write;
