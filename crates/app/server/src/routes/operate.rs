//! `/health` and `/metrics`, for those who run the server.

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use tapri_api::{ApiError, ErrorKind};

use super::App;
use crate::reply;

/// `GET /health`: 200 while calls are taken, 503 once the server is stopping.
pub(super) async fn health(State(app): State<App>) -> Response<Body> {
    if app.is_stopping() {
        return reply::error(
            &ApiError::new(ErrorKind::Unavailable, "The server is stopping").code("stopping"),
        );
    }
    reply::json(r#"{"status":"ok"}"#.to_owned())
}

/// `GET /metrics`.
pub(super) async fn metrics(State(app): State<App>) -> Response<Body> {
    let rendered = app.inner.metrics.render();
    app.respond(match rendered {
        Ok(text) => {
            Ok(reply::typed("application/openmetrics-text; version=1.0.0; charset=utf-8", text))
        }
        Err(_) => Err(ApiError::new(ErrorKind::Internal, "The metrics could not be written")),
    })
}
