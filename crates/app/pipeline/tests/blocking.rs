//! The way of a call without async code, with the real engine on a tiny random model behind it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::api::{
    CacheDirectives, Call, CallEvent, ErrorKind, FinishReason, Message, Prompt, ReuseStop,
    Sampling, TemplateUse,
};
use tapri_pipeline::{BlockingPipeline, Pipeline};
use tapri_upstream::Embedded;

fn pipeline() -> BlockingPipeline {
    let config = EngineConfig {
        threads: NonZeroUsize::MIN,
        kv_memory: 32 << 20,
        chunk: NonZeroUsize::new(64).unwrap(),
        ..EngineConfig::default()
    };
    let engine =
        Engine::start_from(&TinyModel::llama().gguf(), PathBuf::from("tiny.gguf"), config).unwrap();
    BlockingPipeline::new(Pipeline::new(Arc::new(Embedded::new(engine, "tiny", Vec::new()))))
        .unwrap()
}

fn greedy(prompt: Prompt, max_tokens: usize) -> Call {
    let mut call = Call::new(prompt);
    call.max_tokens = Some(max_tokens);
    call.sampling = Sampling::greedy();
    call.stop.ignore_eos = true;
    call
}

#[test]
fn events_come_in_order_and_add_up() {
    let pipeline = pipeline();
    let ids: Vec<u32> = (0..300).map(|i| 100 + i % 60).collect();
    for (cached, stop) in [(0, ReuseStop::NeverSeen), (288, ReuseStop::Complete)] {
        let running = pipeline.start(greedy(Prompt::Tokens(ids.clone()), 5)).unwrap();
        let reuse = running.admission().reuse.unwrap();
        assert_eq!((reuse.prompt, reuse.cached, reuse.stop), (300, cached, stop));
        assert_eq!(running.admission().template, None);
        let events: Vec<CallEvent> = running.collect();
        let kind = |event: &CallEvent| match event {
            CallEvent::Admitted(_) => 0,
            CallEvent::Prefill { .. } => 1,
            CallEvent::Token(_) | CallEvent::Piece(_) => 2,
            CallEvent::Finished(_) | CallEvent::Failed(_) => 3,
        };
        assert!(events.is_sorted_by_key(kind), "{events:?}");
        assert_eq!(events.iter().filter(|event| kind(event) == 2).count(), 5);
        let Some(CallEvent::Finished(finish)) = events.last() else { panic!("{events:?}") };
        assert_eq!((finish.reason, finish.usage.answer()), (FinishReason::Length, Some(5)));
        assert_eq!((finish.usage.prompt(), finish.usage.cached()), (Some(300), Some(cached)));
        assert!(finish.timings.first_token.unwrap() <= finish.timings.total);
    }
}

#[test]
fn a_conversation_is_read_as_tokenize_says() {
    let pipeline = pipeline();
    let prompt = Prompt::Chat(vec![Message::system("be brief"), Message::user("hello there")]);
    let ids = pipeline.tokenize(prompt.clone()).unwrap();
    assert!(
        pipeline
            .detokenize(ids.clone())
            .unwrap()
            .contains("<|im_start|>user\nhello there<|im_end|>")
    );
    let running = pipeline.start(greedy(prompt, 1)).unwrap();
    assert_eq!(running.admission().reuse.unwrap().prompt, ids.len());
    assert_eq!(running.admission().template, Some(TemplateUse::ChatMlFallback));
    let piece = pipeline.tokenize_piece("hello <|im_end|>").unwrap();
    assert_eq!(pipeline.detokenize(piece.clone()).unwrap(), "hello <|im_end|>");
    assert!(
        piece.len() > pipeline.tokenize_piece("hello ").unwrap().len() + 1,
        "text, not a control token"
    );
}

#[test]
fn dropping_a_call_cancels_it() {
    let pipeline = pipeline();
    let mut running = pipeline.start(greedy(Prompt::Text("x".into()), 8000)).unwrap();
    assert!(running.by_ref().any(|event| matches!(event, CallEvent::Token(_))));
    drop(running);
    let stats = || pipeline.pipeline().stats().unwrap();
    let start = Instant::now();
    while stats().running > 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", stats());
        std::thread::yield_now();
    }
    assert!(stats().answer_tokens < 8000 && stats().blocks_used == 0, "{:?}", stats());
}

#[test]
fn refusals_come_from_the_start() {
    let pipeline = pipeline();
    let refusal = |call| pipeline.start(call).map(|_| ()).unwrap_err();
    let mut other = Call::text("x");
    other.model = Some("other".into());
    assert_eq!(refusal(other).kind, ErrorKind::NotFound);
    let long = refusal(greedy(Prompt::Tokens(vec![100; 9000]), 1));
    assert_eq!(
        (long.kind, long.code.as_deref()),
        (ErrorKind::Invalid, Some("context_length_exceeded"))
    );
    assert_eq!(refusal(Call::tokens(Vec::new())).field.as_deref(), Some("prompt"));
    let mut only = greedy(Prompt::Tokens(vec![100; 64]), 1);
    only.cache = CacheDirectives { only_if_cached: true, ..Default::default() };
    assert_eq!(refusal(only.clone()).kind, ErrorKind::NotCached);
    assert!(pipeline.start(greedy(Prompt::Tokens(vec![100; 64]), 1)).unwrap().count() > 1);
    assert!(pipeline.start(only).is_ok(), "now it is");
}

#[test]
fn a_backend_that_was_shut_down_refuses() {
    let pipeline = pipeline();
    pipeline.pipeline().shutdown(Duration::ZERO);
    let refusal = pipeline.start(Call::text("x")).map(|_| ()).unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.code.as_deref()),
        (ErrorKind::Unavailable, Some("shutting_down"))
    );
}
