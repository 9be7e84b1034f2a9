//! The record that a call leaves, with the real engine on a tiny random model behind it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::api::{
    ApiError, CacheDirectives, Call, CallEvent, CallId, Message, Origin, Outline, OutlinePart,
    PartKind, Prompt, Sampling, Usage,
};
use tapri_pipeline::ledger::{
    CacheOutcome, CallRecord, Cost, Ending, Filter, Ledger, Money, Secret, SystemClock, Writer,
    WriterConfig,
};
use tapri_pipeline::{BlockingPipeline, Pipeline, Pricing, Recorder};
use tapri_upstream::Embedded;

const LONG: Duration = Duration::from_secs(60);

struct Scene {
    dir: tempfile::TempDir,
    writer: Writer,
    pipeline: BlockingPipeline,
}

impl Scene {
    fn new() -> Self {
        let config = EngineConfig {
            threads: NonZeroUsize::MIN,
            kv_memory: 32 << 20,
            chunk: NonZeroUsize::new(64).unwrap(),
            ..EngineConfig::default()
        };
        let engine =
            Engine::start_from(&TinyModel::llama().gguf(), PathBuf::from("tiny.gguf"), config)
                .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = WriterConfig::new(dir.path().join("ledger.sqlite"));
        let writer = Writer::open(config, Arc::new(SystemClock)).unwrap();
        let pricing: Pricing = Arc::new(|record: &CallRecord| {
            let money = |tokens: u64| Money::new(tokens.into(), "Rs");
            Some(Cost {
                paid: money(record.tokens.prompt? - record.tokens.cached?),
                without_cache: money(record.tokens.prompt?),
                price_list: "a token a rupee".to_owned(),
                price_date: None,
            })
        });
        let backend = Arc::new(Embedded::new(engine, "tiny", vec!["small".to_owned()]));
        let recorder = Recorder::new(writer.clone(), Some(pricing));
        let pipeline = BlockingPipeline::new(Pipeline::new(backend).recorded(recorder)).unwrap();
        Scene { dir, writer, pipeline }
    }

    /// Asks to the end.
    fn ask(&self, call: Call) -> Usage {
        let last = self.pipeline.start(call).unwrap().last();
        let Some(CallEvent::Finished(finish)) = last else { panic!("{last:?}") };
        finish.usage
    }

    fn refused(&self, call: Call) -> ApiError {
        self.pipeline.start(call).err().expect("it can't be answered")
    }

    fn records(&self) -> Vec<CallRecord> {
        assert!(self.writer.flush(LONG));
        let ledger = Ledger::open_read(self.writer.path()).unwrap();
        ledger.records(&Filter::default()).unwrap()
    }

    fn record(&self) -> CallRecord {
        let mut records = self.records();
        assert_eq!(records.len(), 1);
        records.remove(0)
    }
}

fn call(tokens: usize) -> Call {
    let ids = (0..tokens).map(|i| 100 + (i * i % 60) as u32).collect();
    let mut call = Call::new(Prompt::Tokens(ids));
    call.max_tokens = Some(3);
    call.sampling = Sampling::greedy();
    call.stop.ignore_eos = true;
    call.origin = Origin { conversation: Some("c1".to_owned()), ..Origin::of("ask") };
    let question = OutlinePart::new(PartKind::Message, "question", "How much is the tea?");
    call.outline = Some(Outline::Parts([question].into()));
    call
}

fn check(record: &CallRecord, usage: &Usage) {
    let tokens = &record.tokens;
    assert_eq!(tokens.prompt, usage.prompt().map(|n| n as u64));
    assert_eq!(tokens.cached, usage.cached().map(|n| n as u64));
    assert_eq!(tokens.joined, usage.joined().map(|n| n as u64));
    assert_eq!(tokens.answer, usage.answer().map(|n| n as u64));
    assert!(record.ttft.is_some_and(|ttft| ttft > Duration::ZERO && ttft <= record.total));
}

#[test]
fn a_call_leaves_what_its_answer_said() {
    let scene = Scene::new();
    let calls = [call(310), call(310), call(640)];
    let ids: Vec<String> = calls.iter().map(|call| call.id.to_string()).collect();
    let usages: Vec<Usage> = calls.map(|call| scene.ask(call)).into();
    let records = scene.records();
    assert_eq!(records.iter().map(|record| record.id.clone()).collect::<Vec<_>>(), ids);
    records.iter().zip(&usages).for_each(|(record, usage)| check(record, usage));
    let secret = Secret::of_ledger(scene.writer.path()).unwrap();
    for record in &records {
        assert_eq!((&*record.tenant, &*record.route), ("default", "ask"));
        assert_eq!((&*record.model, &*record.upstream), ("tiny", "embedded"));
        assert_eq!((record.conversation.as_deref(), &record.ending), (Some("c1"), &Ending::Length));
        assert_eq!(record.parts.len(), 1);
        assert_eq!(record.parts[0].print, secret.print("How much is the tea?"));
        assert_eq!((&record.exact, &record.semantic, &record.text), (&None, &None, &None));
    }
    let prefixes: Vec<_> = records
        .iter()
        .map(|record| record.prefix.clone().map(|it| (it.outcome, it.reason.unwrap())).unwrap())
        .collect();
    assert_eq!(
        prefixes,
        [
            (CacheOutcome::Miss, "never_seen".to_owned()),
            (CacheOutcome::Hit, "complete".to_owned()),
            (CacheOutcome::Partial, "never_seen".to_owned()),
        ]
    );
    // 19 full blocks; nothing new; and those of 640 tokens behind the shared start.
    let written: Vec<_> = records.iter().map(|record| record.tokens.written.unwrap()).collect();
    assert_eq!(written, [304, 0, 640 - records[2].tokens.cached.unwrap()]);
    assert!(records[2].tokens.cached.unwrap() >= 304);
    let traces: Vec<_> = records.iter().map(|record| record.trace.len()).collect();
    assert_eq!(traces, [2, 2, 5]);
    assert_eq!(records[0].trace, records[1].trace);
    assert_eq!(records[0].trace, records[2].trace[..2]);
    let cost = records[1].cost.as_ref().unwrap();
    assert_eq!(
        (cost.paid.to_string(), cost.without_cache.to_string()),
        ("Rs 6.0000".into(), "Rs 310.0000".into())
    );
}

#[test]
fn no_store_writes_nothing_and_no_cache_is_a_bypass() {
    let scene = Scene::new();
    let mut unstored = call(310);
    unstored.cache = CacheDirectives { no_store: true, ..CacheDirectives::default() };
    scene.ask(unstored);
    let mut unread = call(310);
    unread.cache = CacheDirectives { no_cache: true, ..CacheDirectives::default() };
    scene.ask(unread);
    let records = scene.records();
    let written: Vec<_> = records.iter().map(|record| record.tokens.written).collect();
    assert_eq!(written, [Some(0), Some(304)]);
    let prefix = records[1].prefix.as_ref().unwrap();
    assert_eq!(
        (prefix.outcome, prefix.reason.as_deref()),
        (CacheOutcome::Bypass, Some("bypassed"))
    );
}

#[test]
fn another_name_of_the_model_is_recorded_as_the_model() {
    let scene = Scene::new();
    scene.ask(Call { model: Some("small".to_owned()), ..call(40) });
    assert_eq!(scene.record().model, "tiny");
}

#[test]
fn a_model_that_is_not_served() {
    let scene = Scene::new();
    scene.refused(Call { model: Some("gpt-ü".repeat(100)), ..call(40) });
    let record = scene.record();
    assert_eq!(record.ending, Ending::Error("model_not_found".to_owned()));
    assert_eq!(record.model.chars().count(), 128, "of a name that may be anything");
    assert_eq!((record.tokens.prompt, record.ttft, record.prefix), (None, None, None));
}

#[test]
fn a_prompt_that_is_too_long() {
    let scene = Scene::new();
    let error = scene.refused(call(100_000));
    let record = scene.record();
    assert_eq!(record.ending, Ending::Error("context_length_exceeded".to_owned()), "{error}");
    assert_eq!(record.parts.len(), 1, "what was asked is known");
    assert_eq!(record.cost, None);
}

#[test]
fn only_if_cached_and_it_is_not() {
    let scene = Scene::new();
    let mut strict = call(310);
    strict.cache = CacheDirectives { only_if_cached: true, ..CacheDirectives::default() };
    scene.refused(strict);
    let record = scene.record();
    assert_eq!(record.ending, Ending::Error("not_cached".to_owned()));
    assert_eq!((record.tokens.prompt, record.tokens.cached), (Some(310), Some(0)));
}

#[test]
fn a_client_that_leaves_in_the_middle() {
    let scene = Scene::new();
    let mut running = scene.pipeline.start(Call { max_tokens: Some(500), ..call(310) }).unwrap();
    let first = running.find(|event| matches!(event, CallEvent::Token(_)));
    assert!(first.is_some());
    drop(running);
    let record = scene.record();
    assert_eq!(record.ending, Ending::Abort);
    assert_eq!((record.tokens.prompt, record.tokens.answer), (Some(310), Some(1)));
    assert_eq!(record.tokens.written, None, "nobody said");
    assert!(record.ttft.is_some());
}

#[test]
fn a_client_that_leaves_before_the_answer_begins() {
    let scene = Scene::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut start = Box::pin(scene.pipeline.pipeline().start(call(310)));
        // Once around: it has begun, and waits.
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(start.as_mut().poll(context).is_pending())
        });
        assert!(polled.await);
    });
    let record = scene.record();
    assert_eq!((record.ending, record.tokens.prompt), (Ending::Abort, None));
}

#[test]
fn a_request_that_can_not_be_read() {
    let scene = Scene::new();
    let (id, error) =
        (CallId::random(), ApiError::invalid("messages", "is missing").code("missing_field"));
    scene.pipeline.pipeline().refused(id, &Origin::of("/v1/chat/completions"), "", &error);
    let record = scene.record();
    assert_eq!((record.id, record.model.as_str()), (id.to_string(), ""));
    assert_eq!(record.ending, Ending::Error("missing_field".to_owned()));
}

#[test]
fn a_ledger_that_can_not_be_written_fails_no_call() {
    let scene = Scene::new();
    let blocked = scene.dir.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let config = WriterConfig::new(blocked.join("ledger.sqlite"));
    let (writer, error) = Writer::open_or_retry(config, Arc::new(SystemClock)).unwrap();
    assert!(error.is_some());
    let pipeline = scene.pipeline.pipeline().clone().recorded(Recorder::new(writer.clone(), None));
    let pipeline = BlockingPipeline::new(pipeline).unwrap();
    let answer = pipeline.start(Call::chat(vec![Message::user("Hi")])).map(|call| call.last());
    assert!(matches!(answer, Ok(Some(CallEvent::Finished(_)))), "{answer:?}");
    assert!(writer.flush(LONG));
    assert_eq!(writer.counts().dropped, 1);
    // Once there is a folder, the same writer writes.
    std::fs::remove_file(&blocked).unwrap();
    drop(pipeline.start(call(40)).unwrap());
    assert!(writer.flush(LONG));
    assert_eq!((writer.counts().written, writer.counts().dropped), (1, 1));
}
