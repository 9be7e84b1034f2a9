//! What a page is told while it is open: server-sent events, as long as the page and the server are there.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use futures_util::{Stream, StreamExt};
use serde_json::Value;

use crate::reply;

/// How long a stream may be silent: it is how a page learns that its server is gone.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What is sent after a silence. Pages hear nothing of it.
pub(super) const HERE: &str = ": here\n\n";

/// What a stream begins with: how soon a page comes back when it breaks off, in milliseconds.
pub(super) const RETRY: &str = "retry: 2000\n\n";

/// An event. The data is JSON, so that a line's end in a text is no end of the event.
pub(super) fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// An answer that lasts as long as there are frames.
pub(super) fn response(frames: impl Stream<Item = String> + Send + 'static) -> Response<Body> {
    let frames = frames.map(|frame| Ok::<_, Infallible>(Bytes::from(frame)));
    let mut response = reply::typed("text/event-stream", Body::from_stream(frames));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
