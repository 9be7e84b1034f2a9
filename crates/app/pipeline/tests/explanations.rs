//! The explanation in a call's record, with the real engine on a tiny random model behind it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::api::{
    Call, CallEvent, Message, Origin, Outline, OutlinePart, PartKind, Prompt, Sampling,
};
use tapri_pipeline::ledger::{
    CallRecord, Explanation, Filter, Ledger, MissReason, SystemClock, Writer, WriterConfig,
};
use tapri_pipeline::{BlockingPipeline, ExplainConfig, Explainer, Pipeline, Recorder};
use tapri_upstream::Embedded;

const LONG: Duration = Duration::from_secs(60);

/// A run of the program on a ledger.
struct Run {
    writer: Writer,
    pipeline: BlockingPipeline,
}

impl Run {
    fn begin(ledger: &Path, config: EngineConfig) -> Self {
        let config = EngineConfig {
            threads: NonZeroUsize::MIN,
            chunk: NonZeroUsize::new(64).unwrap(),
            ..config
        };
        let engine =
            Engine::start_from(&TinyModel::llama().gguf(), PathBuf::from("tiny.gguf"), config)
                .unwrap();
        let writer = Writer::open(WriterConfig::new(ledger), Arc::new(SystemClock)).unwrap();
        let explain = ExplainConfig { values: true, ..ExplainConfig::default() };
        let pipeline = Pipeline::new(Arc::new(Embedded::new(engine, "tiny", Vec::new())))
            .recorded(Recorder::new(writer.clone(), None))
            .explained(Explainer::with_past(explain, ledger));
        Run { writer, pipeline: BlockingPipeline::new(pipeline).unwrap() }
    }

    /// Asks about a file of pages, for a tenant, and gives the record's explanation.
    fn ask_as(&self, tenant: &'static str, pages: &[&str], question: &str) -> Option<Explanation> {
        let system = "Answer from the file.".to_owned();
        let file = pages.join("\n");
        let text = format!("{system}\n{file}");
        let mut parts = vec![OutlinePart::new(PartKind::System, "instructions", system)];
        parts.extend(pages.iter().enumerate().map(|(at, page)| {
            OutlinePart::new(PartKind::Page, format!("file.pages[{at}]"), *page)
        }));
        parts.push(OutlinePart::new(PartKind::Message, "question", question));
        let call = Call {
            max_tokens: Some(1),
            sampling: Sampling::greedy(),
            origin: Origin { tenant: tenant.into(), ..Origin::of("ask") },
            outline: Some(Outline::Parts(parts.into())),
            ..Call::new(Prompt::Chat(vec![Message::system(text), Message::user(question)]))
        };
        let scope = tapri_pipeline::api::TenantScope(tenant.as_bytes().to_vec());
        let call = Call { scope, ..call };
        let id = call.id.to_string();
        let last = self.pipeline.start(call).unwrap().last();
        assert!(matches!(last, Some(CallEvent::Finished(_))), "{last:?}");
        self.record(&id).explanation
    }

    fn ask(&self, pages: &[&str], question: &str) -> Option<Explanation> {
        self.ask_as("default", pages, question)
    }

    fn record(&self, id: &str) -> CallRecord {
        assert!(self.writer.flush(LONG));
        let filter = Filter { id_prefix: Some(id.to_owned()), ..Filter::default() };
        let mut found = Ledger::open_read(self.writer.path()).unwrap().records(&filter).unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }
}

fn config() -> EngineConfig {
    EngineConfig { kv_memory: 32 << 20, ..EngineConfig::default() }
}

fn page(word: &str) -> String {
    format!("The {word} of the case, as the parties put it to the court. ").repeat(4)
}

fn reason(explanation: &Option<Explanation>) -> Option<MissReason> {
    explanation.as_ref().map(|found| found.reason)
}

#[test]
fn evicted_expired_and_never_seen_are_told_apart_by_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let file = page("facts");
    let plenty = Run::begin(&dir.path().join("a.sqlite"), config());
    assert_eq!(reason(&plenty.ask(&[&file], "Who?")), Some(MissReason::NeverSeen));
    assert_eq!(reason(&plenty.ask(&[&file], "Who?")), None, "all that could be reused was");

    // Room for little more than one prompt.
    let small = EngineConfig { kv_memory: 256 << 10, ..config() };
    let small = Run::begin(&dir.path().join("b.sqlite"), small);
    assert_eq!(reason(&small.ask(&[&file], "Who?")), Some(MissReason::NeverSeen));
    let other = page("law");
    let mut others = 0;
    let evicted = loop {
        let found = small.ask(&[&format!("{others} {other}")], "What?");
        assert!(others < 50, "nothing is ever evicted: {found:?}");
        others += 1;
        if others % 5 == 0 {
            let found = small.ask(&[&file], "Who?");
            if reason(&found).is_some() {
                break found;
            }
        }
    };
    assert_eq!(reason(&evicted), Some(MissReason::Evicted), "{evicted:?}");
    assert!(evicted.unwrap().nearest.is_some());

    let brief = EngineConfig { prefix_ttl: Some(Duration::from_nanos(1)), ..config() };
    let brief = Run::begin(&dir.path().join("c.sqlite"), brief);
    assert_eq!(reason(&brief.ask(&[&file], "Who?")), Some(MissReason::NeverSeen));
    assert_eq!(reason(&brief.ask(&[&file], "Who?")), Some(MissReason::Expired));
}

#[test]
fn a_page_that_changed_and_pages_in_another_order() {
    let dir = tempfile::tempdir().unwrap();
    let run = Run::begin(&dir.path().join("ledger.sqlite"), config());
    let (a, b, c) = (page("facts"), page("law"), page("claims"));
    run.ask(&[&a, &b, &c], "Who?");
    let question = run.ask(&[&a, &b, &c], "What is a lease?").unwrap();
    assert_eq!(question.reason, MissReason::LastMessage);
    let edited = b.replacen("court", "Court", 1);
    let changed = run.ask(&[&a, &edited, &c], "Who?").unwrap();
    assert_eq!(changed.reason, MissReason::FileChanged, "{changed:?}");
    let place = changed.place.unwrap();
    assert_eq!((place.path.as_str(), place.page), ("file.pages[1]", Some(2)));
    let at = b.find("court").unwrap() as u64;
    assert_eq!(place.character, Some(at));
    run.ask_as("another", &[&a, &b, &c], "Who?");
    let moved = run.ask_as("another", &[&b, &a, &c], "Who?").unwrap();
    assert_eq!(moved.reason, MissReason::PagesReordered, "{moved:?}");
}

#[test]
fn after_a_restart_the_fingerprints_tell() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger.sqlite");
    let (a, b, c) = (page("facts"), page("law"), page("claims"));
    let first = Run::begin(&ledger, config());
    first.ask(&[&a, &b, &c], "Who?");
    let id = Ledger::open_read(&ledger).unwrap().records(&Filter::default()).unwrap()[0].id.clone();
    drop(first);

    let second = Run::begin(&ledger, config());
    let same = second.ask(&[&a, &b, &c], "What?").unwrap();
    assert_eq!((same.reason, same.nearest.as_deref()), (MissReason::Restarted, Some(&*id)));
    assert!(same.estimated && same.shared_tokens.unwrap() > 100, "{same:?}");
    drop(second);

    let third = Run::begin(&ledger, config());
    let changed = third.ask(&[&a, "another page", &c], "Who?").unwrap();
    assert_eq!(changed.reason, MissReason::FileChanged, "{changed:?}");
    let place = changed.place.unwrap();
    assert_eq!((place.path.as_str(), place.page), ("file.pages[1]", Some(2)));
    assert_eq!((changed.new, changed.old), (None, None), "a fingerprint has no value");
}

#[test]
fn no_tenant_is_compared_with_another() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger.sqlite");
    let file = page("facts");
    let first = Run::begin(&ledger, config());
    first.ask_as("a", &[&file], "Who?");
    let other = first.ask_as("b", &[&file], "Who?").unwrap();
    assert_eq!((other.reason, other.nearest), (MissReason::NeverSeen, None));
    drop(first);
    let second = Run::begin(&ledger, config());
    let third = second.ask_as("c", &[&file], "Who?").unwrap();
    assert_eq!((third.reason, third.nearest), (MissReason::NeverSeen, None));
}
