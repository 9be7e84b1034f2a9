//! Reads a request of any format field by field into what an engine of our own can do.
//!
//! Strict: what would change the answer and can't be done is refused by its name in the caller's own format; what
//! changes nothing is ignored, as both APIs do.

mod conversation;

use crate::inbound::{Format, Inbound};
use crate::openai::fields::Fields;
use crate::openai::{chat, completion};
use crate::{ApiError, Call, ErrorKind};

/// Reads a request.
pub fn lower(inbound: &Inbound) -> Result<Call, ApiError> {
    let fields = Fields::of(inbound.body.clone());
    match inbound.format {
        Format::Chat => Ok(chat::read(fields)?.call),
        Format::Completion => Ok(completion::read(fields)?.call),
        Format::Messages | Format::Responses => conversation::read(inbound),
        Format::Embeddings => Err(ApiError::new(
            ErrorKind::Invalid,
            format!("A request to {} asks for no answer in words", inbound.format.path()),
        )
        .code("unsupported_format")
        .hint("Send it to a model that embeds")),
    }
}
