//! Errors in OpenAI's shape.

use serde::Serialize;

use crate::{ApiError, ErrorKind};

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    message: String,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

/// `{"error": {"message", "type", "param", "code"}}`.
pub fn render(error: &ApiError) -> String {
    let body = Envelope {
        error: Body {
            message: error.to_string(),
            r#type: kind(error.kind),
            param: error.field.as_deref(),
            code: error.code,
        },
    };
    super::wire::json(&body)
}

fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid
        | ErrorKind::NotFound
        | ErrorKind::Method
        | ErrorKind::TooLarge
        | ErrorKind::MediaType
        | ErrorKind::NotCached => "invalid_request_error",
        ErrorKind::Busy => "rate_limit_error",
        ErrorKind::Internal | ErrorKind::Unavailable => "server_error",
    }
}
