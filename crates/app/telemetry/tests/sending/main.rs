//! What a collector gets, over sockets; and what calls notice of a collector that is slow or away: nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

mod collector;

use std::time::{Duration, Instant};

use collector::{Collector, SILENT, count, only, text};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tapri_api::Format;
use tapri_ledger::{CacheOutcome, CacheResult, CallRecord, Ending, TokenCounts};
use tapri_pipeline::{Step, Steps};
use tapri_telemetry::{Telemetry, TelemetryConfig};

const ID: &str = "0123456789abcdef0123456789abcdef";

fn record() -> CallRecord {
    let at: jiff::Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    CallRecord {
        tenant: "red".to_owned(),
        route: "legal".to_owned(),
        model: "gpt-4o".to_owned(),
        upstream: "east".to_owned(),
        conversation: Some("c7".to_owned()),
        tokens: TokenCounts {
            prompt: Some(1000),
            cached: Some(896),
            restored: None,
            joined: None,
            written: Some(0),
            answer: Some(20),
        },
        ttft: Some(Duration::from_millis(250)),
        total: Duration::from_secs(2),
        exact: Some(CacheResult { outcome: CacheOutcome::Miss, reason: None }),
        prefix: Some(CacheResult { outcome: CacheOutcome::Partial, reason: None }),
        text: Some("The secret of the widow's will".to_owned()),
        ..CallRecord::new(ID, at)
    }
}

fn steps() -> Steps {
    let began = Instant::now();
    let at = |millis| began + Duration::from_millis(millis);
    Steps {
        began,
        format: Some(Format::Messages),
        traceparent: None,
        exact: Some(Step { from: at(1), to: at(3) }),
        semantic: None,
        sent_on: Some(at(4)),
    }
}

fn config(collector: &Collector) -> TelemetryConfig {
    TelemetryConfig {
        delay: Duration::from_millis(20),
        interval: Duration::from_millis(20),
        timeout: Duration::from_millis(500),
        providers: [("east".to_owned(), "openai".to_owned())].into(),
        headers: vec![("x-key".to_owned(), "secret".to_owned())],
        attributes: vec![("deployment.environment".to_owned(), "test".to_owned())],
        ..TelemetryConfig::new(collector.url())
    }
}

#[test]
fn a_call_is_a_span_with_its_tokens_and_a_child_for_each_step() {
    let collector = Collector::start(200);
    let telemetry = Telemetry::start(config(&collector)).unwrap();
    telemetry.observer()(&record(), &steps());
    collector.wait_until("its spans", |it| it.spans().len() == 3);
    let spans = collector.spans();
    let (root, lookup, upstream) = (&spans[0], &spans[1], &spans[2]);
    assert_eq!((root.name.as_str(), root.kind), ("chat gpt-4o", 2));
    assert_eq!(hex(&root.trace_id), ID, "who has an answer's request id finds its trace");
    assert!(root.parent_span_id.is_empty());
    assert_eq!(root.end_time_unix_nano - root.start_time_unix_nano, 2_000_000_000);
    assert_eq!(root.start_time_unix_nano / 1_000_000_000, 1_796_040_000);
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "gpt-4o"),
        ("gen_ai.conversation.id", "c7"),
        ("tapri.tenant", "red"),
        ("tapri.route", "legal"),
        ("tapri.upstream", "east"),
        ("tapri.cache.exact", "miss"),
        ("tapri.cache.prefix", "partial"),
    ] {
        assert_eq!(text(&root.attributes, key).as_deref(), Some(value), "{key}");
    }
    for (key, value) in [
        ("gen_ai.usage.input_tokens", Some(1000)),
        ("gen_ai.usage.output_tokens", Some(20)),
        ("gen_ai.usage.cache_read.input_tokens", Some(896)),
        ("gen_ai.usage.cache_write.input_tokens", Some(0)),
        // Unknown is absent, and zero is 0.
        ("tapri.usage.joined.input_tokens", None),
    ] {
        assert_eq!(count(&root.attributes, key), value, "{key}");
    }
    let reasons = only(&root.attributes, "gen_ai.response.finish_reasons");
    assert_eq!(reasons.as_deref(), Some("stop"));
    assert_eq!(
        (lookup.name.as_str(), upstream.name.as_str()),
        ("cache lookup exact", "upstream gpt-4o")
    );
    assert_eq!(lookup.end_time_unix_nano - lookup.start_time_unix_nano, 2_000_000);
    assert_eq!(upstream.start_time_unix_nano - root.start_time_unix_nano, 4_000_000);
    assert_eq!((upstream.kind, upstream.end_time_unix_nano), (3, root.end_time_unix_nano));
    let mut ids: Vec<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    for child in [lookup, upstream] {
        assert_eq!((&child.trace_id, &child.parent_span_id), (&root.trace_id, &root.span_id));
    }
    assert_eq!(text(&collector.resource(), "service.name").as_deref(), Some("tapri"));
    assert_eq!(text(&collector.resource(), "deployment.environment").as_deref(), Some("test"));
    assert!(collector.heads().iter().all(|head| head.contains("x-key: secret")));
    let input = "gen_ai.client.inference.usage.input_tokens";
    collector.wait_until("its tokens", |it| {
        it.sum(input, ("gen_ai.request.model", "gpt-4o")) == Some(1000)
    });
    telemetry.observer()(&record(), &steps());
    assert!(telemetry.close(Duration::from_secs(10)));
    assert_eq!(collector.spans().len(), 6, "what waited was sent at the end");
    for (name, tokens) in
        [("input_tokens", 2000), ("output_tokens", 40), ("cache_read.input_tokens", 1792)]
    {
        let name = format!("gen_ai.client.inference.usage.{name}");
        assert_eq!(
            collector.sum(&name, ("gen_ai.provider.name", "openai")),
            Some(tokens),
            "{name}"
        );
    }
    assert!(!collector.has_seen("widow"), "no text goes out");
    assert_eq!(telemetry.counts().exported, 2);
    telemetry.observer()(&record(), &steps());
    assert_eq!(telemetry.counts().dropped, 0, "after the end nothing is counted as lost");
}

#[test]
fn a_callers_trace_goes_on_and_an_error_has_its_word() {
    let collector = Collector::start(200);
    let telemetry = Telemetry::start(config(&collector)).unwrap();
    let parent =
        |flags: &str| Some(format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}"));
    let failed = CallRecord { ending: Ending::Error("upstream_incomplete".to_owned()), ..record() };
    telemetry.observer()(&failed, &Steps { traceparent: parent("01"), ..steps() });
    telemetry.observer()(&record(), &Steps { traceparent: parent("00"), ..steps() });
    assert!(telemetry.close(Duration::from_secs(10)));
    let spans = collector.spans();
    assert_eq!(spans.len(), 3, "what the caller doesn't sample isn't sent");
    let root = &spans[0];
    assert_eq!(hex(&root.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&root.parent_span_id), "b7ad6b7169203331");
    assert_eq!(text(&root.attributes, "tapri.call.id").as_deref(), Some(ID));
    assert_eq!(text(&root.attributes, "error.type").as_deref(), Some("upstream_incomplete"));
    assert_eq!(root.status.as_ref().unwrap().code, StatusCode::Error as i32);
    let input = "gen_ai.client.inference.usage.input_tokens";
    let sum = collector.sum(input, ("gen_ai.operation.name", "chat"));
    assert_eq!(sum, Some(2000), "sums have what traces leave out");
}

/// A collector that says nothing, one that refuses, and none at all.
#[test]
fn a_collector_that_takes_nothing_holds_up_nobody_and_is_counted() {
    let silent = Collector::start(SILENT);
    let busy = Collector::start(503);
    for (endpoint, name) in
        [(silent.url(), "silent"), (busy.url(), "busy"), ("http://127.0.0.1:9".to_owned(), "none")]
    {
        let config = TelemetryConfig { endpoint, queue: 8, batch: 4, ..config(&silent) };
        let telemetry = Telemetry::start(config).unwrap();
        let observer = telemetry.observer();
        const CALLS: u64 = 2000;
        let start = Instant::now();
        for _ in 0..CALLS {
            observer(&record(), &steps());
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{name}: calls waited");
        // The end waits for one request at most, and for no longer than it may.
        let start = Instant::now();
        telemetry.close(Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(20), "{name}");
        let counts = telemetry.counts();
        assert_eq!(counts.exported, 0, "{name}: {counts:?}");
        assert_eq!(counts.dropped + counts.failed, CALLS, "{name}: {counts:?}");
        assert!(counts.failed > 0, "{name}: {counts:?}");
    }
}

#[test]
fn a_collector_that_comes_back_gets_what_comes_then_and_all_sums() {
    let collector = Collector::start(503);
    let telemetry = Telemetry::start(config(&collector)).unwrap();
    telemetry.observer()(&record(), &steps());
    collector.wait_until("the first to be lost", |_| telemetry.counts().failed == 1);
    collector.answers(200);
    telemetry.observer()(&record(), &steps());
    collector.wait_until("the second", |it| it.spans().len() == 3);
    assert!(telemetry.close(Duration::from_secs(10)));
    let input = "gen_ai.client.inference.usage.input_tokens";
    assert_eq!(collector.sum(input, ("gen_ai.request.model", "gpt-4o")), Some(2000));
}

#[test]
fn what_cant_be_an_address_is_said() {
    for endpoint in ["collector:4318", "", "ftp://collector", "http://"] {
        let error = Telemetry::start(TelemetryConfig::new(endpoint)).unwrap_err();
        assert!(error.to_string().contains("http://127.0.0.1:4318"), "{endpoint}: {error}");
    }
    let headers = vec![("x-key".to_owned(), "hunter2\n".to_owned())];
    let config = TelemetryConfig { headers, ..TelemetryConfig::new("http://127.0.0.1:9") };
    let error = Telemetry::start(config).unwrap_err().to_string();
    assert!(error.contains("x-key") && !error.contains("hunter2"), "{error}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
