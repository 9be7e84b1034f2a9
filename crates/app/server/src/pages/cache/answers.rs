//! The caches of whole answers: how much they hold, how old it is, how often they answer.

use std::time::Duration;

use jiff::Timestamp;
use tapri_pipeline::cache::exact::StoreStats;

use crate::pages::figures::{Bytes, known, percent, share, span};
use crate::pages::show::{Html, Number};
use crate::pages::texts::{ENGLISH, fill};
use crate::routes::App;

/// A cache of answers.
pub(super) struct AnswerCache {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Why there is nothing to show, and what to do.
    pub(super) off: Option<&'static str>,
    pub(super) facts: Vec<(&'static str, Html)>,
}

/// Both of them, on or off.
pub(super) async fn all(app: &App, now: Timestamp) -> Vec<AnswerCache> {
    vec![exact(app, now).await, semantic(app, now).await]
}

/// How long ago something in milliseconds since 1970 was.
fn age(millis: Option<u64>, now: Timestamp) -> Html {
    let now = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let age = millis.map(|at| span(Duration::from_millis(now.saturating_sub(at))));
    known(age.map(|age| fill(ENGLISH.operator.ago, &[&age])))
}

fn held(stats: &StoreStats) -> Html {
    let t = &ENGLISH.cache;
    Html(fill(t.answers_and_bytes, &[&Number(stats.entries), &Bytes(stats.bytes)]))
}

async fn exact(app: &App, now: Timestamp) -> AnswerCache {
    let t = &ENGLISH.cache;
    let mut cache = AnswerCache {
        id: "exact",
        name: t.exact,
        about: t.exact_about,
        off: Some(t.exact_off),
        facts: Vec::new(),
    };
    let Some(exact) = app.pipeline().exact() else { return cache };
    cache.off = None;
    let stats = exact.stats();
    let store = exact.store_stats().await;
    let answered = stats.hits + stats.collapsed;
    cache.facts.push((t.hit_rate_calls, percent(share(answered, answered + stats.misses))));
    cache.facts.push((t.answered, Html(Number(stats.hits).to_string())));
    cache.facts.push((t.collapsed, Html(Number(stats.collapsed).to_string())));
    cache.facts.push((t.missed, Html(Number(stats.misses).to_string())));
    cache.facts.push((t.in_memory, held(&stats.memory)));
    // What is in memory is in the store as well, and is no older.
    let mut oldest = stats.memory.oldest;
    match store {
        Some(Ok(store)) => {
            cache.facts.push((t.in_store, held(&store)));
            oldest = store.oldest.or(oldest);
        }
        Some(Err(error)) => {
            tracing::warn!("the store of answers can't be counted: {error}");
            cache.facts.push((t.in_store, Html(t.store_failed.to_owned())));
        }
        None => {}
    }
    cache.facts.push((t.oldest, age(oldest, now)));
    cache
}

async fn semantic(app: &App, now: Timestamp) -> AnswerCache {
    let t = &ENGLISH.cache;
    let mut cache = AnswerCache {
        id: "semantic",
        name: t.semantic,
        about: t.semantic_about,
        off: Some(t.semantic_off),
        facts: Vec::new(),
    };
    let Some(semantic) = app.pipeline().semantic_cache().cloned() else { return cache };
    // It may wait for its file.
    let read = move || (semantic.counts(), semantic.len(), semantic.oldest());
    let Ok((counts, len, oldest)) = tokio::task::spawn_blocking(read).await else { return cache };
    cache.off = None;
    cache.facts = vec![
        (t.hit_rate_calls, percent(share(counts.hits, counts.lookups))),
        (t.answered, Html(Number(counts.hits).to_string())),
        (t.guarded, Html(Number(counts.guarded).to_string())),
        (t.wrong, Html(fill(t.wrong_of, &[&Number(counts.wrong), &Number(counts.labels)]))),
        (t.questions, Html(Number(len as u64).to_string())),
        (t.oldest, age(oldest, now)),
    ];
    cache
}
