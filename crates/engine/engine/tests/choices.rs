//! Several answers to one prompt: each is what it would be alone, and the prompt is read once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use serde_json::json;
use support::{Seen, ask, config, finish, prompt, request, start};
use tapri_engine::{
    CacheUse, CallHandle, Engine, EngineConfig, GenerateRequest, Grammar, MAX_CHOICES, Sampling,
    SubmitError,
};
use tapri_model::tiny::TinyModel;

fn seeded(seed: u64) -> GenerateRequest {
    let sampling = Sampling { seed: Some(seed), ..Sampling::default() };
    GenerateRequest { sampling, ..request(prompt(150, 1), 40) }
}

fn all(engine: &Engine, request: GenerateRequest, choices: usize) -> Vec<Seen> {
    let calls = engine.submit_choices(request, choices).unwrap();
    calls.into_iter().map(|call| finish(call).unwrap().seen()).collect()
}

#[test]
fn greedy_answers_are_equal_and_seeds_differ() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let engine = start(&model, config());
        let alone = ask(&engine, request(prompt(150, 1), 40)).seen();
        assert!(all(&engine, request(prompt(150, 1), 40), 4).iter().all(|seen| seen == &alone));
        let many = all(&engine, seeded(7), 4);
        assert_eq!(many[0], ask(&engine, seeded(7)).seen(), "one answer is the first of many");
        for (at, one) in many.iter().enumerate() {
            assert!(!many[..at].contains(one), "answers {at} and an earlier one are the same");
        }
        assert_eq!(many, all(&engine, seeded(7), 4), "a seed repeats");
        let without =
            |n| all(&engine, GenerateRequest { sampling: Sampling::default(), ..seeded(0) }, n);
        assert_ne!(without(2)[0], without(2)[0], "without a seed they don't");
    }
}

#[test]
fn caches_and_their_absence_change_nothing() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let cold = start(&model, EngineConfig { prefix_cache: false, ..config() });
        let expected = all(&cold, seeded(3), 3);
        let engine = start(&model, config());
        for (read, store) in
            [(true, false), (true, true), (true, true), (false, true), (false, false)]
        {
            let mut request = seeded(3);
            request.cache = CacheUse { read, store };
            assert_eq!(all(&engine, request, 3), expected, "read {read}, store {store}");
        }
        // What several answers left behind is the same as what one would have.
        let mut next = prompt(150, 1);
        next.extend(expected[1].0.iter().map(|&id| tapri_engine::TokenId(id)));
        let warm = ask(&engine, request(next.clone(), 12));
        assert!(warm.admitted.cached_tokens >= 176, "{:?}", warm.admitted);
        assert_eq!(warm.seen(), ask(&cold, request(next, 12)).seen());
    }
}

/// Looks until the engine is as wanted.
fn wait_until(engine: &Engine, mut is: impl FnMut(&tapri_engine::EngineStats) -> bool) {
    for _ in 0..10_000 {
        if is(&engine.stats()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{:?}", engine.stats());
}

#[test]
fn the_prompt_is_read_once_and_held_once() {
    // 400 tokens are 25 blocks; eight copies would be 200.
    let one = start(&TinyModel::llama(), config()).stats().block_bytes as u64;
    for store in [true, false] {
        let engine = start(&TinyModel::llama(), EngineConfig { kv_memory: 180 * one, ..config() });
        let mut request = request(prompt(400, 2), 200);
        request.cache = CacheUse { read: store, store };
        let calls = engine.submit_choices(request, 8).unwrap();
        let mut most = 0;
        wait_until(&engine, |stats| {
            most = most.max(stats.running);
            stats.running == 0 && stats.waiting == 0 && stats.answer_tokens == 8 * 200
        });
        let answers: Vec<_> = calls.into_iter().map(|call| finish(call).unwrap()).collect();
        assert!(answers.iter().all(|answer| answer.ids.len() == 200));
        let stats = engine.stats();
        assert_eq!(stats.prompt_tokens, 400);
        assert_eq!(stats.prefix_queries, if store { 400 } else { 0 });
        assert_eq!((stats.preemptions, stats.recomputed_tokens, stats.blocks_used), (0, 0, 0));
        assert!(most <= 8);
        if !store {
            assert_eq!(stats.blocks_cached, 0);
        }
        let written: usize = answers.iter().map(|a| a.outcome.usage.written_tokens).sum();
        assert_eq!(written, if store { 400 } else { 0 });
    }
}

#[test]
fn too_little_room_preempts_and_changes_nothing() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let mut call = seeded(5);
        call.max_tokens = 300;
        let cold = start(&model, EngineConfig { prefix_cache: false, ..config() });
        let expected = all(&cold, call.clone(), 6);
        let one = start(&model, config()).stats().block_bytes as u64;
        let groups = if model == TinyModel::llama() { 1 } else { 6 };
        let budget = one * (1 + groups * 29 * 2);
        let engine = start(&model, EngineConfig { kv_memory: budget, ..config() });
        assert_eq!(all(&engine, call, 6), expected);
        let stats = engine.stats();
        assert_eq!((stats.blocks_used, stats.waiting, stats.running), (0, 0, 0));
        assert_eq!(stats.prefix_hits, 0, "its own blocks, found again, are no hit");
    }
}

#[test]
fn answers_leave_one_by_one() {
    let engine = start(&TinyModel::gemma3(), config());
    let mut call = seeded(9);
    call.prompt = prompt(1200, 4);
    let expected = all(&engine, call.clone(), 3);
    engine.reset_prefix_cache().unwrap();
    // The first, which reads the prompt, goes before it has; another reads it then.
    let mut calls = engine.submit_choices(call.clone(), 3).unwrap();
    drop(calls.remove(0));
    let rest: Vec<Seen> = calls.into_iter().map(|c| finish(c).unwrap().seen()).collect();
    assert_eq!(rest, expected[1..]);
    // And all of them.
    let calls: Vec<CallHandle> = engine.submit_choices(call, 3).unwrap();
    drop(calls);
    wait_until(&engine, |stats| (stats.running, stats.waiting, stats.blocks_used) == (0, 0, 0));
    // The count of those that wait is right again, or soon no more would be taken.
    let small = start(&TinyModel::llama(), EngineConfig { max_waiting: 4, ..config() });
    for _ in 0..20 {
        let taken = (0..10_000).find_map(|_| {
            let calls = small.submit_choices(seeded(1), 4).ok();
            if calls.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            calls
        });
        drop(taken.expect("calls that left wait no more"));
    }
}

#[test]
fn each_answer_keeps_to_the_grammar() {
    let engine = start(&TinyModel::llama(), config());
    let schema =
        json!({ "type": "array", "items": { "enum": ["a", "b"] }, "minItems": 3, "maxItems": 5 });
    let mut call = seeded(2);
    call.max_tokens = 400;
    call.constraint = Some(engine.constrain(&Grammar::Json(schema)).unwrap());
    let answers = all(&engine, call, 5);
    for (_, _, text) in &answers {
        let items: Vec<String> = serde_json::from_str(text).unwrap();
        assert!((3..=5).contains(&items.len()), "{text}");
    }
}

#[test]
fn the_number_of_answers_is_bounded_and_none_may_be_asked_for_without_text() {
    let engine = start(&TinyModel::llama(), config());
    for choices in [0, MAX_CHOICES + 1] {
        let error = engine.submit_choices(seeded(1), choices).unwrap_err();
        assert_eq!(error, SubmitError::Choices { asked: choices, most: MAX_CHOICES });
    }
    let warmed = all(&engine, request(prompt(64, 1), 0), 3);
    assert!(warmed.iter().all(|(ids, _, _)| ids.is_empty()));
    assert_eq!(ask(&engine, request(prompt(64, 1), 1)).admitted.cached_tokens, 48);
}
