//! How a call ends, what it leaves behind, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use support::{ask, config, finish, prompt, request, start};
use tapri_engine::{
    CacheUse, EngineConfig, FinishReason, GenerateError, GenerateEvent, Scope, StartError,
    SubmitError, TokenId,
};
use tapri_model::tiny::TinyModel;

#[test]
fn max_tokens_ends_an_answer_and_none_warms_the_cache() {
    let engine = start(&TinyModel::llama(), config());
    let warmed = ask(&engine, request(prompt(64, 1), 0));
    assert_eq!((warmed.ids.len(), warmed.outcome.finish), (0, FinishReason::Length));
    let answer = ask(&engine, request(prompt(64, 1), 7));
    // The last token is always computed, so of four blocks three are reused.
    assert_eq!(answer.admitted.cached_tokens, 48);
    assert_eq!(answer.ids.len(), 7);
    assert_eq!(answer.outcome.usage.answer_tokens, 7);
    assert_eq!(answer.outcome.finish, FinishReason::Length);
    assert!(answer.outcome.timings.first_token.is_some());
}

#[test]
fn a_stop_token_and_a_stop_string_end_the_answer_before_them() {
    let engine = start(&TinyModel::llama(), config());
    let whole = ask(&engine, request(prompt(40, 2), 24));
    let mut r = request(prompt(40, 2), 24);
    // The first token that did not come before.
    let at = (1..24).find(|&i| !whole.ids[..i].contains(&whole.ids[i])).unwrap();
    r.stop.tokens = vec![TokenId(whole.ids[at])];
    let stopped = ask(&engine, r);
    assert_eq!(stopped.ids, whole.ids[..at]);
    assert_eq!(stopped.outcome.finish, FinishReason::Stop);

    let chars: Vec<char> = whole.text.chars().collect();
    let string: String = chars[3..6].iter().collect();
    let mut r = request(prompt(40, 2), 24);
    r.stop.strings = vec![string.clone()];
    let stopped = ask(&engine, r);
    let end = whole.text.find(&string).unwrap();
    assert_eq!(stopped.text, whole.text[..end]);
    assert_eq!(stopped.outcome.matched_stop, Some(string));
}

#[test]
fn boundaries_of_a_block_hit_as_the_last_token_rule_says() {
    let engine = start(&TinyModel::llama(), config());
    for (n, hit) in [(15, 0), (16, 0), (17, 16), (31, 16), (32, 16), (33, 32)] {
        let text = prompt(n, 100 + n as u32);
        assert_eq!(ask(&engine, request(text.clone(), 1)).admitted.cached_tokens, 0);
        assert_eq!(ask(&engine, request(text, 1)).admitted.cached_tokens, hit, "{n} tokens");
    }
}

#[test]
fn scopes_and_salts_keep_calls_apart() {
    let engine = start(&TinyModel::llama(), config());
    let with = |scope: &str, salt: Option<&str>| {
        let mut r = request(prompt(64, 3), 1);
        r.scope = Scope(scope.as_bytes().to_vec());
        r.salt = salt.map(str::to_owned);
        ask(&engine, r).admitted.cached_tokens
    };
    assert_eq!(with("a", None), 0);
    assert_eq!(with("a", None), 48);
    assert_eq!(with("b", None), 0);
    assert_eq!(with("a", Some("s")), 0);
    assert_eq!(with("a", Some("s")), 48);
    assert_eq!(with("b", Some("s")), 0);
}

#[test]
fn no_store_leaves_nothing_behind() {
    let engine = start(&TinyModel::gemma3(), config());
    let mut r = request(prompt(80, 4), 8);
    r.cache = CacheUse { read: true, store: false };
    ask(&engine, r);
    let stats = engine.stats();
    assert_eq!((stats.blocks_cached, stats.blocks_used), (0, 0));
    assert_eq!(ask(&engine, request(prompt(80, 4), 8)).admitted.cached_tokens, 0);
}

#[test]
fn reset_tells_what_it_dropped() {
    let engine = start(&TinyModel::llama(), config());
    ask(&engine, request(prompt(64, 5), 1));
    assert_eq!(engine.reset_prefix_cache().unwrap().dropped, 4);
    assert_eq!(ask(&engine, request(prompt(64, 5), 1)).admitted.cached_tokens, 0);
}

#[test]
fn one_scope_is_forgotten_and_the_others_stay() {
    let engine = start(&TinyModel::llama(), config());
    let of = |scope: &[u8], salt: Option<&str>| {
        let mut request = request(prompt(64, 5), 1);
        request.scope = Scope(scope.to_vec());
        request.salt = salt.map(str::to_owned);
        request
    };
    for (scope, salt) in [(b"a", None), (b"a", Some("s")), (b"b", None)] {
        ask(&engine, of(scope, salt));
    }
    assert_eq!(engine.forget(&Scope(b"a".to_vec())).unwrap().dropped, 8);
    assert_eq!(engine.stats().blocks_cached, 4);
    assert_eq!(ask(&engine, of(b"a", None)).admitted.cached_tokens, 0);
    assert_eq!(ask(&engine, of(b"a", Some("s"))).admitted.cached_tokens, 0);
    assert!(ask(&engine, of(b"b", None)).admitted.cached_tokens > 0);
}

#[test]
fn a_caller_that_leaves_frees_its_blocks_and_harms_nobody() {
    let engine = start(&TinyModel::gemma3(), config());
    let alone = ask(&engine, request(prompt(50, 6), 100)).seen();
    let leaver = engine.submit(request(prompt(500, 7), 4000)).unwrap();
    let stayer = engine.submit(request(prompt(50, 6), 100)).unwrap();
    drop(leaver);
    assert_eq!(finish(stayer).unwrap().seen(), alone);
    // Once a call that came later has ended, the one that left is gone as well.
    ask(&engine, request(prompt(5, 8), 1));
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.blocks_used), (0, 0, 0), "{stats:?}");
}

#[test]
fn a_cancelled_call_ends_with_what_it_had() {
    let engine = start(&TinyModel::llama(), config());
    let mut call = engine.submit(request(prompt(20, 9), 5000)).unwrap();
    while let Some(event) = call.next() {
        match event {
            GenerateEvent::Token(_) => call.cancel(),
            GenerateEvent::Done(outcome) => {
                assert_eq!(outcome.finish, FinishReason::Cancelled);
                assert!(outcome.usage.answer_tokens >= 1);
                return;
            }
            _ => {}
        }
    }
    panic!("no end");
}

#[test]
fn an_answer_ends_where_the_context_does() {
    let model = TinyModel { context_length: 128, ..TinyModel::llama() };
    let engine = start(&model, config());
    let answer = ask(&engine, request(prompt(120, 10), 1000));
    assert_eq!(answer.outcome.finish, FinishReason::Length);
    // Eight positions after the prompt are read back, and one token needs none.
    assert_eq!(answer.ids.len(), 9);
    let refused = engine.submit(request(prompt(129, 10), 1)).unwrap_err();
    assert_eq!(refused, SubmitError::PromptTooLong { prompt: 129, context: 128 });
}

#[test]
fn what_cannot_run_is_refused_with_its_name() {
    let engine = start(&TinyModel::llama(), config());
    assert_eq!(engine.submit(request(vec![], 1)).unwrap_err(), SubmitError::EmptyPrompt);
    let bad = engine.submit(request(vec![TokenId(1), TokenId(9999)], 1)).unwrap_err();
    assert!(matches!(bad, SubmitError::BadToken { id: 9999, position: 1, .. }));
    let mut r = request(prompt(3, 1), 1);
    r.sampling.top_p = 2.0;
    assert!(engine.submit(r).unwrap_err().to_string().contains("top_p"));
    assert_eq!(ask(&engine, request(prompt(3, 1), 1)).ids.len(), 1, "others are served");
}

#[test]
fn a_prompt_beyond_the_budget_fails_and_others_run() {
    let model = TinyModel::llama();
    let block = start(&model, config()).stats().block_bytes as u64;
    let engine = start(&model, EngineConfig { kv_memory: 5 * block, ..config() });
    let error = finish(engine.submit(request(prompt(200, 1), 1)).unwrap()).unwrap_err();
    assert!(
        matches!(error, GenerateError::ExceedsKvBudget { needed: 13, capacity: 4, .. }),
        "{error}"
    );
    // An answer that fills the budget ends there.
    let answer = ask(&engine, request(prompt(40, 1), 1000));
    assert_eq!(answer.outcome.finish, FinishReason::Length);
    assert_eq!(answer.ids.len(), 25);
    assert_eq!(engine.stats().blocks_used, 0);
}

#[test]
fn the_budget_is_never_exceeded_and_old_prefixes_make_room() {
    let model = TinyModel::gemma3();
    let block = start(&model, config()).stats().block_bytes as u64;
    let engine = start(&model, EngineConfig { kv_memory: 200 * block, ..config() });
    for seed in 0..12 {
        ask(&engine, request(prompt(160, seed), 4));
        let stats = engine.stats();
        assert!(stats.blocks_used + stats.blocks_cached <= stats.blocks_total);
        assert!((stats.blocks_total + 1) * stats.block_bytes <= 200 * block as usize);
    }
    let stats = engine.stats();
    assert!(stats.evicted_blocks + stats.evicted_window_blocks > 0);
    let again = ask(&engine, request(prompt(160, 0), 4));
    assert_eq!(again.admitted.cached_tokens, 0);
    assert_eq!(again.admitted.stop.reason.as_str(), "evicted");
}

#[test]
fn one_call_too_many_is_refused() {
    let engine = start(&TinyModel::llama(), EngineConfig { max_waiting: 3, ..config() });
    let calls: Vec<_> = (0..200).map(|i| engine.submit(request(prompt(100, i), 50))).collect();
    let refused = calls.iter().filter(|c| matches!(c, Err(SubmitError::QueueFull { .. }))).count();
    assert!(refused > 0);
    for call in calls.into_iter().flatten() {
        assert_eq!(finish(call).unwrap().ids.len(), 50);
    }
    assert_eq!(ask(&engine, request(prompt(10, 1), 1)).ids.len(), 1, "there is room again");
}

#[test]
fn shutdown_lets_calls_end_or_tells_them() {
    let engine = start(&TinyModel::llama(), config());
    let call = engine.submit(request(prompt(20, 1), 30)).unwrap();
    engine.shutdown(Duration::from_secs(60));
    assert_eq!(finish(call).unwrap().ids.len(), 30);
    assert_eq!(engine.submit(request(prompt(3, 1), 1)).unwrap_err(), SubmitError::ShuttingDown);

    let engine = start(&TinyModel::llama(), config());
    let call = engine.submit(request(prompt(20, 1), 8000)).unwrap();
    engine.shutdown(Duration::ZERO);
    assert!(matches!(finish(call).unwrap_err(), GenerateError::ShuttingDown));
}

#[test]
fn settings_that_cannot_work_are_named() {
    let try_start = |config| {
        tapri_engine::Engine::start_from(&TinyModel::gemma3().gguf(), "tiny".into(), config).err()
    };
    let error = try_start(EngineConfig { block_size: 17, ..config() }).unwrap();
    assert!(matches!(error, StartError::BlockSize(17)));
    let error = try_start(EngineConfig { kv_memory: 1000, ..config() }).unwrap();
    assert!(error.to_string().contains("needs at least"), "{error}");
}

#[test]
fn a_timed_prefix_expires_and_says_so() {
    let config = EngineConfig { prefix_ttl: Some(Duration::ZERO), ..config() };
    let engine = start(&TinyModel::llama(), config);
    ask(&engine, request(prompt(64, 1), 1));
    let again = ask(&engine, request(prompt(64, 1), 1));
    assert_eq!(again.admitted.cached_tokens, 0);
    assert_eq!(again.admitted.stop.reason.as_str(), "expired");
}

#[test]
fn what_the_cache_holds_is_shown_between_two_steps() {
    let engine = start(&TinyModel::llama(), config());
    let scope = tapri_engine::Scope(b"a tenant".to_vec());
    let mine = tapri_engine::GenerateRequest { scope: scope.clone(), ..request(prompt(150, 1), 3) };
    ask(&engine, mine.clone());
    ask(&engine, mine);
    ask(&engine, request(prompt(70, 2), 3));
    let scopes = vec![tapri_engine::Scope(b"nobody".to_vec()), scope];
    let shown = engine.picture(scopes, 100, std::time::Duration::from_secs(60)).unwrap();
    let runs = &shown.picture.runs;
    assert_eq!(runs.iter().map(|run| run.blocks).sum::<usize>(), 150 / 16 + 70 / 16);
    let (ours, theirs): (Vec<&tapri_engine::Run>, Vec<&tapri_engine::Run>) =
        runs.iter().partition(|run| run.root == shown.roots[1]);
    assert!(ours.iter().all(|run| run.uses == 2 && run.users == 0), "{ours:?}");
    assert!(theirs.iter().all(|run| run.uses == 1 && run.root != shown.roots[0]));
    assert_eq!(shown.picture.capacity, engine.stats().blocks_total);
    engine.shutdown(std::time::Duration::ZERO);
    let gone = engine.picture(Vec::new(), 1, std::time::Duration::from_secs(60));
    assert_eq!(gone.unwrap_err(), tapri_engine::PictureError::ShuttingDown);
}

/// Of a pool of 40 blocks one scope may have 10: what others left stays, its own calls wait for each other, and others go
/// past them.
#[test]
fn a_scope_keeps_to_its_share() {
    let model = TinyModel::llama();
    let block = start(&model, config()).stats().block_bytes as u64;
    let engine = start(&model, EngineConfig { kv_memory: 41 * block, ..config() });
    let of = |scope: &[u8],
              kv_share: Option<f64>,
              prompt: Vec<tapri_engine::TokenId>,
              max_tokens: usize| {
        let scope = tapri_engine::Scope(scope.to_vec());
        tapri_engine::GenerateRequest { scope, kv_share, ..request(prompt, max_tokens) }
    };
    let (limited, free) = (Some(0.25), None);
    let theirs = ask(&engine, of(b"free", free, prompt(161, 900), 1));
    for seed in 0..10 {
        ask(&engine, of(b"limited", limited, prompt(128, seed), 1));
    }
    let stats = engine.stats();
    assert!(stats.blocks_cached <= 10 + 11, "{} are cached", stats.blocks_cached);
    let again = ask(&engine, of(b"free", free, prompt(161, 900), 1));
    assert_eq!(again.admitted.cached_tokens, 160, "nothing of theirs went");
    assert_eq!(again.seen(), theirs.seen());
    // Within its share it still hits.
    let own = ask(&engine, of(b"limited", limited, prompt(128, 9), 1));
    assert!(own.admitted.cached_tokens >= 112, "{:?}", own.admitted);
    // A prompt that can't fit, and an answer that fills what is left.
    let large = engine.submit(of(b"limited", limited, prompt(200, 1), 1)).unwrap();
    let error = finish(large).unwrap_err();
    assert!(
        matches!(
            error,
            GenerateError::ExceedsKvBudget { needed: 13, capacity: 10, of_share: true }
        ),
        "{error}"
    );
    let long = ask(&engine, of(b"limited", limited, prompt(128, 50), 1000));
    assert_eq!((long.outcome.finish, long.ids.len()), (FinishReason::Length, 33));
    // Two of its calls have no room together: the second waits for the first, and a stranger doesn't.
    let first = engine.submit(of(b"limited", limited, prompt(100, 60), 30)).unwrap();
    let second = engine.submit(of(b"limited", limited, prompt(100, 61), 30)).unwrap();
    let stranger = engine.submit(of(b"free", free, prompt(100, 62), 30)).unwrap();
    for call in [stranger, second, first] {
        let answer = finish(call).unwrap();
        assert_eq!(answer.ids.len(), 30);
    }
}
