//! What a page of a case is told while it is open: server-sent events.
//!
//! `turns`: load the list of turns again. `progress`: how far the running question is. `text`: more of its answer, or all
//! of it where `all` says so.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::json;
use tokio::sync::watch;

use super::answers::{Hub, Phase, Running};
use super::find;
use crate::pages::render::{self, Page};
use crate::pages::stream::{self, HERE, KEEP_ALIVE, RETRY, event};
use crate::pages::visitor::Visitor;
use crate::routes::App;

/// `GET /casefile/{case}/events`.
pub(super) async fn stream(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    let Some(pages) = app.pages() else { return Err(render::gone().into()) };
    let hub = pages.answers.hub(&case.id);
    let watcher = Watcher {
        version: hub.watch(),
        hub,
        closing: app.closing(),
        seen: Seen::default(),
        first: true,
    };
    Ok(stream::response(futures_util::stream::unfold(watcher, |mut watcher| async move {
        let frame = watcher.next().await?;
        Some((frame, watcher))
    })))
}

struct Watcher {
    hub: Arc<Hub>,
    version: watch::Receiver<u64>,
    closing: watch::Receiver<bool>,
    seen: Seen,
    first: bool,
}

/// What a page was told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    changes: u64,
    /// The turn, its round, and bytes of its answer.
    running: Option<(u32, u32, usize)>,
    phase: Option<Phase>,
}

impl Watcher {
    /// What to send next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        if self.first {
            self.first = false;
            self.version.mark_unchanged();
            let mut frame = RETRY.to_owned();
            self.seen.changes = self.hub.read(|state| state.changes);
            // The page may have been written before the last change.
            frame.push_str(&event("turns", &json!({})));
            self.news(&mut frame);
            return Some(frame);
        }
        loop {
            let closing = tokio::select! {
                changed = self.version.changed() => {
                    changed.ok()?;
                    false
                }
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(HERE.to_owned()),
                _ = self.closing.wait_for(|closing| *closing) => true,
            };
            // A server that stops lets its running questions end, and their pages see it.
            if closing {
                if self.hub.read(|state| state.running.is_none()) {
                    return None;
                }
                self.version.changed().await.ok()?;
            }
            let mut frame = String::new();
            self.news(&mut frame);
            if !frame.is_empty() {
                return Some(frame);
            }
        }
    }

    fn news(&mut self, frame: &mut String) {
        let seen = &mut self.seen;
        self.hub.read(|state| {
            if state.changes != seen.changes {
                seen.changes = state.changes;
                frame.push_str(&event("turns", &json!({})));
            }
            match &state.running {
                Some(running) => seen.tell(frame, running),
                None => {
                    seen.running = None;
                    seen.phase = None;
                }
            }
        });
    }
}

impl Seen {
    fn tell(&mut self, frame: &mut String, running: &Running) {
        let Running { n, phase, text, round } = running;
        let known = self.running.filter(|(of, in_round, _)| of == n && in_round == round);
        if self.phase != Some(*phase) || known.is_none() {
            self.phase = Some(*phase);
            frame.push_str(&event("progress", &progress(*n, *phase)));
        }
        let told = known.map_or(0, |(_, _, told)| told);
        if known.is_none() || text.len() > told {
            let more = text.get(told..).unwrap_or_default();
            let told = json!({ "n": n, "all": known.is_none(), "text": more });
            frame.push_str(&event("text", &told));
        }
        self.running = Some((*n, *round, text.len()));
    }
}

fn progress(n: u32, phase: Phase) -> serde_json::Value {
    match phase {
        Phase::Preparing => json!({ "n": n, "phase": "preparing" }),
        Phase::Waiting => json!({ "n": n, "phase": "waiting" }),
        Phase::Reading { ready, total } => {
            json!({ "n": n, "phase": "reading", "ready": ready, "total": total })
        }
        Phase::Answering => json!({ "n": n, "phase": "answering" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_once() {
        let mut seen = Seen::default();
        let mut running =
            Running { n: 2, phase: Phase::Waiting, text: "one\n".to_owned(), round: 0 };
        let mut tell = |running: &Running| {
            let mut frame = String::new();
            seen.tell(&mut frame, running);
            frame
        };
        let first = tell(&running);
        assert!(first.contains(r#"{"n":2,"phase":"waiting"}"#), "{first}");
        assert!(first.contains(r#"{"n":2,"all":true,"text":"one\n"}"#), "{first}");
        assert_eq!(tell(&running), "");
        running.text.push_str("two");
        assert_eq!(
            tell(&running),
            "event: text\ndata: {\"n\":2,\"all\":false,\"text\":\"two\"}\n\n"
        );
        (running.round, running.text) = (1, "new".to_owned());
        assert!(tell(&running).contains(r#""all":true,"text":"new""#));
    }
}
