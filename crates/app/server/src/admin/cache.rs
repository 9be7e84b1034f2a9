//! `/admin/cache`: what the caches hold, and erasing it.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde::Deserialize;
use serde_json::json;
use tapri_api::{ApiError, ErrorKind};
use tapri_pipeline::cache::exact::Filter;

use crate::routes::App;
use crate::{BodyLimit, body, reply};

/// The largest body of a purge.
const BODY_LIMIT: usize = 64 << 10;

/// What is to be erased: what matches all that is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Purge {
    tenant: Option<String>,
    route: Option<String>,
    model: Option<String>,
    session: Option<String>,
    document: Option<String>,
    older_than_seconds: Option<u64>,
    /// Has to be said where nothing else is: an empty object is more likely a mistake.
    #[serde(default)]
    all: bool,
}

/// `GET /admin/cache`.
pub(super) async fn stats(State(app): State<App>) -> Response<Body> {
    let pipeline = app.pipeline();
    let store = match pipeline.exact() {
        Some(exact) => exact.store_stats().await,
        None => None,
    };
    let (store, store_error) = match store {
        Some(Ok(stats)) => (Some(stats), None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    reply::json(
        json!({ "exact": pipeline.exact_stats(), "store": store, "store_error": store_error })
            .to_string(),
    )
}

/// `POST /admin/cache/purge`.
pub(super) async fn purge(State(app): State<App>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let result = async {
        let bytes = body::read_json(&parts.headers, body, limit()).await?;
        let filter = filter(&bytes)?;
        let report = app.purge(&filter).await.map_err(|error| {
            tracing::error!("a purge failed: {error}");
            ApiError::new(ErrorKind::Unavailable, error.to_string())
                .code("purge_incomplete")
                .hint("Send it again once the store can be reached")
        })?;
        tracing::info!(answers = report.answers, kv_blocks = report.kv_blocks, "purged");
        Ok(reply::json(json!(report).to_string()))
    };
    let result = result.await;
    app.respond(result)
}

/// A purge is a few names.
fn limit() -> BodyLimit {
    BodyLimit { bytes: BODY_LIMIT, ..BodyLimit::default() }
}

fn filter(bytes: &[u8]) -> Result<Filter, ApiError> {
    let purge: Purge = serde_json::from_slice(bytes).map_err(|error| {
        ApiError::new(ErrorKind::Invalid, format!("The body is no filter: {error}"))
            .code("invalid_filter")
            .hint("Give some of tenant, route, model, session, document and older_than_seconds, or all: true")
    })?;
    let Purge { tenant, route, model, session, document, older_than_seconds, all } = purge;
    let older_than = older_than_seconds.map(Duration::from_secs);
    let filter = Filter { tenant, route, model, session, document, older_than };
    if filter.is_all() != all {
        let message = match all {
            true => "`all` and something else are given",
            false => "Nothing is named that is to be erased",
        };
        return Err(ApiError::new(ErrorKind::Invalid, message)
            .code("invalid_filter")
            .hint("Name a tenant, route, model, session, document or age, or say all: true"));
    }
    Ok(filter)
}
