//! The page at `/cache`: what the KV memory holds, who shares what, what had to go; the caches of answers; and erasing.
//!
//! It tells of all tenants, so it is the operator's alone.
//!
//! Map: [`memory`] the KV memory; `pins` what stays in it; `answers` the exact and the semantic cache; `purge` erasing, in two steps.

mod answers;
mod memory;
mod pins;
mod purge;

use askama::Template;
use axum::Extension;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use jiff::Timestamp;

use self::answers::AnswerCache;
use self::memory::Memory;
use self::pins::Pinned;
use super::reading;
use super::render::{self, Frame, Page};
use super::texts::{CacheTexts, ENGLISH};
use super::visitor::Visitor;
use crate::routes::App;

/// The page's address.
pub(super) const PATH: &str = "/cache";

/// Runs of blocks that are drawn: more than a map has room for.
const RUNS: usize = 4096;

pub(super) fn routes() -> Router<App> {
    Router::new().route(PATH, get(page)).route("/cache/purge", post(purge::purge))
}

#[derive(Template)]
#[template(path = "cache/page.html")]
struct CachePage {
    frame: Frame,
    t: &'static CacheTexts,
    memory: Option<Memory>,
    /// Why the memory can't be shown, and what to do.
    trouble: Option<(String, String)>,
    /// None where nothing can be pinned.
    pinned: Option<Pinned>,
    answers: Vec<AnswerCache>,
    tenants: Vec<String>,
}

/// `GET /cache`.
async fn page(State(app): State<App>, Extension(visitor): Extension<Visitor>) -> Page {
    let t = &ENGLISH.cache;
    reading::operators(&visitor, PATH, t.title)?;
    let pipeline = app.pipeline();
    let now = Timestamp::now();
    let (memory, trouble) = match (pipeline.stats(), pipeline.prefix_map(RUNS).await) {
        (Some(stats), Ok(Some((map, tenants)))) => {
            app.history().look(&stats, now);
            let minutes = app.history().minutes(now);
            (Some(Memory::new(&stats, &map, &tenants, &minutes)), None)
        }
        (_, Ok(_)) => (None, Some((t.no_memory.to_owned(), t.no_memory_hint.to_owned()))),
        (_, Err(error)) => {
            let hint = error.hint.map_or_else(String::new, |hint| hint.to_string());
            (None, Some((error.message, hint)))
        }
    };
    let access = app.tenants().current();
    Ok(render::page(&CachePage {
        frame: Frame::new(&visitor, PATH, t.title),
        t,
        memory,
        trouble,
        pinned: pins::all(&app).await,
        answers: answers::all(&app, now).await,
        tenants: access.tenants.iter().map(|tenant| tenant.name().to_owned()).collect(),
    }))
}
