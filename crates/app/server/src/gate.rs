//! The gate that every request passes: whose it is, whether it may, and what its tenant has left.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, header};
use axum::middleware::Next;
use jiff::Timestamp;
use tapri_api::{ApiError, ErrorKind};

use crate::reply;
use crate::routes::App;
use crate::tenants::caller::Caller;
use crate::tenants::limits::Left;

/// Finds the tenant of a request and counts the request, or refuses it in the shape of its path's API.
pub(crate) async fn pass(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    // Whoever watches whether the server lives has no key.
    if path == "/health" {
        return next.run(request).await;
    }
    if is_operators(&path) {
        return match app.admin().may_pass(&app, &path, request.headers()) {
            Ok(()) => next.run(request).await,
            Err(error) => app.refuse(&path, &error),
        };
    }
    let caller = match Caller::identify(app.tenants(), request.headers()) {
        Ok(caller) => caller,
        Err(error) => return app.refuse(&path, &error),
    };
    let counted = if request.method() == Method::POST { caller.count_request() } else { Ok(()) };
    let mut response = match counted {
        Ok(()) => {
            request.extensions_mut().insert(caller.clone());
            next.run(request).await
        }
        Err(error) => app.refuse(&path, &error),
    };
    say_what_is_left(response.headers_mut(), &path, &caller);
    response
}

/// Paths that are no tenant's.
fn is_operators(path: &str) -> bool {
    path == "/metrics" || path == "/admin" || path.starts_with("/admin/")
}

/// An error in the shape of a path's API, with what its status asks for.
pub(crate) fn refusal(path: &str, error: &ApiError) -> Response<Body> {
    let mut response = reply::error_at(path, error);
    if error.kind == ErrorKind::Unauthorized {
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The headers by which clients pace themselves, with the names of the path's API.
fn say_what_is_left(headers: &mut HeaderMap, path: &str, caller: &Caller) {
    let (requests, tokens) = caller.left();
    let anthropic = reply::is_anthropic(path);
    for (what, left) in [("requests", requests), ("tokens", tokens)] {
        let Some(left) = left else { continue };
        let values = [
            ("limit", left.limit.to_string()),
            ("remaining", left.remaining.to_string()),
            ("reset", reset(&left, anthropic)),
        ];
        for (kind, value) in values {
            let name = if anthropic {
                format!("anthropic-ratelimit-{what}-{kind}")
            } else {
                format!("x-ratelimit-{kind}-{what}")
            };
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                headers.insert(name, value);
            }
        }
    }
}

/// When all of it can be had again: OpenAI says how long (`1.5s`, `2m0s`), Anthropic the time.
fn reset(left: &Left, anthropic: bool) -> String {
    let millis = left.reset.as_millis();
    if anthropic {
        let at = Timestamp::now() + std::time::Duration::from_secs(left.reset.as_secs() + 1);
        return at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..60_000 => format!("{}s", (millis as f64 / 100.0).ceil() / 10.0),
        _ => format!("{}m{}s", millis / 60_000, millis % 60_000 / 1000),
    }
}
