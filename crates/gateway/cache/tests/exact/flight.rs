//! One call for all who ask the same at the same time (complaint 23: simultaneous identical requests both went out).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tapri_api::{CallEvent, ErrorKind, FinishReason};
use tapri_cache::exact::{ExactPolicy, Look, Mode};

use crate::play::*;

#[tokio::test]
async fn simultaneous_identical_requests_are_one_call() {
    let cache = always();
    let (leader, model) = start(&cache, &ask("Why?")).await;
    model.says([admitted(), token("Be")]);
    let mut followers = Vec::new();
    for _ in 0..20 {
        followers.push(tokio::spawn(read(follows(&cache, &ask("Why?")).await)));
    }
    model.says([token("cause"), finished(FinishReason::Stop)]);
    let led = read(leader).await;
    assert_eq!(text(&led), "Because");
    for follower in followers {
        let events = follower.await.unwrap();
        assert_eq!(text(&events), "Because", "from the start");
        let CallEvent::Admitted(admission) = &events[0] else { panic!("{events:?}") };
        assert_eq!(admission.reuse, None, "what the prefix cache had is the first one's to know");
    }
    let CallEvent::Admitted(admission) = &led[0] else { panic!("{led:?}") };
    assert!(admission.reuse.is_some());
    settled(&cache).await;
    let stats = cache.stats();
    assert_eq!((stats.misses, stats.collapsed, stats.stored), (1, 20, 1));
    assert_eq!(stored(&cache, &ask("Why?")).await.as_deref(), Some("Because"));
}

/// Real threads, and calls that come at any moment: each is a hit, a follower or the one that leads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_calls_go_out_however_they_interleave() {
    for _ in 0..50 {
        let cache = always();
        let calls = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let (cache, calls) = (cache.clone(), Arc::clone(&calls));
            tasks.push(tokio::spawn(async move {
                match look(&cache, &ask("Why?")).await {
                    Look::Hit(hit) => text(&hit.events()),
                    Look::Follow(reader) => text(&read(reader).await),
                    Look::Lead(lead) => {
                        calls.fetch_add(1, Ordering::SeqCst);
                        let (model, source) = model();
                        model.says(answer("x"));
                        text(&read(lead.start(async { Ok(source) })).await)
                    }
                    other => panic!("{other:?}"),
                }
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), "x");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn the_first_one_leaving_changes_nothing() {
    let cache = always();
    let (leader, model) = start(&cache, &ask("Why?")).await;
    model.says([admitted(), token("Be")]);
    let follower = follows(&cache, &ask("Why?")).await;
    drop(leader);
    let late = follows(&cache, &ask("Why?")).await;
    model.says([token("cause"), finished(FinishReason::Stop)]);
    assert_eq!(text(&read(follower).await), "Because");
    assert_eq!(text(&read(late).await), "Because");
    assert!(!cache.stats().rejected.values().any(|count| *count > 0));
}

#[tokio::test]
async fn the_last_one_leaving_cancels_the_call() {
    let cache = always();
    let (leader, model) = start(&cache, &ask("Why?")).await;
    model.says([admitted(), token("Be")]);
    let follower = follows(&cache, &ask("Why?")).await;
    drop(leader);
    drop(follower);
    settled(&cache).await;
    assert!(model.is_cancelled());
    assert_eq!(cache.stats().rejected["abandoned"], 1);
    // The next one doesn't wait for a call that is gone.
    assert!(matches!(look(&cache, &ask("Why?")).await, Look::Lead(_)));
}

#[tokio::test]
async fn leaving_before_the_upstream_answered_at_all() {
    let cache = always();
    let lead = leads(&cache, &ask("Why?")).await;
    let (model, source) = model();
    let reader = lead.start(async move {
        std::future::pending::<()>().await;
        Ok(source)
    });
    tokio::task::yield_now().await;
    drop(reader);
    settled(&cache).await;
    assert!(model.is_cancelled());
}

#[tokio::test]
async fn a_leader_that_never_starts_lets_the_others_go() {
    let cache = always();
    let lead = leads(&cache, &ask("Why?")).await;
    let follower = follows(&cache, &ask("Why?")).await;
    drop(lead);
    assert_eq!(text(&read(follower).await), "<shared_call_ended>");
    assert!(matches!(look(&cache, &ask("Why?")).await, Look::Lead(_)));
}

#[tokio::test]
async fn an_error_goes_to_all_and_nothing_is_stored() {
    let cache = always();
    let (leader, model) = start(&cache, &ask("Why?")).await;
    let follower = follows(&cache, &ask("Why?")).await;
    model.says([admitted(), token("Be"), failed()]);
    for reader in [leader, follower] {
        assert_eq!(text(&read(reader).await), "Be<unavailable>");
    }
    settled(&cache).await;
    assert_eq!(stored(&cache, &ask("Why?")).await, None);
    // One that refuses to begin.
    let lead = leads(&cache, &ask("No?")).await;
    let follower = follows(&cache, &ask("No?")).await;
    let error = tapri_api::ApiError::new(ErrorKind::Busy, "Too many calls wait").code("queue_full");
    let reader = lead.start(async move { Err::<Source, _>(error) });
    assert_eq!(text(&read(reader).await), "<queue_full>");
    assert_eq!(text(&read(follower).await), "<queue_full>");
}

#[tokio::test]
async fn an_upstream_that_ends_without_a_word_fails_all() {
    let cache = always();
    let (leader, model) = start(&cache, &ask("Why?")).await;
    model.says([admitted(), token("Be")]);
    let follower = follows(&cache, &ask("Why?")).await;
    drop(model);
    assert_eq!(text(&read(leader).await), "Be<shared_call_ended>");
    assert_eq!(text(&read(follower).await), "Be<shared_call_ended>");
}

/// A panic in a backend is a defect of one call, and nobody waits for it for ever.
#[tokio::test]
async fn a_backend_that_panics_fails_all() {
    let cache = always();
    let lead = leads(&cache, &ask("Why?")).await;
    let follower = follows(&cache, &ask("Why?")).await;
    let reader = lead.start(async { broken() });
    assert_eq!(text(&read(reader).await), "<shared_call_ended>");
    assert_eq!(text(&read(follower).await), "<shared_call_ended>");
    settled(&cache).await;
}

fn broken() -> Result<Source, tapri_api::ApiError> {
    panic!("a defect that this test makes")
}

#[tokio::test]
async fn only_storable_calls_share_one() {
    let (cache, _) = cache(ExactPolicy { mode: Mode::Deterministic, ..ExactPolicy::default() });
    let warm = request(&serde_json::json!({"messages": [], "temperature": 0.9}));
    for _ in 0..2 {
        assert!(matches!(look(&cache, &warm).await, Look::Bypass(_)), "each has its own answer");
    }
}

#[tokio::test]
async fn tenants_never_share_a_call() {
    let cache = always();
    let (_leader, _model) = start(&cache, &ask("Why?")).await;
    let mut other = ask("Why?");
    other.scope = tapri_api::TenantScope(vec![1; 32]);
    assert!(matches!(look(&cache, &other).await, Look::Lead(_)));
}

#[tokio::test]
async fn a_slow_reader_holds_nobody_up() {
    let cache = always();
    let (mut slow, model) = start(&cache, &ask("Why?")).await;
    let quick = follows(&cache, &ask("Why?")).await;
    assert!(matches!(
        {
            model.says([admitted()]);
            slow.next().await
        },
        Some(CallEvent::Admitted(_))
    ));
    model.says((0..1000).map(|_| token("x")));
    model.says([finished(FinishReason::Stop)]);
    assert_eq!(text(&read(quick).await).len(), 1000);
    assert_eq!(text(&read(slow).await).len(), 1000, "whenever it reads");
}

/// Beyond the limit: nobody joins, the call waits for its fastest reader, and who is far behind is let go.
#[tokio::test]
async fn memory_is_bounded_whoever_reads() {
    let limit = 20_000;
    let (cache, _) = cache(ExactPolicy { max_entry_bytes: limit, ..ExactPolicy::default() });
    let (mut quick, model) = start(&cache, &ask("Why?")).await;
    let mut slow = follows(&cache, &ask("Why?")).await;
    model.says([admitted()]);
    model.says((0..2000).map(|_| token(&"x".repeat(52))));
    model.says([finished(FinishReason::Stop)]);
    // The slow one reads nothing, the quick one a little: some 100 bytes are counted for each token.
    let mut kept = 0;
    for _ in 0..400 {
        quick.next().await.unwrap();
        kept = kept.max(quick.kept_bytes());
    }
    assert!(kept <= 2 * limit + 100, "{kept} bytes are kept");
    assert!(matches!(look(&cache, &ask("Why?")).await, Look::Lead(_)), "too late to join");
    assert_eq!(text(&[slow.next().await.unwrap()]), "<reader_too_slow>");
    let rest = read(quick).await;
    assert_eq!(rest.len(), 2002 - 400, "the quick one gets all of it");
    settled(&cache).await;
    assert_eq!(cache.stats().rejected["too_large"], 1);
}
