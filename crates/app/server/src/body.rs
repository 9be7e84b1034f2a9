//! Reading a request's body.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tapri_api::{ApiError, ErrorKind};

/// A body that says it is JSON, whole and within the limit. What is in it is for the wire format to judge.
pub(crate) async fn read_json(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, ApiError> {
    media_type(headers)?;
    // A body that announces its length is refused before any of it is read.
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Err(_) => Err(ApiError::new(ErrorKind::Invalid, "The body broke off before its end")
            .code("incomplete_body")),
    }
}

fn media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    // Absent is taken for JSON: nothing else is ever meant here.
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence =
        value.to_str().unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
    {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::MediaType, "The body's content type is not JSON")
        .code("unsupported_media_type")
        .hint("Send the header `Content-Type: application/json`"))
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(ErrorKind::TooLarge, format!("The body is larger than {limit} bytes"))
        .code("body_too_large")
        .hint("Send less, or have the operator raise the limit")
}
