//! Calls as they end, told to a page that is open: server-sent events.
//!
//! `calls`: lines for the top of the table, as HTML in JSON. `lost`: so many calls ended faster than they could be told.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use jiff::Timestamp;
use serde_json::json;
use tapri_ledger::{CallRecord, Filter};
use tapri_pipeline::{Ended, Follower, Seen};
use tokio::sync::watch;

use super::filters::Asked;
use super::rows::Rows;
use crate::pages::reading::Sees;
use crate::pages::render::{Page, Refused};
use crate::pages::stream::{self, HERE, KEEP_ALIVE, RETRY, event};
use crate::pages::texts::ENGLISH;
use crate::pages::visitor::Visitor;
use crate::routes::App;

/// `GET /calls/events`.
pub(super) async fn stream(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Query(asked): Query<Asked>,
) -> Page {
    let sees = Sees::of(&app, &visitor, super::PATH, ENGLISH.calls.title)?;
    let Some(pages) = app.pages() else {
        return Err(Refused::from(crate::pages::render::gone()));
    };
    // A period that ends now has no end for what is to come.
    let filter = asked.read(&sees, Timestamp::now()).filter;
    let watcher = Watcher {
        follower: pages.live.follow(),
        closing: app.closing(),
        several: sees == Sees::All && app.tenants().current().asks_for_keys(),
        sees,
        filter,
        first: true,
    };
    Ok(stream::response(futures_util::stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((frame, watcher))
    })))
}

struct Watcher {
    follower: Follower,
    closing: watch::Receiver<bool>,
    several: bool,
    sees: Sees,
    filter: Filter,
    first: bool,
}

impl Watcher {
    /// What to send next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.first) {
            return Some(RETRY.to_owned() + &event("ready", &json!({})));
        }
        loop {
            let seen = tokio::select! {
                seen = self.follower.next() => seen?,
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(HERE.to_owned()),
                _ = self.closing.wait_for(|closing| *closing) => return None,
            };
            match seen {
                Seen::Lost(calls) => return Some(event("lost", &json!({ "calls": calls }))),
                Seen::Ended(ended) => {
                    if let Some(frame) = self.told(ended).await {
                        return Some(frame);
                    }
                }
            }
        }
    }

    async fn told(&self, ended: Arc<Ended>) -> Option<String> {
        // Another tenant's call isn't looked at any further.
        if !self.sees.may_see(&ended.record) {
            return None;
        }
        let record = explained(ended).await;
        if !self.filter.matches(&record) {
            return None;
        }
        let rows = Rows::new([self.sees.censored(record)].into_iter(), self.several, true);
        Some(event("calls", &json!({ "html": rows.render().ok()? })))
    }
}

/// The record with its explanation, which takes some milliseconds to find.
async fn explained(ended: Arc<Ended>) -> CallRecord {
    let found = {
        let ended = Arc::clone(&ended);
        tokio::task::spawn_blocking(move || ended.explanation())
    };
    let mut record = ended.record.clone();
    // A panic has been printed by its own hook; the line goes without its reason.
    record.explanation = found.await.ok().flatten();
    record
}
