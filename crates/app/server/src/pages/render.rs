//! Templates to answers.

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;

use super::texts::{ENGLISH, FrameTexts};
use super::visitor::Visitor;
use super::{assets, navigation};
use crate::reply;

const HTML: &str = "text/html; charset=utf-8";

/// What stands around every page.
pub(crate) struct Frame {
    pub(crate) t: &'static FrameTexts,
    /// The page's name, without Tapri's.
    pub(crate) title: String,
    pub(crate) csrf: String,
    pub(crate) nav: Vec<NavItem>,
    /// Who is signed in, where that can be ended.
    pub(crate) who: Option<String>,
}

/// An entry of the navigation.
pub(crate) struct NavItem {
    pub(crate) path: &'static str,
    pub(crate) label: &'static str,
    pub(crate) current: bool,
}

impl Frame {
    /// Of a page at an address.
    pub(crate) fn new(visitor: &Visitor, path: &str, title: impl Into<String>) -> Self {
        let t = &ENGLISH.frame;
        let who = visitor.signed_in.then(|| match (&visitor.caller, visitor.operator) {
            (Some(caller), false) => caller.name().to_owned(),
            _ => t.operator.to_owned(),
        });
        let nav = navigation(t, visitor.operator)
            .map(|(at, label)| NavItem { path: at, label, current: at == path })
            .collect();
        Frame { t, title: title.into(), csrf: visitor.csrf.clone(), nav, who }
    }

    /// Of a page that nobody was let in to.
    pub(crate) fn bare(title: &str) -> Self {
        Frame {
            t: &ENGLISH.frame,
            title: title.to_owned(),
            csrf: String::new(),
            nav: Vec::new(),
            who: None,
        }
    }

    /// The address of a file that pages load.
    pub(crate) fn asset(&self, name: &str) -> String {
        assets::address(name)
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    frame: Frame,
    message: &'a str,
    hint: Option<&'a str>,
}

#[derive(Template)]
#[template(path = "trouble.html")]
struct Trouble<'a> {
    message: &'a str,
    hint: Option<&'a str>,
}

/// An answer that says why not; boxed, as it is passed by value everywhere.
#[derive(Debug)]
pub(crate) struct Refused(Box<Response<Body>>);

impl From<Response<Body>> for Refused {
    fn from(response: Response<Body>) -> Self {
        Refused(Box::new(response))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response<Body> {
        *self.0
    }
}

/// A page, or why there is none.
pub(crate) type Page = Result<Response<Body>, Refused>;

/// A template's HTML: a page, or a part of one.
pub(crate) fn page(template: &impl Template) -> Response<Body> {
    with_status(StatusCode::OK, template)
}

/// The same with a status of its own.
pub(crate) fn with_status(status: StatusCode, template: &impl Template) -> Response<Body> {
    let mut response = match template.render() {
        Ok(html) => reply::typed(HTML, html),
        // Writing to a string fails only where a value's own writing does, and none of ours does.
        Err(error) => {
            tracing::error!("a page could not be written: {error}");
            reply::typed(HTML, ENGLISH.frame.failed)
        }
    };
    *response.status_mut() = status;
    response
}

/// A whole page with a message.
pub(crate) fn message(
    status: StatusCode,
    frame: Frame,
    message: &str,
    hint: Option<&str>,
) -> Response<Body> {
    with_status(status, &Message { frame, message, hint })
}

/// A message to be put into a page, for a request of a page that can't be done.
pub(crate) fn trouble(status: StatusCode, message: &str, hint: Option<&str>) -> Response<Body> {
    with_status(status, &Trouble { message, hint })
}

/// What was asked for isn't there.
pub(crate) fn gone() -> Response<Body> {
    let t = &ENGLISH.frame;
    message(StatusCode::NOT_FOUND, Frame::bare(t.not_found), t.not_found_message, None)
}

/// A defect on this side; the log has been told.
pub(crate) fn failed() -> Response<Body> {
    let t = &ENGLISH.frame;
    trouble(StatusCode::INTERNAL_SERVER_ERROR, t.failed, Some(t.failed_hint))
}

/// Has htmx go to another page.
pub(crate) fn go_to(path: &str) -> Response<Body> {
    let mut response = reply::typed(HTML, Body::empty());
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(HeaderName::from_static("hx-redirect"), path);
    }
    response
}

/// Nothing to show: what changed is told elsewhere.
pub(crate) fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
