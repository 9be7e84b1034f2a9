//! What every request of a page passes: the name it came under, where it came from, and who looks.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;

use super::Pages;
use super::render::{self, Frame};
use super::show::encoded;
use super::texts::ENGLISH;
use super::visitor::{CSRF, Visitor};
use crate::routes::App;

/// Nothing but this server's own files, no plug-ins, no frames, no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// htmx says so of its own requests.
const HTMX: &str = "hx-request";

const FETCH_SITE: &str = "sec-fetch-site";

/// Lets a request pass or answers it, and sets the headers that every page has.
pub(crate) async fn pass(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let admitted = app.pages().ok_or(Refusal::NoPages).and_then(|pages| {
        let visitor = admit(&app, pages, &request)?;
        request.extensions_mut().insert(visitor);
        Ok(())
    });
    let mut response = match admitted {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.answer(&request),
    };
    if let Some(pages) = app.pages() {
        pages.sign_ins.settle().await;
    }
    protect(response.headers_mut());
    response
}

enum Refusal {
    NoPages,
    Host,
    Origin,
    SignIn,
    Busy(tapri_api::ApiError),
}

impl Refusal {
    fn answer(self, request: &Request) -> Response<Body> {
        let (status, message, hint) = match self {
            Refusal::SignIn => return to_sign_in(request),
            Refusal::NoPages => (StatusCode::NOT_FOUND, ENGLISH.frame.not_found_message, ""),
            Refusal::Host => {
                let t = &ENGLISH.frame;
                (StatusCode::MISDIRECTED_REQUEST, t.wrong_host, t.wrong_host_hint)
            }
            Refusal::Origin => {
                let t = &ENGLISH.frame;
                (StatusCode::FORBIDDEN, t.wrong_origin, t.wrong_origin_hint)
            }
            Refusal::Busy(error) => {
                return render::trouble(
                    StatusCode::TOO_MANY_REQUESTS,
                    &error.message,
                    error.hint.as_deref(),
                );
            }
        };
        if request.method() == Method::GET && !is_htmx(request.headers()) {
            let frame = Frame::bare(ENGLISH.frame.refused);
            return render::message(status, frame, message, Some(hint).filter(|it| !it.is_empty()));
        }
        render::trouble(status, message, Some(hint).filter(|it| !it.is_empty()))
    }
}

/// To the page that asks for a key, and back afterwards.
fn to_sign_in(request: &Request) -> Response<Body> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let mut response = Response::new(Body::empty());
    let is_page = request.method() == Method::GET && !is_htmx(request.headers());
    let target =
        if is_page { format!("/sign-in?next={}", encoded(path)) } else { "/sign-in".to_owned() };
    let Ok(target) = HeaderValue::from_str(&target) else { return response };
    if is_page {
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(header::LOCATION, target);
    } else {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response.headers_mut().insert(HeaderName::from_static("hx-redirect"), target);
    }
    response
}

fn is_htmx(headers: &HeaderMap) -> bool {
    headers.contains_key(HTMX)
}

fn admit(app: &App, pages: &Pages, request: &Request) -> Result<Visitor, Refusal> {
    let headers = request.headers();
    let path = request.uri().path();
    let asks_for_keys = app.tenants().current().asks_for_keys();
    if !asks_for_keys && !is_own_name(host(request), &pages.host) {
        return Err(Refusal::Host);
    }
    let visitor = Visitor::of(app, pages, headers);
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let token = headers.get(CSRF).and_then(|token| token.to_str().ok()).unwrap_or("");
        if !is_same_origin(headers, host(request)) || !pages.sign_ins.is_token(&visitor, token) {
            return Err(Refusal::Origin);
        }
        if let Some(caller) = &visitor.caller {
            caller.count_request().map_err(Refusal::Busy)?;
        }
    }
    let open = path == "/sign-in" || path.starts_with("/assets/");
    if asks_for_keys && !open && visitor.caller.is_none() && !visitor.operator {
        return Err(Refusal::SignIn);
    }
    Ok(visitor)
}

/// The name that a request came under, with its port.
fn host(request: &Request) -> &str {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri().authority().map(|it| it.as_str())).unwrap_or("")
}

/// Without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether a name is this machine's own. A site that points a name of its own at this machine (DNS rebinding) comes under
/// that name; an address in digits can't be pointed anywhere, so it may be any where the server listens on all.
fn is_own_name(host: &str, configured: &str) -> bool {
    let name = name_of(host);
    let configured = configured.trim_start_matches('[').trim_end_matches(']');
    if name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(configured) {
        return true;
    }
    let Ok(address) = name.parse::<std::net::IpAddr>() else { return false };
    let listens_on_all =
        configured.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified());
    address.is_loopback() || listens_on_all
}

/// Whether a changing request came from a page of this server, as far as the browser says. What is no browser says
/// nothing, and has the token to show.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return site == "same-origin";
    }
    match headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("null")) {
        Some(origin) => origin.split_once("://").is_some_and(|(_, authority)| authority == host),
        None => true,
    }
}

fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Pages show files and answers: no copy stays in a browser's or a proxy's cache.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for (host, configured, own) in [
            ("localhost:8080", "127.0.0.1", true),
            ("127.0.0.1:8080", "127.0.0.1", true),
            ("[::1]:8080", "::1", true),
            ("127.0.0.53", "127.0.0.1", true),
            ("tapri.example:8080", "127.0.0.1", false),
            ("tapri.example:8080", "tapri.example", true),
            ("192.168.1.5:8080", "127.0.0.1", false),
            ("192.168.1.5:8080", "0.0.0.0", true),
            ("192.168.1.5.evil.example", "0.0.0.0", false),
            ("localhost.evil.example:8080", "127.0.0.1", false),
            ("", "127.0.0.1", false),
        ] {
            assert_eq!(is_own_name(host, configured), own, "{host} at {configured}");
        }
    }

    #[test]
    fn where_changes_may_come_from() {
        let said = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            is_same_origin(&headers, "localhost:8080")
        };
        assert!(said(&[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8080")]));
        assert!(!said(&[("sec-fetch-site", "cross-site"), ("origin", "http://localhost:8080")]));
        assert!(!said(&[("sec-fetch-site", "same-site")]));
        assert!(said(&[("origin", "http://localhost:8080")]));
        assert!(!said(&[("origin", "http://localhost:9090")]));
        assert!(!said(&[("origin", "null")]));
        assert!(said(&[]), "no browser: the token decides");
    }
}
