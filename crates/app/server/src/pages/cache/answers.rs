//! The caches of whole answers: how much they hold, how old it is, how often they answer.

use std::time::Duration;

use jiff::Timestamp;
use tapri_pipeline::cache::exact::StoreStats;

use crate::pages::figures::{Bytes, percent, share, span};
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
fn ago(at: u64, now: Timestamp) -> Html {
    let now = u64::try_from(now.as_millisecond()).unwrap_or(0);
    let age = span(Duration::from_millis(now.saturating_sub(at)));
    Html(fill(ENGLISH.operator.ago, &[&age]))
}

/// The age of the oldest of so many. A store that expires its entries by itself, like Redis, doesn't know it.
fn age(entries: u64, oldest: Option<u64>, now: Timestamp) -> Html {
    let t = &ENGLISH.cache;
    match (entries, oldest) {
        (0, _) => Html(t.no_answer_yet.to_owned()),
        (_, Some(at)) => ago(at, now),
        (_, None) => Html(t.age_unknown.to_owned()),
    }
}

/// The age of the oldest answer of a memory and of the store behind it. What is in memory is in the store as well and is
/// no older, so it says nothing of a store that doesn't know.
fn age_of_both(memory: &StoreStats, store: Option<&StoreStats>, now: Timestamp) -> Html {
    let Some(store) = store.filter(|store| store.entries > 0) else {
        return age(memory.entries, memory.oldest, now);
    };
    match (store.oldest, memory.oldest.filter(|_| memory.entries > 0)) {
        (None, Some(at)) => Html(fill(ENGLISH.cache.age_unknown_beside, &[&ago(at, now)])),
        (oldest, _) => age(store.entries, oldest, now),
    }
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
    let mut counted = None;
    match store {
        Some(Ok(store)) => {
            cache.facts.push((t.in_store, held(&store)));
            counted = Some(store);
        }
        Some(Err(error)) => {
            tracing::warn!("the store of answers can't be counted: {error}");
            cache.facts.push((t.in_store, Html(t.store_failed.to_owned())));
        }
        None => {}
    }
    cache.facts.push((t.oldest, age_of_both(&stats.memory, counted.as_ref(), now)));
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
        (t.oldest, age(len as u64, oldest, now)),
    ];
    cache
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_age_that_is_not_known_is_said() {
        let now = Timestamp::from_millisecond(1_000_000).unwrap();
        let of = |entries, oldest| StoreStats { entries, oldest, ..StoreStats::default() };
        let shown = |memory, store: Option<StoreStats>| age_of_both(&memory, store.as_ref(), now).0;
        assert_eq!(shown(of(0, None), None), "nothing stored yet");
        assert_eq!(shown(of(0, None), Some(of(0, None))), "nothing stored yet");
        assert!(shown(of(2, Some(990_000)), None).contains(">10<"));
        assert!(shown(of(1, Some(990_000)), Some(of(2, Some(700_000)))).contains(">5<"));
        // Redis has answers and no ages.
        assert_eq!(shown(of(0, None), Some(of(7, None))), "age unknown");
        let beside = shown(of(1, Some(990_000)), Some(of(7, None)));
        assert!(beside.starts_with("age unknown (in memory: ") && beside.contains(">10<"));
    }
}
