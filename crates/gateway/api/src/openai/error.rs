//! Errors in OpenAI's shape.

use serde::Serialize;

use crate::{ApiError, ErrorKind, Format};

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    message: String,
    r#type: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

/// `{"error": {"message", "type", "param", "code"}}`.
pub fn render(error: &ApiError) -> String {
    let body = Envelope {
        error: Body {
            message: error.to_string(),
            r#type: kind(error),
            param: error.field.as_deref(),
            code: error.code.as_deref(),
        },
    };
    super::wire::json(&body)
}

/// An upstream's own word where it speaks this API, else OpenAI's for the kind.
fn kind(error: &ApiError) -> &str {
    if let Some(upstream) = &error.upstream
        && upstream.format != Format::Messages
        && let Some(kind) = &upstream.kind
    {
        return kind;
    }
    match error.kind {
        ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Method
        | ErrorKind::TooSlow
        | ErrorKind::TooLarge
        | ErrorKind::MediaType
        | ErrorKind::NotCached => "invalid_request_error",
        ErrorKind::Unauthorized => "authentication_error",
        ErrorKind::Forbidden => "permission_error",
        ErrorKind::Payment => "insufficient_quota",
        ErrorKind::Busy => "rate_limit_error",
        ErrorKind::Internal
        | ErrorKind::Upstream
        | ErrorKind::Unavailable
        | ErrorKind::Timeout
        | ErrorKind::Overloaded => "server_error",
    }
}
