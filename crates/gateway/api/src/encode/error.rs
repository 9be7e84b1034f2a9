//! Errors, in the shape of the caller's API.

use serde_json::json;

use crate::{ApiError, ErrorKind, Format};

/// An error's body. `call` is the call's own name; an upstream's name for the request goes before it where the API has
/// room for one.
pub fn error(format: Format, error: &ApiError, call: Option<&str>) -> String {
    match format {
        Format::Messages => {
            let upstream = error.upstream.as_ref().and_then(|it| it.request_id.as_deref());
            anthropic(error, upstream.or(call))
        }
        _ => crate::openai::error::render(error),
    }
}

/// An error in the middle of a stream, which ends it.
pub(super) fn frame(format: Format, failure: &ApiError, out: &mut String) {
    let name = (format == Format::Messages).then_some("error");
    super::frame(name, &error(format, failure, None), out);
}

/// `{"type": "error", "error": {"type", "message"}, "request_id"}`.
fn anthropic(error: &ApiError, request_id: Option<&str>) -> String {
    let mut body = json!({
        "type": "error",
        "error": { "type": kind(error), "message": error.to_string() },
    });
    if let Some(id) = request_id {
        body["request_id"] = id.into();
    }
    body.to_string()
}

/// An upstream's own word where it speaks this API, else Anthropic's for the status.
fn kind(error: &ApiError) -> &str {
    if let Some(upstream) = &error.upstream
        && upstream.format == Format::Messages
        && let Some(kind) = &upstream.kind
    {
        return kind;
    }
    match error.kind {
        ErrorKind::Invalid | ErrorKind::Method | ErrorKind::MediaType | ErrorKind::NotCached => {
            "invalid_request_error"
        }
        ErrorKind::Unauthorized => "authentication_error",
        ErrorKind::Payment => "billing_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::NotFound => "not_found_error",
        ErrorKind::TooLarge => "request_too_large",
        ErrorKind::Busy => "rate_limit_error",
        ErrorKind::Internal | ErrorKind::Upstream => "api_error",
        ErrorKind::Timeout | ErrorKind::TooSlow => "timeout_error",
        ErrorKind::Unavailable | ErrorKind::Overloaded => "overloaded_error",
    }
}
