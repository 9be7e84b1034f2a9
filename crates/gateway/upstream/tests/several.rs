//! Several backends as one, over tiny models: what one of them holds is shown and erased through the whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::sync::Arc;

use tapri_api::{Call, CallEvent, TenantScope};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_upstream::{Backend, Embedded, Several, Whose};

fn embedded(name: &str) -> Arc<Embedded> {
    let config =
        EngineConfig { threads: NonZeroUsize::MIN, kv_memory: 16 << 20, ..EngineConfig::default() };
    let engine = Engine::start_from(&TinyModel::llama().gguf(), name.into(), config).unwrap();
    Arc::new(Embedded::new(engine, name, vec![]))
}

async fn ask(backend: &dyn Backend, model: &str, scope: &TenantScope, first: u32) {
    let mut call = Call::tokens((first..first + 100).collect());
    call.model = Some(model.to_owned());
    call.scope = scope.clone();
    call.max_tokens = Some(1);
    let mut events = backend.start(call).await.unwrap();
    while let Some(event) = events.next().await {
        assert!(!matches!(event, CallEvent::Failed(_)), "{event:?}");
    }
}

#[tokio::test]
async fn what_each_holds_is_erased_and_the_first_s_is_shown() {
    let (first, second) = (embedded("first"), embedded("second"));
    let several = Several::new(first.clone(), vec![second.clone()]);
    let (red, blue) = (TenantScope(b"red".to_vec()), TenantScope(b"blue".to_vec()));
    ask(&several, "first", &red, 10).await;
    ask(&several, "first", &blue, 20).await;
    ask(&several, "second", &red, 30).await;

    let scopes = vec![blue.clone(), red.clone()];
    let map = several.prefix_map(scopes.clone(), 10).await.unwrap().unwrap();
    let shown: Vec<_> = map.runs.iter().map(|run| (run.scope, run.blocks, run.uses)).collect();
    assert_eq!(shown, [(Some(0), 6, 1), (Some(1), 6, 1)], "the last used first");
    assert_ne!(map.runs[0].owner, map.runs[1].owner);
    let few = several.prefix_map(scopes, 1).await.unwrap().unwrap();
    assert_eq!((few.runs.len(), few.left_out), (1, 6));

    let red = Whose { tenant: "red".to_owned(), scope: red };
    let erased = several.erase(Some(red)).await.unwrap().unwrap();
    assert_eq!((erased.dropped, erased.in_use), (12, 0), "of both");
    let held = |backend: &Arc<Embedded>| backend.stats().unwrap().blocks_cached;
    assert_eq!((held(&first), held(&second)), (6, 0));
    assert_eq!(several.erase(None).await.unwrap().unwrap().dropped, 6);
}
