//! Reading a request's body.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt;
use tapri_api::{ApiError, ErrorKind};
use tokio::time::{Instant, timeout_at};

use crate::config::BodyLimit;

/// A body that says it is JSON, whole and within the limit. What is in it is for the wire format to judge.
pub(crate) async fn read_json(
    headers: &HeaderMap,
    mut body: Body,
    limit: BodyLimit,
) -> Result<Bytes, ApiError> {
    media_type(headers)?;
    let BodyLimit { bytes: limit, timeout, rate } = limit;
    // A body that announces its length is refused before any of it is read.
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    // No more than what is announced is set aside, and no more than comes.
    let begun = Instant::now();
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut read = 0;
    loop {
        // A body that comes byte by byte holds its connection no longer than one that comes in time.
        let earned = Duration::from_secs(read as u64 / rate.max(1));
        let until = begun + timeout + earned;
        let frame = timeout_at(until, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|_| broken_off())?.into_data() else { continue };
        read += data.len();
        if read > limit {
            return Err(too_large(limit));
        }
        chunks.push(data);
    }
    Ok(match <[Bytes; 1]>::try_from(chunks) {
        Ok([one]) => one,
        Err(chunks) => chunks.concat().into(),
    })
}

fn broken_off() -> ApiError {
    ApiError::new(ErrorKind::Invalid, "The body broke off before its end").code("incomplete_body")
}

fn too_slow() -> ApiError {
    ApiError::new(ErrorKind::TooSlow, "The body came too slowly")
        .code("body_timeout")
        .hint("Send it again over a faster connection")
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
