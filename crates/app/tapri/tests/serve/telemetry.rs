//! Traces and token counts of the real binary, at a collector that reads the protocol.

#[path = "../../../telemetry/tests/sending/collector.rs"]
mod collector;

use std::fs;

use collector::{Collector, SILENT, count, text};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

use crate::process::{Server, tapri};
use crate::upstream::Upstream;
use crate::{get, post, post_with, read, wait_until};

const CHAT: &str = "/v1/chat/completions";
const INPUT: &str = "gen_ai.client.inference.usage.input_tokens";

/// The spans of the call whose answer this is, the call's own first.
fn spans_of(collector: &Collector, answer: &str) -> Vec<Span> {
    let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    let id = head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap().to_owned();
    let of_call = |it: &Collector| {
        let spans = it.spans();
        let root = spans
            .iter()
            .position(|span| text(&span.attributes, "tapri.call.id").as_deref() == Some(&id));
        root.map(|root| {
            let trace = spans[root].trace_id.clone();
            spans[root..]
                .iter()
                .take_while(|span| span.trace_id == trace)
                .cloned()
                .collect::<Vec<_>>()
        })
    };
    collector.wait_until("the call's spans", |it| of_call(it).is_some());
    of_call(collector).unwrap()
}

/// What became of so many calls' traces.
fn traces(server: &Server, outcome: &str) -> f64 {
    let outcome = format!("outcome=\"{outcome}\"");
    let metrics = get(server, "/metrics");
    let line = metrics
        .lines()
        .find(|line| line.starts_with("tapri_traces_total{") && line.contains(&outcome));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

fn names(spans: &[Span]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

#[test]
fn every_call_is_a_trace_with_its_tokens_and_without_its_text() {
    let collector = Collector::start(200);
    let upstream = Upstream::start(&["--model", "gpt-4o", "--cache", "openai"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tapri.toml");
    let config = format!(
        r#"
[engine]
enabled = true
[telemetry]
endpoint = "{}"
service = "tapri-test"
delay = "50ms"
interval = "50ms"
[[upstream]]
name = "east"
kind = "openai"
url = "{}/v1"
models = ["gpt-4o"]
[[route]]
name = "stored"
models = ["gpt-4o"]
[route.exact]
mode = "always"
"#,
        collector.url(),
        upstream.url()
    );
    fs::write(&path, config).unwrap();
    let mut server = Server::start(&["--config", path.to_str().unwrap()]);
    let ask = |question: &str, stream: bool, headers: &str| {
        let messages = json!([
            {"role": "system", "content": "Kahwa with saffron, always. ".repeat(300)},
            {"role": "user", "content": question},
        ]);
        let body = json!({"model": "gpt-4o", "messages": messages, "stream": stream});
        read(post_with(&server, CHAT, headers, &body))
    };
    // Computed by an upstream, its start found in the upstream's cache the second time.
    let first = spans_of(&collector, &ask("Which tea?", false, ""));
    assert_eq!(names(&first), ["chat gpt-4o", "cache lookup exact", "upstream gpt-4o"]);
    assert_eq!(count(&first[0].attributes, "gen_ai.usage.cache_read.input_tokens"), Some(0));
    assert_eq!(text(&first[0].attributes, "gen_ai.provider.name").as_deref(), Some("openai"));
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let second = ask("Which cup?", true, &format!("traceparent: {parent}\r\n"));
    let second = spans_of(&collector, &second);
    assert_eq!(second[0].parent_span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    let cached = count(&second[0].attributes, "gen_ai.usage.cache_read.input_tokens").unwrap();
    let prompt = count(&second[0].attributes, "gen_ai.usage.input_tokens").unwrap();
    assert!(cached > 1024 && prompt > cached, "{cached} of {prompt}");
    assert!(count(&second[0].attributes, "gen_ai.usage.output_tokens").unwrap() > 0);
    // Answered by the exact cache: nobody computed anything.
    let third = spans_of(&collector, &ask("Which cup?", false, ""));
    assert_eq!(names(&third), ["chat gpt-4o", "cache lookup exact"]);
    assert_eq!(text(&third[0].attributes, "tapri.cache.exact").as_deref(), Some("hit"));
    // Computed here.
    let body = json!({"prompt": "Saffron is", "max_tokens": 5, "temperature": 0});
    let own = read(post(&server, "/v1/completions", &body));
    let own = spans_of(&collector, &own);
    let model = "SmolLM2-135M-Instruct.Q4_1";
    assert_eq!(own[0].name, format!("text_completion {model}"));
    assert_eq!(own.last().unwrap().name, format!("engine {model}"));
    assert_eq!(text(&own[0].attributes, "gen_ai.provider.name").as_deref(), Some("tapri"));
    assert_eq!(count(&own[0].attributes, "gen_ai.usage.output_tokens"), Some(5));
    // Refused at the door.
    let refused = read(post(&server, CHAT, &json!({"model": "nobody", "messages": []})));
    assert!(refused.starts_with("HTTP/1.1 404"), "{refused}");
    let refused = spans_of(&collector, &refused);
    assert!(text(&refused[0].attributes, "error.type").is_some(), "{refused:?}");
    assert_eq!(text(&collector.resource(), "service.name").as_deref(), Some("tapri-test"));
    collector.wait_until("the sums", |it| {
        let upstream = it.sum(INPUT, ("gen_ai.request.model", "gpt-4o"));
        upstream.is_some_and(|sum| sum >= 2 * prompt)
            && it.sum(INPUT, ("gen_ai.request.model", model)).is_some()
    });
    wait_until("them to be counted", || traces(&server, "exported") == 5.0);
    assert_eq!(traces(&server, "failed") + traces(&server, "dropped"), 0.0);
    // What waits at the end is sent.
    let last = ask("Which pot?", false, "");
    server.terminate();
    assert!(server.wait().success());
    assert_eq!(names(&spans_of(&collector, &last))[0], "chat gpt-4o");
    for text in ["saffron", "Saffron", "Which", "scripted answer"] {
        assert!(!collector.has_seen(text), "{text:?} went out");
    }
}

#[test]
fn opentelemetrys_variables_are_enough_and_a_silent_collector_delays_no_call() {
    let silent = Collector::start(SILENT);
    let shell = format!(
        "export OTEL_EXPORTER_OTLP_ENDPOINT='{}' OTEL_BSP_SCHEDULE_DELAY=10 OTEL_EXPORTER_OTLP_TIMEOUT=500;",
        silent.url()
    );
    let mut server = Server::start_after(&shell, &[]);
    let body = json!({"prompt": "One, two,", "max_tokens": 2, "temperature": 0});
    for _ in 0..3 {
        assert!(read(post(&server, "/v1/completions", &body)).starts_with("HTTP/1.1 200"));
    }
    wait_until("what is lost to be counted", || traces(&server, "failed") > 0.0);
    server.terminate();
    assert!(server.wait().success());
}

#[test]
fn what_is_wrong_with_the_section_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tapri.toml");
    for (section, words) in [
        ("service = \"x\"", "names no collector"),
        ("endpoint = \"collector:4318\"", "no address of a collector"),
        (
            "endpoint = \"http://c:4318\"\nheaders = \"env:TAPRI_NO_SUCH_VARIABLE\"",
            "telemetry.headers",
        ),
    ] {
        fs::write(&path, format!("[telemetry]\n{section}\n")).unwrap();
        let output = tapri(&["serve", "--port", "0", "--config", path.to_str().unwrap()])
            .env("TAPRI_DATA", folder.path())
            .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
}
