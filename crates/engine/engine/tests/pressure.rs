//! More calls than there is room for, calls that leave at any moment, and an engine that stops meanwhile: order, and
//! nothing that stays behind.
//!
//! `TAPRI_TEST_FOR=10m cargo test -p tapri-engine --test pressure` lets calls come and go for ten minutes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../../../../tests/effort.rs"]
mod effort;
mod support;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use effort::Random;
use support::{Seen, ask, config, finish, prompt, request, start};
use tapri_engine::{
    CallState, Engine, EngineConfig, EngineHoldings, GenerateError, GenerateEvent, Scope,
    SubmitError, TokenId,
};
use tapri_model::tiny::TinyModel;

const A_MINUTE: Duration = Duration::from_secs(60);

fn holdings(engine: &Engine) -> EngineHoldings {
    engine.holdings(Vec::new(), A_MINUTE).unwrap()
}

/// What must hold at any moment.
fn check(held: &EngineHoldings) {
    assert_eq!((held.blocks_leaked, held.calls_lost), (0, 0), "{held:#?}");
    assert_eq!(held.blocks_in_use, held.blocks_held, "{held:#?}");
    for call in &held.calls {
        match call.state {
            CallState::Waiting => assert_eq!(call.blocks + call.promised, 0, "{call:?}"),
            CallState::Joining => assert!(call.waits_for.is_some(), "{call:?}"),
            CallState::Running => assert!(call.waits_for.is_none(), "{call:?}"),
        }
    }
}

/// Waits for the last of the calls that left to be gone, and holds what is left against nothing.
fn nothing_is_held(engine: &Engine) {
    let start = Instant::now();
    loop {
        let held = holdings(engine);
        check(&held);
        if held.calls.is_empty() {
            assert_eq!(held.blocks_in_use, 0, "{held:#?}");
            break;
        }
        assert!(start.elapsed() < A_MINUTE, "a call is stuck: {held:#?}");
        thread::yield_now();
    }
    let stats = engine.stats();
    assert_eq!((stats.running, stats.waiting, stats.joining, stats.blocks_used), (0, 0, 0, 0));
}

/// An engine with room for four calls of `tokens` tokens.
fn for_four(model: &TinyModel, tokens: usize, config: EngineConfig) -> Engine {
    let block = start(model, config.clone()).stats().block_bytes;
    let kv_memory = ((1 + 4 * tokens.div_ceil(16)) * block) as u64;
    start(model, EngineConfig { kv_memory, ..config })
}

/// 200 calls at once where four have room: each is taken and answered right or refused at once, and of those that are
/// taken nobody starts before one that came earlier.
#[test]
fn two_hundred_calls_where_four_have_room() {
    let model = TinyModel::llama();
    let engine = for_four(&model, 60 + 30, EngineConfig { max_waiting: 120, ..config() });
    let roomy = start(&model, EngineConfig { prefix_cache: false, ..config() });
    let texts: Vec<_> = (0..200).map(|seed| prompt(60, 1000 + seed)).collect();
    let calls: Vec<_> = texts.iter().map(|t| engine.submit(request(t.clone(), 30))).collect();
    let refused = calls.iter().filter(|call| call.is_err()).count();
    for error in calls.iter().filter_map(|call| call.as_ref().err()) {
        assert!(matches!(error, SubmitError::QueueFull { .. }), "{error}");
    }
    let taken = 200 - refused;
    assert!(taken >= 120 && refused > 0, "{taken} were taken");

    // Whoever runs came before whoever waits, at every moment.
    let done = AtomicBool::new(false);
    let moments = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut moments = 0;
            while !done.load(Ordering::Relaxed) {
                let held = holdings(&engine);
                check(&held);
                let of = |state| held.calls.iter().filter(move |call| call.state == state);
                assert!(of(CallState::Running).count() <= 4, "{held:#?}");
                let newest = of(CallState::Running).map(|call| call.id).max();
                let first = of(CallState::Waiting).map(|call| call.id).min();
                if let (Some(newest), Some(first)) = (newest, first) {
                    assert!(newest < first, "{newest:?} runs and {first:?} waits");
                    moments += 1;
                }
            }
            moments
        });
        for (text, call) in texts.iter().zip(calls) {
            let Ok(call) = call else { continue };
            let answer = finish(call).unwrap();
            assert_eq!(answer.seen(), ask(&roomy, request(text.clone(), 30)).seen());
        }
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert!(moments > 0, "no moment was seen at which some ran and others waited");
    nothing_is_held(&engine);
    assert_eq!(engine.stats().prefix_hits, 0, "unrelated prompts");
    // Who was refused finds room now.
    assert_eq!(ask(&engine, request(prompt(60, 1), 3)).ids.len(), 3);
}

/// Answers outgrow the room, calls share beginnings and are preempted: still first come, first served.
#[test]
fn preemption_keeps_the_order() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let groups = if model == TinyModel::llama() { 1 } else { 2 };
        let engine = for_four(&model, groups * 150, config());
        let roomy = start(&model, EngineConfig { prefix_cache: false, ..config() });
        let texts: Vec<_> = (0..12).map(|seed| prompt(40, 2000 + seed)).collect();
        let calls: Vec<_> =
            texts.iter().map(|t| engine.submit(request(t.clone(), 330)).unwrap()).collect();
        let mut queued = Vec::new();
        for (text, call) in texts.iter().zip(calls) {
            let answer = finish(call).unwrap();
            queued.push(answer.outcome.timings.queued);
            assert_eq!(answer.seen(), ask(&roomy, request(text.clone(), 330)).seen());
        }
        // All were submitted within a moment and start in their order, each at another step or with its neighbour.
        let first = queued[0];
        assert!(queued.iter().all(|later| *later + Duration::from_millis(200) >= first));
        nothing_is_held(&engine);
        let stats = engine.stats();
        assert_eq!((stats.prefix_hits, stats.recent.1), (0, 0), "own blocks are no hits");
        if model == TinyModel::llama() {
            assert!(stats.preemptions > 0, "{stats:?}");
        }
    }
}

/// Calls of four callers that come, are read for a while, and are left at any moment.
#[test]
fn calls_that_leave_at_any_moment_leave_nothing_behind() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let texts: Vec<Vec<TokenId>> = (0..6).map(|seed| prompt(150, 3000 + seed)).collect();
        let roomy = start(&model, EngineConfig { prefix_cache: false, ..config() });
        let expected: Vec<Seen> =
            texts.iter().map(|text| ask(&roomy, request(text.clone(), 20)).seen()).collect();
        let chunk = NonZeroUsize::new(32).unwrap();
        let groups = if model == TinyModel::llama() { 1 } else { 2 };
        let engine = for_four(&model, groups * 180, EngineConfig { chunk, ..config() });
        let mut count = HashMap::new();
        for round in effort::rounds(60, 60) {
            thread::scope(|scope| {
                let (engine, texts, expected) = (&engine, &texts, &expected);
                let callers: Vec<_> = (0..4)
                    .map(|caller| {
                        let mut random = Random::new(round.wrapping_mul(4).wrapping_add(caller));
                        scope.spawn(move || one_caller(engine, texts, expected, &mut random))
                    })
                    .collect();
                for caller in callers {
                    *count.entry(caller.join().unwrap()).or_insert(0) += 1;
                }
                check(&holdings(engine));
            });
        }
        nothing_is_held(&engine);
        println!("{count:?}, {:?}", engine.stats());
        assert!(count.len() > 2, "all ways to end were met: {count:?}");
    }
}

/// One call, or some choices of one, to any end. Gives the way that it ended.
fn one_caller(
    engine: &Engine,
    texts: &[Vec<TokenId>],
    expected: &[Seen],
    random: &mut Random,
) -> &'static str {
    let which = random.below(texts.len());
    let mut call = request(texts[which].clone(), 20);
    call.cache.read = !random.one_in(6);
    call.cache.store = !random.one_in(6);
    let choices = if random.one_in(4) { random.within(2, 3) } else { 1 };
    let handles = match engine.submit_choices(call, choices) {
        Ok(handles) => handles,
        Err(SubmitError::QueueFull { .. }) => return "refused",
        Err(error) => panic!("{error}"),
    };
    let mut way = "whole";
    for mut handle in handles {
        match random.below(4) {
            0 => {
                way = "left at once";
                drop(handle);
            }
            1 => {
                way = "left in the middle";
                for _ in 0..random.within(1, 12) {
                    let Some(event) = handle.next() else { break };
                    assert!(!matches!(event, GenerateEvent::Failed(_)), "{event:?}");
                }
            }
            2 => {
                way = "cancelled";
                for _ in 0..random.within(0, 5) {
                    handle.next();
                }
                handle.cancel();
                // It still has a last event, and none after it.
                let mut last = None;
                while let Some(event) = handle.next() {
                    last = Some(event);
                }
                assert!(last.is_none_or(|last| matches!(last, GenerateEvent::Done(_))));
            }
            _ => assert_eq!(finish(handle).unwrap().seen(), expected[which]),
        }
    }
    way
}

/// Callers that submit while the engine stops: whoever was taken is told how it ended.
#[test]
fn nobody_waits_for_an_engine_that_has_stopped() {
    let model = TinyModel::llama();
    for round in effort::rounds(40, 40) {
        let engine = start(&model, config());
        let together = Barrier::new(4);
        thread::scope(|scope| {
            for caller in 0..3 {
                let (engine, together) = (&engine, &together);
                scope.spawn(move || {
                    let mut random = Random::new(round.wrapping_mul(3).wrapping_add(caller));
                    together.wait();
                    loop {
                        let text = prompt(random.within(1, 40), random.next() as u32);
                        match engine.submit(request(text, 3)) {
                            // Bounded by the test's own time: a call without an end would hang here.
                            Ok(call) => match finish(call) {
                                Ok(answer) => assert_eq!(answer.ids.len(), 3),
                                Err(error) => {
                                    assert!(matches!(error, GenerateError::ShuttingDown));
                                }
                            },
                            Err(error) => {
                                assert_eq!(error, SubmitError::ShuttingDown);
                                assert!(engine.reset_prefix_cache().is_err());
                                assert!(engine.pins(&Scope::default()).is_err());
                                assert!(engine.unpin(&Scope::default(), 1).is_err());
                                return;
                            }
                        }
                    }
                });
            }
            together.wait();
            engine.shutdown(Duration::ZERO);
        });
    }
}
