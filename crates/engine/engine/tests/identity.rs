//! A hit changes nothing: the same bits cold, warm, partly warm, joined, in any chunks, alone or in a batch.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::num::NonZeroUsize;

use support::{Seen, ask, config, finish, prompt, request, start, threads};
use tapri_engine::{CacheUse, Engine, EngineConfig, KvType, TokenId};
use tapri_model::tiny::{TinyModel, TinyWeights};

fn models() -> Vec<TinyModel> {
    vec![
        TinyModel::llama(),
        TinyModel::gemma3(),
        TinyModel::llama().weights(TinyWeights::Q4_1),
        TinyModel::gemma3().weights(TinyWeights::Q8_0),
    ]
}

/// The answer of an engine that never reuses anything, computed in one chunk on one thread.
fn reference(model: &TinyModel, prompt: &[TokenId]) -> Seen {
    let engine = start(
        model,
        EngineConfig {
            threads: threads(1),
            prefix_cache: false,
            chunk: NonZeroUsize::new(4096).unwrap(),
            ..config()
        },
    );
    ask(&engine, request(prompt.to_vec(), 12)).seen()
}

#[test]
fn chunks_and_threads_change_nothing_cold_or_warm() {
    for model in models() {
        let text = prompt(300, 1);
        let expected = reference(&model, &text);
        for chunk in [1, 7, 16, 512] {
            for n in [1, 2] {
                let engine = start(
                    &model,
                    EngineConfig {
                        threads: threads(n),
                        chunk: NonZeroUsize::new(chunk).unwrap(),
                        ..config()
                    },
                );
                let cold = ask(&engine, request(text.clone(), 12));
                assert_eq!(cold.admitted.cached_tokens, 0);
                assert_eq!(cold.seen(), expected, "cold, chunk {chunk}, {n} threads");
                let warm = ask(&engine, request(text.clone(), 12));
                assert_eq!(warm.admitted.cached_tokens, 288);
                assert_eq!(warm.seen(), expected, "warm, chunk {chunk}, {n} threads");
            }
        }
    }
}

#[test]
fn any_shared_length_changes_nothing() {
    for model in models() {
        let engine = start(&model, config());
        ask(&engine, request(prompt(200, 2), 4));
        for shared in [0, 1, 15, 16, 17, 31, 32, 100, 160, 191, 192, 199] {
            let mut text = prompt(200, 2);
            text.truncate(shared);
            text.extend(prompt(40, 100 + shared as u32));
            let expected = reference(&model, &text);
            let partly = ask(&engine, request(text, 12));
            assert_eq!(partly.admitted.cached_tokens, shared / 16 * 16, "shared {shared}");
            assert_eq!(partly.seen(), expected, "shared {shared}");
        }
    }
}

#[test]
fn block_sizes_change_nothing() {
    let model = TinyModel::gemma3();
    let text = prompt(300, 3);
    let expected = reference(&model, &text);
    for block_size in [16, 32, 64, 128, 256] {
        let engine = start(&model, EngineConfig { block_size, ..config() });
        for cached in [0, 299 / block_size * block_size] {
            let answer = ask(&engine, request(text.clone(), 12));
            assert_eq!(answer.admitted.cached_tokens, cached);
            assert_eq!(answer.seen(), expected, "blocks of {block_size}");
        }
    }
}

/// In fewer bits too, a hit changes nothing: what differs from bf16 is the same cold, warm, alone and together.
#[test]
fn keys_and_values_in_eight_bits_give_the_same_cold_and_warm() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let base = EngineConfig { kv_type: KvType::Q8_0, ..config() };
        let prompts: Vec<_> = [300, 150, 17].iter().map(|&n| prompt(n, n as u32)).collect();
        let expected: Vec<_> = prompts
            .iter()
            .map(|text| {
                let chunk = NonZeroUsize::new(4096).unwrap();
                let cold = EngineConfig { prefix_cache: false, chunk, ..base.clone() };
                ask(&start(&model, cold), request(text.clone(), 12)).seen()
            })
            .collect();
        assert_ne!(expected[0], reference(&model, &prompts[0]), "q8_0 must round something");
        let engine =
            start(&model, EngineConfig { chunk: NonZeroUsize::new(48).unwrap(), ..base.clone() });
        for _ in 0..2 {
            for (answer, expected) in together(&engine, &prompts).iter().zip(&expected) {
                assert_eq!(&answer.seen(), expected);
            }
        }
        let warm = ask(&engine, request(prompts[0].clone(), 12));
        assert_eq!((warm.admitted.cached_tokens, &warm.seen()), (288, &expected[0]));
    }
}

/// Submits all at once, so that they share batches (and prefixes that are being written).
fn together(engine: &Engine, prompts: &[Vec<TokenId>]) -> Vec<support::Answer> {
    let calls: Vec<_> =
        prompts.iter().map(|p| engine.submit(request(p.clone(), 12)).unwrap()).collect();
    calls.into_iter().map(|call| finish(call).unwrap()).collect()
}

#[test]
fn a_batch_of_five_changes_nothing() {
    for model in models() {
        let prompts: Vec<_> =
            [300, 17, 64, 5, 150].iter().enumerate().map(|(i, &n)| prompt(n, i as u32)).collect();
        let expected: Vec<_> = prompts.iter().map(|p| reference(&model, p)).collect();
        let engine =
            start(&model, EngineConfig { chunk: NonZeroUsize::new(48).unwrap(), ..config() });
        for _ in 0..2 {
            for (answer, expected) in together(&engine, &prompts).iter().zip(&expected) {
                assert_eq!(&answer.seen(), expected);
            }
        }
    }
}

#[test]
fn a_prefix_that_is_being_written_is_joined() {
    for model in models() {
        let shared = prompt(400, 9);
        let prompts: Vec<_> = (0..5)
            .map(|i| {
                let mut p = shared.clone();
                p.extend(prompt(20 + i, 50 + i as u32));
                p
            })
            .collect();
        let expected: Vec<_> = prompts.iter().map(|p| reference(&model, p)).collect();
        let engine =
            start(&model, EngineConfig { chunk: NonZeroUsize::new(32).unwrap(), ..config() });
        let answers = together(&engine, &prompts);
        for (answer, expected) in answers.iter().zip(&expected) {
            assert_eq!(&answer.seen(), expected);
        }
        // The first reads it; the others wait for it and read only what is their own.
        assert_eq!(answers[0].admitted.cached_tokens + answers[0].admitted.joined_tokens, 0);
        for answer in &answers[1..] {
            let reused = answer.admitted.cached_tokens + answer.admitted.joined_tokens;
            assert_eq!(reused, 400, "{:?}", answer.admitted);
        }
        let stats = engine.stats();
        assert_eq!(stats.prefix_hits + stats.prefix_joined, 4 * 400);
    }
}

#[test]
fn the_answer_is_reused_in_the_next_turn() {
    let model = TinyModel::gemma3();
    let engine = start(&model, config());
    let first = ask(&engine, request(prompt(100, 4), 40));
    let mut text = prompt(100, 4);
    text.extend(first.ids.iter().map(|&id| TokenId(id)));
    text.extend(prompt(10, 5));
    let expected = reference(&model, &text);
    let second = ask(&engine, request(text, 12));
    // 100 tokens of prompt and 39 of the answer were computed (the last was never read back).
    assert_eq!(second.admitted.cached_tokens, 128);
    assert_eq!(second.seen(), expected);
}

#[test]
fn a_call_that_may_not_read_computes_the_same() {
    let model = TinyModel::llama();
    let engine = start(&model, config());
    let text = prompt(120, 6);
    let first = ask(&engine, request(text.clone(), 12));
    let mut bypass = request(text, 12);
    bypass.cache = CacheUse { read: false, store: true };
    let second = ask(&engine, bypass);
    assert_eq!(second.admitted.cached_tokens, 0);
    assert_eq!(second.admitted.stop.reason.as_str(), "bypassed");
    assert_eq!(first.seen(), second.seen());
}

#[test]
fn preempted_calls_give_the_same_answers_and_no_hits() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let prompts: Vec<_> = (0..6).map(|i| prompt(90, 70 + i)).collect();
        let expected: Vec<_> = prompts
            .iter()
            .map(|p| {
                let engine = start(&model, EngineConfig { prefix_cache: false, ..config() });
                ask(&engine, request(p.clone(), 400)).seen()
            })
            .collect();
        // Two calls start (346 tokens are kept for each), and their answers outgrow what there is.
        let one = start(&model, config()).stats().block_bytes as u64;
        let groups = if model == TinyModel::llama() { 1 } else { 6 };
        let budget = one * (1 + groups * 26 * 2);
        let engine = start(&model, EngineConfig { kv_memory: budget, ..config() });
        let calls: Vec<_> =
            prompts.iter().map(|p| engine.submit(request(p.clone(), 400)).unwrap()).collect();
        for (call, expected) in calls.into_iter().zip(&expected) {
            assert_eq!(&finish(call).unwrap().seen(), expected);
        }
        let stats = engine.stats();
        assert_eq!(stats.prefix_hits, 0, "its own blocks, found again, are no hit");
        assert_eq!(stats.blocks_used, 0);
        if groups == 1 {
            assert!(stats.preemptions > 0, "the test must reach a preemption: {stats:?}");
        }
    }
}

#[test]
fn a_seed_gives_the_same_text_cold_and_warm() {
    let engine = start(&TinyModel::gemma3(), config());
    let seeded = |seed| {
        let mut r = request(prompt(70, 8), 30);
        r.sampling = tapri_engine::Sampling { seed: Some(seed), ..Default::default() };
        ask(&engine, r).seen()
    };
    let first = seeded(1);
    assert_eq!(first, seeded(1));
    assert_ne!(first.0, seeded(2).0);
}
