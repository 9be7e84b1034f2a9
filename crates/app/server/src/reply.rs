//! Answers that are no stream: JSON bodies and errors.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use tapri_api::convert::Dropped;
use tapri_api::encode;
use tapri_api::{ApiError, CacheStatus, CallId, ErrorKind, Format, TemplateUse};

/// The header that every generating answer carries (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// OpenAI's name for an answer's id; its SDKs show it with errors.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Anthropic's name for it.
const ANTHROPIC_ID: HeaderName = HeaderName::from_static("request-id");
/// An upstream's name for a request that it refused: what its operator asks for.
const UPSTREAM_ID: HeaderName = HeaderName::from_static("x-tapri-upstream-request-id");
/// What of a request was left out on the way to an upstream.
const WARNING: HeaderName = HeaderName::from_static("x-tapri-warning");
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
    error_with(error, encode::error(Format::Chat, error, None))
}

/// An error of a call in the shape of its API, with the names that its call has here and at an upstream.
pub(crate) fn error_in(format: Format, error: &ApiError, call: CallId) -> Response<Body> {
    let mut response = error_with(error, encode::error(format, error, Some(&call.to_string())));
    names(response.headers_mut(), format, call);
    let upstream = error.upstream.as_ref().and_then(|upstream| upstream.request_id.as_deref());
    if let Some(id) = upstream.and_then(|id| HeaderValue::from_str(id).ok()) {
        response.headers_mut().insert(UPSTREAM_ID, id);
    }
    response
}

/// An error in the shape of a path's API.
pub(crate) fn error_at(path: &str, error: &ApiError) -> Response<Body> {
    if !is_anthropic(path) {
        return self::error(error);
    }
    error_with(error, encode::error(Format::Messages, error, None))
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

/// Names what of a request its upstream's API has no words for: cache markers above all, which would else vanish without
/// a sign but the bill.
pub(crate) fn warnings(headers: &mut HeaderMap, dropped: &[Dropped]) {
    let all: Vec<String> = dropped.iter().map(Dropped::to_string).collect();
    if let (false, Ok(value)) = (all.is_empty(), HeaderValue::from_str(&all.join("; "))) {
        headers.insert(WARNING, value);
    }
}

/// The call's id under the names of its API.
pub(crate) fn names(headers: &mut HeaderMap, format: Format, id: CallId) {
    request_id(headers, id);
    if let (Format::Messages, Ok(value)) = (format, HeaderValue::from_str(&id.to_string())) {
        headers.insert(ANTHROPIC_ID, value);
    }
}

/// The call's id alone, for answers that got no further.
pub(crate) fn request_id(headers: &mut HeaderMap, id: CallId) {
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert(REQUEST_ID, value);
    }
}
