//! Reads a request of any format field by field into what an engine of our own can do.
//!
//! Strict: what would change the answer and can't be done is refused by its name in the caller's own format; what
//! changes nothing is ignored, as both APIs do.

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
        format => Err(ApiError::new(
            ErrorKind::Invalid,
            format!("This model does not answer {}", format.path()),
        )
        .code("unsupported_format")
        .hint("Send the request to /v1/chat/completions")),
    }
}
