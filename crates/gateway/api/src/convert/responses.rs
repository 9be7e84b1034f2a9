//! OpenAI's responses.

pub(super) mod read;
pub(super) mod write;
