//! `/admin` and who may reach it: on a listener of its own, or with a key of its own.
//!
//! On the public listener the paths exist only with an admin key. On the admin listener no key is asked for unless
//! there is one; it belongs on a loopback address or a private network. `/metrics` tells of all tenants, so once
//! there are tenants with keys it is the operator's as well.

mod cache;
mod engine;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use axum::routing::{get, post};
use serde_json::json;
use subtle::ConstantTimeEq;
use tapri_api::{ApiError, ErrorKind};

use crate::reply;
use crate::routes::App;
use crate::tenants::AccessConfig;
use crate::tenants::caller::shown_keys;
use crate::tenants::key::KeyHash;

/// Reads the configuration again. It blocks. The error is for the operator.
pub type Reload = Arc<dyn Fn() -> Result<AccessConfig, String> + Send + Sync>;

/// Which door requests come through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Door {
    /// The one for clients.
    #[default]
    Public,
    /// The operator's own listener.
    Admin,
}

impl Door {
    /// Whether an operator's request may pass.
    pub(crate) fn may_pass(
        self,
        app: &App,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        let now = app.tenants().current();
        match &now.admin_key {
            Some(key) => has_key(headers, key),
            None if self == Door::Admin => Ok(()),
            None if path == "/metrics" && !now.asks_for_keys() => Ok(()),
            None if path == "/metrics" => Err(ApiError::new(
                ErrorKind::Forbidden,
                "The metrics tell of all tenants, so they are not shown here",
            )
            .code("admin_only")
            .hint("Have the operator set `listen` or `key` in [admin]")),
            None => {
                Err(ApiError::new(ErrorKind::NotFound, format!("There is no path {path} here"))
                    .code("path_not_found")
                    .hint("Have the operator set `listen` or `key` in [admin]"))
            }
        }
    }
}

/// Compared in constant time, as hashes of one length.
fn has_key(headers: &HeaderMap, key: &KeyHash) -> Result<(), ApiError> {
    let shown = shown_keys(headers).any(|shown| KeyHash::of(shown).0.ct_eq(&key.0).into());
    if shown {
        return Ok(());
    }
    Err(ApiError::new(ErrorKind::Unauthorized, "This path needs the admin key")
        .code("invalid_api_key")
        .hint("Send it as `Authorization: Bearer KEY`"))
}

/// The operator's paths.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/admin/tenants", get(tenants))
        .route("/admin/reload", post(reload))
        .route("/admin/engine", get(engine::holdings))
        .route("/admin/cache", get(cache::stats))
        .route("/admin/cache/purge", post(cache::purge))
}

/// `GET /admin/tenants`: who there is, what each may use and what it has left. No keys, no hashes, no scopes.
async fn tenants(State(app): State<App>) -> Response<Body> {
    let now = app.tenants().current();
    let at = app.tenants().now();
    let tenants: Vec<_> = now
        .tenants
        .iter()
        .map(|tenant| {
            let limits = &tenant.config.limits;
            let (requests, tokens) = tenant.used.left(limits, at);
            json!({
                "name": tenant.name(),
                "keys": tenant.config.keys.len(),
                "routes": tenant.config.routes,
                "sees_hits": !tenant.config.hides_hits,
                "running": tenant.used.running(),
                "limits": {
                    "requests_per_minute": limits.requests,
                    "tokens_per_minute": limits.tokens,
                    "concurrent": limits.concurrent,
                    "kv_share": limits.kv_share,
                },
                "remaining": {
                    "requests": requests.map(|left| left.remaining),
                    "tokens": tokens.map(|left| left.remaining),
                },
            })
        })
        .collect();
    let routes: Vec<_> = now.routes.iter().map(|route| &route.name).collect();
    reply::json(json!({ "tenants": tenants, "routes": routes }).to_string())
}

/// `POST /admin/reload`: as SIGHUP does.
async fn reload(State(app): State<App>) -> Response<Body> {
    // Reading files blocks.
    let done = {
        let app = app.clone();
        tokio::task::spawn_blocking(move || app.reload()).await
    };
    let result = match done {
        Ok(Ok(())) => Ok(reply::json(json!({ "reloaded": true }).to_string())),
        Ok(Err(error)) => Err(ApiError::new(
            ErrorKind::Invalid,
            format!("The configuration was not reloaded, and the old one stays: {error}"),
        )
        .code("reload_failed")),
        Err(_) => Err(ApiError::new(ErrorKind::Internal, "The configuration could not be read")),
    };
    app.respond(result)
}
