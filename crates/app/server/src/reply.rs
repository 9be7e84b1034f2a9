//! Answers that are no stream: JSON bodies and errors.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use tapri_api::openai;
use tapri_api::{ApiError, CacheStatus, CallId, ErrorKind, TemplateUse};

/// The header that every generating answer carries (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// OpenAI's name for an answer's id; its SDKs show it with errors.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Says that the model has no chat template of its own.
const TEMPLATE: HeaderName = HeaderName::from_static("x-tapri-template");

/// A body of JSON.
pub(crate) fn json(body: String) -> Response<Body> {
    typed("application/json", body)
}

/// A body of a type.
pub(crate) fn typed(media_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Whether a path is one of Anthropic's API.
pub(crate) fn is_anthropic(path: &str) -> bool {
    path == "/v1/messages" || path.starts_with("/v1/messages/")
}

/// An error in OpenAI's shape.
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    error_with(error, openai::error::render(error))
}

/// An error in the shape of a path's API.
pub(crate) fn error_at(path: &str, error: &ApiError) -> Response<Body> {
    if !is_anthropic(path) {
        return self::error(error);
    }
    let kind = match error.status() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let body = serde_json::json!({
        "type": "error",
        "error": { "type": kind, "message": error.to_string() },
    });
    error_with(error, body.to_string())
}

fn error_with(error: &ApiError, body: String) -> Response<Body> {
    let mut response = json(body);
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(wait) = error.retry_after {
        // Whole seconds, rounded up: a client that comes too early is refused again.
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    // A call with a body that wasn't read leaves the connection in no state to be used again.
    if matches!(error.kind, ErrorKind::TooLarge | ErrorKind::TooSlow) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What the headers of an answer say of its call.
pub(crate) fn call_headers(
    headers: &mut HeaderMap,
    id: CallId,
    status: Option<&CacheStatus>,
    template: Option<TemplateUse>,
) {
    request_id(headers, id);
    if let Some(value) = status.and_then(|status| HeaderValue::from_str(&status.to_string()).ok()) {
        headers.insert(CACHE_STATUS, value);
    }
    if template == Some(TemplateUse::ChatMlFallback) {
        headers.insert(TEMPLATE, HeaderValue::from_static("chatml-fallback"));
    }
}

/// The call's id alone, for answers that got no further.
pub(crate) fn request_id(headers: &mut HeaderMap, id: CallId) {
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
}
