//! The paths, and what they share.

mod count;
mod generate;
mod models;
mod operate;
pub(crate) mod pins;
mod tokenize;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::middleware;
use axum::routing::{delete, get, post};
use tapri_api::{ApiError, CallId, ErrorKind, Format};
use tapri_pipeline::cache::exact::Filter;
use tapri_pipeline::{Pipeline, PurgeError, PurgeReport};
use tokio::sync::watch;

use crate::admin::{self, Door, Reload};
use crate::alerts::Alerts;
use crate::config::BodyLimit;
use crate::history::History;
use crate::metrics::Metrics;
use crate::pages::casefile::Records;
use crate::pages::{self, Pages};
use crate::tenants::Tenants;
use crate::tenants::caller::Caller;
use crate::{ServerConfig, gate, reply};

/// What every route can reach. Cheap to clone.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
    door: Door,
}

struct Inner {
    pipeline: Pipeline,
    metrics: Arc<Metrics>,
    alerts: Option<Arc<Alerts>>,
    tenants: Arc<Tenants>,
    reload: Option<Reload>,
    body_limit: BodyLimit,
    hide_cached: bool,
    stopping: watch::Sender<bool>,
    pages: Option<Pages>,
    records: Records,
    history: History,
}

impl App {
    /// An application on a pipeline.
    pub fn new(config: &ServerConfig, pipeline: Pipeline) -> Self {
        let alerts = config.alerts.clone().and_then(Alerts::start);
        let pipeline = match &alerts {
            Some(alerts) => pipeline.observed(alerts.observer()),
            None => pipeline,
        };
        // What the pages say of a call's cost is in its record.
        let records = Records::default();
        let pages = config.pages.clone().map(|pages| Pages::new(pages, &config.host));
        if let Some(pages) = &pages {
            pages.end_unknown_sign_ins(&config.tenants.current());
        }
        let pipeline = match &pages {
            Some(pages) => pipeline.observed(records.observer()).shown_on(pages.live.clone()),
            None => pipeline,
        };
        let metrics = Arc::new(Metrics::new(&pipeline, alerts.as_ref(), config.traces.clone()));
        App {
            inner: Arc::new(Inner {
                pipeline,
                metrics,
                alerts,
                tenants: Arc::clone(&config.tenants),
                reload: config.reload.clone(),
                body_limit: config.body_limit,
                hide_cached: config.hide_cached_tokens,
                stopping: watch::Sender::new(false),
                pages,
                records,
                history: History::default(),
            }),
            door: Door::Public,
        }
    }

    /// The same application behind the operator's own door.
    pub(crate) fn for_operators(&self) -> Self {
        App { inner: Arc::clone(&self.inner), door: Door::Admin }
    }

    /// Reads the configuration again, and takes what can change while calls run: tenants, keys, limits, routes, the
    /// secret. Blocks. An error changes nothing.
    pub(crate) fn reload(&self) -> Result<(), String> {
        let Some(reload) = &self.inner.reload else {
            return Err("the server was started without a configuration to read".to_owned());
        };
        let access = reload()?;
        self.inner.tenants.reload(access).map_err(|error| error.to_string())?;
        if let Some(pages) = self.pages() {
            pages.end_unknown_sign_ins(&self.inner.tenants.current());
        }
        Ok(())
    }

    /// Erases what a filter matches, also what tenants left on disk that have not called since this server began, or that
    /// are no more.
    pub(crate) async fn purge(&self, filter: &Filter) -> Result<PurgeReport, PurgeError> {
        let now = self.tenants().current();
        for tenant in &now.tenants {
            self.pipeline().note_scope(tenant.name(), &tenant.scope);
        }
        let named = filter.tenant.as_deref();
        if let Some((tenant, scope)) = named.and_then(|it| Some((it, now.scope_of(it)?))) {
            self.pipeline().note_scope(tenant, &scope);
        }
        self.pipeline().purge(filter).await
    }

    pub(crate) fn tenants(&self) -> &Arc<Tenants> {
        &self.inner.tenants
    }

    pub(crate) fn admin(&self) -> Door {
        self.door
    }

    /// An error at the gate, in the shape of a path's API.
    pub(crate) fn refuse(&self, path: &str, error: &ApiError) -> Response<Body> {
        self.inner.metrics.refused(error.status());
        gate::refusal(path, error)
    }

    /// Ends the watch on hit rates: what waits is still counted and sent, within the limit. Blocks.
    pub(crate) fn stop_alerts(&self, limit: Duration) {
        if let Some(alerts) = &self.inner.alerts {
            alerts.stop(limit);
        }
    }

    /// From now on `/health` says that no more calls should come.
    pub(crate) fn set_stopping(&self) {
        self.inner.stopping.send_replace(true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.inner.stopping.borrow()
    }

    /// Turns true when the server stops: streams that have no end of their own end then.
    pub(crate) fn closing(&self) -> watch::Receiver<bool> {
        self.inner.stopping.subscribe()
    }

    /// What the pages share; `None` where they are switched off.
    pub(crate) fn pages(&self) -> Option<&Pages> {
        self.inner.pages.as_ref()
    }

    /// Waits until no question of a page runs.
    pub(crate) async fn pages_idle(&self) {
        if let Some(pages) = self.pages() {
            pages.answers.idle().await;
        }
    }

    /// The watch on hit rates, where there is one.
    pub(crate) fn alerts(&self) -> Option<&Alerts> {
        self.inner.alerts.as_deref()
    }

    /// What the prefix cache did of late.
    pub(crate) fn history(&self) -> &History {
        &self.inner.history
    }

    /// Records that pages wait for.
    pub(crate) fn records(&self) -> &Records {
        &self.inner.records
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// Whether a caller is told nothing of what was cached.
    pub(crate) fn hides_hits(&self, caller: &Caller) -> bool {
        self.inner.hide_cached || caller.hides_hits()
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.inner.pipeline
    }

    /// A call's answer, or the error in its format, with the call's name.
    pub(crate) fn respond_in(
        &self,
        format: Format,
        id: CallId,
        result: Result<Response<Body>, ApiError>,
    ) -> Response<Body> {
        let mut response = result.unwrap_or_else(|error| {
            self.refused(&error);
            reply::error_in(format, &error, id)
        });
        reply::names(response.headers_mut(), format, id);
        response
    }

    fn refused(&self, error: &ApiError) {
        self.inner.metrics.refused(error.status());
        if error.kind == ErrorKind::Internal {
            tracing::error!(code = error.word(), "a call failed: {}", error.message);
        }
    }

    /// The answer, or the error in OpenAI's shape.
    pub(crate) fn respond(&self, result: Result<Response<Body>, ApiError>) -> Response<Body> {
        result.unwrap_or_else(|error| {
            self.refused(&error);
            reply::error(&error)
        })
    }
}

/// All the paths of an application, for a server or a test.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completion))
        .route("/v1/responses", post(generate::responses))
        .route("/v1/messages", post(generate::messages))
        .route("/v1/embeddings", post(generate::embeddings))
        .route("/v1/messages/count_tokens", post(count::count_tokens))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/cache/pins", get(pins::list).post(pins::pin))
        .route("/cache/pins/{id}", delete(pins::unpin))
        .route("/cache/reset", post(pins::reset))
        .route("/health", get(operate::health))
        .route("/metrics", get(operate::metrics))
        .merge(admin::routes())
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_such_path)
        .layer(middleware::from_fn_with_state(app.clone(), gate::pass))
        .with_state(app.clone())
        // Pages have a gate of their own: people don't send keys in headers.
        .merge(pages::routes(&app))
}

/// The operator's paths alone, for a listener of their own.
pub(crate) fn operators(app: &App) -> Router {
    let app = app.for_operators();
    Router::new()
        .route("/health", get(operate::health))
        .route("/metrics", get(operate::metrics))
        .merge(admin::routes())
        .fallback(no_such_path)
        .layer(middleware::from_fn_with_state(app.clone(), gate::pass))
        .with_state(app)
}

async fn no_such_path(State(app): State<App>, request: Request) -> Response<Body> {
    let error = ApiError::new(ErrorKind::NotFound, format!("There is no path {}", request.uri().path()))
        .code("path_not_found")
        .hint("The paths are /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens, /v1/embeddings, /v1/models, /tokenize, /detokenize, /cache/pins, /cache/reset, /health and /metrics; for people there are pages at /");
    app.refuse(request.uri().path(), &error)
}

async fn wrong_method(State(app): State<App>, request: Request) -> Response<Body> {
    let message = format!("{} is not a method of {}", request.method(), request.uri().path());
    let hint = match request.uri().path() {
        path if path.starts_with("/v1/models") || path == "/health" || path == "/metrics" => {
            "Use GET"
        }
        "/cache/pins" => "Use GET or POST",
        path if path.starts_with("/cache/pins/") => "Use DELETE",
        _ => "Use POST",
    };
    let error = ApiError::new(ErrorKind::Method, message).code("method_not_allowed").hint(hint);
    app.refuse(request.uri().path(), &error)
}
