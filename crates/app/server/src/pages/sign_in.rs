//! The page that asks for a key.

use askama::Template;
use axum::Extension;
use axum::Form;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use serde::Deserialize;

use super::render::{self, Frame};
use super::texts::{ENGLISH, SignInTexts};
use super::visitor::{COOKIE, Visitor, cookie};
use crate::routes::App;
use crate::tenants::caller::Caller;
use crate::tenants::key::KeyHash;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: Frame,
    t: &'static SignInTexts,
    next: &'a str,
}

#[derive(Deserialize)]
pub(super) struct Back {
    #[serde(default)]
    next: String,
}

/// `GET /sign-in`.
pub(super) async fn page(
    Extension(visitor): Extension<Visitor>,
    Query(Back { next }): Query<Back>,
) -> Response<Body> {
    let t = &ENGLISH.sign_in;
    render::page(&SignInPage {
        frame: Frame::new(&visitor, "/sign-in", t.title),
        t,
        next: local(&next),
    })
}

#[derive(Deserialize)]
pub(super) struct Shown {
    key: String,
    #[serde(default)]
    next: String,
}

/// `POST /sign-in`.
pub(super) async fn enter(State(app): State<App>, Form(shown): Form<Shown>) -> Response<Body> {
    let Some(pages) = app.pages() else { return render::gone() };
    let hash = KeyHash::of(shown.key.trim());
    let now = app.tenants().current();
    let is_admin = now.is_admin(&hash);
    if !is_admin && Caller::of_hash(app.tenants(), &hash).is_none() {
        let t = &ENGLISH.sign_in;
        return render::trouble(StatusCode::UNPROCESSABLE_ENTITY, t.unknown, Some(t.unknown_hint));
    }
    let Ok(name) = pages.sign_ins.enter(hash, Timestamp::now()) else {
        return render::failed();
    };
    // What can't be written is good until the server ends, and the log says so.
    pages.sign_ins.written().await;
    with_cookie(&format!("{COOKIE}={name}; Path=/; HttpOnly; SameSite=Strict"), local(&shown.next))
}

/// `POST /sign-out`.
pub(super) async fn leave(State(app): State<App>, headers: HeaderMap) -> Response<Body> {
    if let (Some(pages), Some(name)) = (app.pages(), cookie(&headers)) {
        pages.sign_ins.leave(name);
        if !pages.sign_ins.written().await {
            return render::failed();
        }
    }
    let gone = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    with_cookie(&gone, "/sign-in")
}

fn with_cookie(cookie: &str, next: &str) -> Response<Body> {
    let mut response = render::go_to(next);
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    // What the browser kept of the pages of another sign-in goes.
    response
        .headers_mut()
        .insert(HeaderName::from_static("clear-site-data"), HeaderValue::from_static("\"cache\""));
    response
}

/// A path of this server; anything else would send the person elsewhere with a sign-in just made.
fn local(next: &str) -> &str {
    let is_path = next.starts_with('/')
        && !next.starts_with("//")
        && !next.contains(['\\', '\r', '\n'])
        && !next.starts_with("/sign-");
    if is_path { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        assert_eq!(local("/calls?tenant=red"), "/calls?tenant=red");
        for elsewhere in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/sign-out"]
        {
            assert_eq!(local(elsewhere), "/", "{elsewhere}");
        }
    }
}
