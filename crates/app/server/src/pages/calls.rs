//! The page at `/calls`: the ledger, filtered by its address, live; and one call with its prompt as a strip.
//!
//! Map: [`filters`] what an address asks for; `rows` calls in the table; `events` calls as they end; `one` a call.

mod events;
mod filters;
mod one;
mod rows;

use askama::Template;
use axum::Extension;
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use jiff::Timestamp;

use self::filters::{Asked, Choice, Field};
use self::rows::Rows;
use super::reading::{self, Sees};
use super::render::{self, Frame, Page};
use super::show::encoded;
use super::texts::{CallsTexts, ENGLISH};
use super::visitor::Visitor;
use crate::routes::App;

/// The page's address.
pub(super) const PATH: &str = "/calls";

/// The address of a call.
fn address(id: &str) -> String {
    format!("{PATH}/{}", encoded(id))
}

/// As much of a call's name as tells it from others.
fn short(id: &str) -> String {
    id.chars().take(8).collect()
}

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route(PATH, get(list))
        .route("/calls/events", get(events::stream))
        .route("/calls/{id}", get(one::call))
}

#[derive(Template)]
#[template(path = "calls/list.html")]
struct List {
    frame: Frame,
    t: &'static CallsTexts,
    fields: Vec<Field>,
    /// What of the address could not be understood.
    not_understood: Vec<String>,
    filtered: bool,
    recorded: bool,
    rows: Rows,
    unreadable: u64,
    first: Option<String>,
    older: Option<String>,
    /// Where the newest calls are told as they end; only on the first page.
    events: Option<String>,
}

/// `GET /calls`.
async fn list(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Query(asked): Query<Asked>,
) -> Page {
    let t = &ENGLISH.calls;
    let sees = Sees::of(&app, &visitor, PATH, t.title)?;
    let read = asked.read(&sees, Timestamp::now());
    let filter = read.filter.clone();
    let tenant = sees.tenant(None);
    let found = reading::ledger(&app, move |ledger| {
        Ok((ledger.page(&filter)?, ledger.names(tenant.as_deref())?))
    });
    let found = found.await?;
    let recorded = app.pipeline().recorder().ledger().is_some();
    let (page, names) = found.unwrap_or_default();
    let several = names.tenants.len() > 1;
    let choice = Choice { asked: &asked, names: &names, sees: &sees };
    let is_first = read.filter.after.is_none();
    let template = List {
        fields: choice.fields(),
        filtered: asked.filters(),
        recorded,
        unreadable: page.unreadable,
        first: (!is_first).then(|| asked.address(PATH, None)),
        older: page.next.map(|next| asked.address(PATH, Some(&next.to_string()))),
        events: is_first.then(|| asked.address("/calls/events", None)),
        rows: Rows::new(page.records.into_iter().map(|it| sees.censored(it)), several, false),
        not_understood: read.not_understood,
        frame: Frame::new(&visitor, PATH, t.title),
        t,
    };
    Ok(render::page(&template))
}
