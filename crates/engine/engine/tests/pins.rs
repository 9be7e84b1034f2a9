//! Starts that stay in the KV memory, in the engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{ask, config, finish, prompt, request, start};
use tapri_engine::{
    CacheUse, Engine, EngineConfig, GenerateError, GenerateRequest, Pin, Scope, SubmitError,
    TokenId,
};
use tapri_kernels::{Compute, Isa};
use tapri_model::Model;
use tapri_model::tiny::TinyModel;

fn pinning(prompt: Vec<TokenId>) -> GenerateRequest {
    GenerateRequest { pin: true, logprobs: None, ..request(prompt, 0) }
}

fn pin(engine: &Engine, prompt: Vec<TokenId>) -> Result<Pin, GenerateError> {
    finish(engine.submit(pinning(prompt)).unwrap()).map(|answer| answer.outcome.pinned.unwrap())
}

/// So many blocks of KV memory.
fn engine(model: &TinyModel, blocks: usize) -> Engine {
    let plan = Model::load(&model.gguf(), &Compute::new(Isa::best(), 1)).unwrap().kv_plan(16);
    let kv_memory = (plan.layout.block_bytes() * (blocks + 1)) as u64;
    start(model, EngineConfig { kv_memory, pin_limit: 0.5, ..config() })
}

#[test]
fn a_pinned_start_is_a_hit_when_all_else_was_evicted_and_the_answer_is_the_same() {
    for (model, blocks) in [(TinyModel::llama(), 24), (TinyModel::gemma3(), 80)] {
        let engine = engine(&model, blocks);
        let question = [prompt(100, 1), prompt(20, 2)].concat();
        let cold = ask(&engine, request(question.clone(), 8)).seen();
        engine.reset_prefix_cache().unwrap();
        let pinned = pin(&engine, prompt(100, 1)).unwrap();
        assert_eq!(pinned.tokens, 96);
        let stats = engine.stats();
        assert_eq!((stats.pins, stats.blocks_pinned), (1, pinned.blocks));
        assert_eq!(pinned.bytes, (pinned.blocks * stats.block_bytes) as u64);
        for seed in 10..40 {
            assert_eq!(ask(&engine, request(prompt(100, seed), 2)).admitted.cached_tokens, 0);
        }
        assert!(engine.stats().evicted_blocks > 50);
        let warm = ask(&engine, request(question, 8));
        assert_eq!(warm.admitted.cached_tokens, 96);
        assert_eq!(warm.seen(), cold, "a hit changes nothing");
        // Pinned twice it is there already, and takes no room.
        let again = pin(&engine, prompt(100, 1)).unwrap();
        assert_eq!(engine.stats().blocks_pinned, pinned.blocks);
        let scope = Scope::default();
        let ids: Vec<u64> = engine.pins(&scope).unwrap().pins.iter().map(|pin| pin.id).collect();
        assert_eq!(ids, [pinned.id, again.id]);
        assert!(!engine.unpin(&Scope(b"other".to_vec()), pinned.id).unwrap(), "not its own");
        assert!(
            engine.unpin(&scope, pinned.id).unwrap() && engine.unpin(&scope, again.id).unwrap()
        );
        assert!(!engine.unpin(&scope, again.id).unwrap());
        assert_eq!((engine.stats().pins, engine.stats().blocks_pinned), (0, 0));
    }
}

#[test]
fn what_can_not_be_pinned_is_refused_with_its_figures() {
    let without_pins = engine(&TinyModel::llama(), 24);
    let engine = engine(&TinyModel::llama(), 24);
    pin(&engine, prompt(160, 1)).unwrap();
    let GenerateError::PinsFull { needed, pinned, limit, of_share } =
        pin(&engine, prompt(48, 2)).unwrap_err()
    else {
        panic!("another error");
    };
    assert_eq!((needed, pinned, limit, of_share), (3, 10, 12, false));
    // A tenant with a share has that part of it, where all have room.
    let mut shared = pinning(prompt(48, 3));
    shared.scope = Scope(b"small".to_vec());
    shared.kv_share = Some(0.2);
    let error = finish(without_pins.submit(shared).unwrap()).unwrap_err();
    assert!(matches!(error, GenerateError::PinsFull { limit: 2, of_share: true, .. }), "{error}");
    let short = pin(&engine, prompt(15, 4)).unwrap_err();
    assert!(matches!(short, GenerateError::NothingToPin { block: 16 }), "{short}");
    let mut kept_nowhere = pinning(prompt(32, 5));
    kept_nowhere.cache = CacheUse { read: true, store: false };
    let error = finish(engine.submit(kept_nowhere).unwrap()).unwrap_err();
    assert!(matches!(error, GenerateError::NothingToPin { .. }), "{error}");
    let answer = GenerateRequest { max_tokens: 1, ..pinning(prompt(32, 6)) };
    assert_eq!(engine.submit(answer).unwrap_err(), SubmitError::PinWithAnswer);
    // What was refused holds nothing.
    assert_eq!((engine.stats().pins, engine.stats().blocks_pinned), (1, 10));
    // What can't fit beside the pins is refused, and nobody waits for ever.
    let error = finish(engine.submit(request(prompt(15 * 16, 7), 1)).unwrap()).unwrap_err();
    assert!(matches!(error, GenerateError::ExceedsKvBudget { capacity: 14, .. }), "{error}");
    assert_eq!(ask(&engine, request(prompt(13 * 16, 8), 4)).ids.len(), 4);
}

#[test]
fn an_erasure_takes_the_pins_of_its_scope() {
    let engine = engine(&TinyModel::llama(), 40);
    let mut mine = pinning(prompt(64, 1));
    mine.scope = Scope(b"mine".to_vec());
    finish(engine.submit(mine).unwrap()).unwrap();
    pin(&engine, prompt(64, 1)).unwrap();
    let report = engine.forget(&Scope(b"mine".to_vec())).unwrap();
    assert_eq!((report.pins, report.dropped, report.in_use), (1, 4, 0));
    assert!(engine.pins(&Scope(b"mine".to_vec())).unwrap().pins.is_empty());
    let report = engine.reset_prefix_cache().unwrap();
    assert_eq!((report.pins, report.dropped, report.in_use), (1, 4, 0));
    assert_eq!(engine.stats().blocks_used, 0);
}

#[test]
fn a_pin_that_is_given_up_leaves_none() {
    let engine = engine(&TinyModel::llama(), 80);
    let call = engine.submit(pinning(prompt(400, 1))).unwrap();
    drop(call);
    // The next call is admitted after the first has ended.
    ask(&engine, request(prompt(20, 2), 1));
    let pins = engine.stats().pins;
    assert!(pins <= 1, "it was computed before it was given up, or it is gone");
    for pin in engine.pins(&Scope::default()).unwrap().pins {
        assert!(engine.unpin(&Scope::default(), pin.id).unwrap());
    }
    assert_eq!(engine.stats().blocks_used, 0);
}
