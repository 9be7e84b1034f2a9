//! The server in front of upstreams over HTTP, played by the scripted one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tapri_fake_upstream::{CacheConfig, Ending, Fake, FakeConfig, Script};
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{App, ServerConfig, router};
use tapri_upstream::{Api, Credential, Fleet, FleetConfig, Secret, ServedModel, UpstreamConfig};
use tower::ServiceExt;

use super::CHAT;
use super::http::*;

/// OpenAI's models go to one upstream and Anthropic's to another; both are the same scripted server.
async fn scene() -> (Fake, axum::Router) {
    let cache = Some(CacheConfig::default());
    let fake = Fake::start(FakeConfig { cache, ..FakeConfig::default() }).await.unwrap();
    let mut openai = UpstreamConfig::new("openai", fake.url(), Api::OpenAi);
    openai.formats.push(tapri_api::Format::Responses);
    openai.models = vec![ServedModel::named("gpt-*")];
    let mut anthropic = UpstreamConfig::new("anthropic", fake.url(), Api::Anthropic);
    anthropic.models = vec![ServedModel::named("claude-*")];
    anthropic.credential = Credential::Shared(Secret::new("key"));
    for upstream in [&mut openai, &mut anthropic] {
        upstream.retry.base = Duration::from_millis(1);
    }
    let upstreams = vec![openai, anthropic];
    let fleet = Fleet::new(FleetConfig { upstreams, ..FleetConfig::default() }).unwrap();
    let backend: Arc<dyn Backend> = Arc::new(fleet);
    (fake, router(App::new(&ServerConfig::default(), Pipeline::new(backend))))
}

fn body(model: &str, stream: bool) -> Value {
    json!({"model": model, "stream": stream, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})
}

async fn ask(app: &axum::Router, path: &str, body: &Value) -> Reply {
    send(app.clone(), post(path, &[], body.to_string())).await
}

#[tokio::test]
async fn an_answer_of_the_callers_format_comes_as_the_upstream_wrote_it() {
    let (fake, app) = scene().await;
    fake.always(Script::text("Hello there"));
    let reply = ask(&app, CHAT, &body("gpt-4o", false)).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["service_tier"], "default", "a field that nobody here knows");
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "Hello there");
    let reply = ask(&app, CHAT, &body("gpt-4o", true)).await;
    assert!(reply.body.contains(r#""content":" there""#), "{}", reply.body);
    assert!(reply.body.trim_end().ends_with("data: [DONE]"), "{}", reply.body);
    assert!(!reply.body.contains("usage"), "the client did not ask: {}", reply.body);
    let reply = ask(&app, "/v1/messages", &body("claude-sonnet-5", true)).await;
    assert!(reply.body.contains("event: message_stop"), "{}", reply.body);
    assert!(reply.body.contains("event: ping"), "as it came: {}", reply.body);
    let input = json!({"model": "gpt-4o", "input": "Hi", "stream": true});
    let reply = ask(&app, "/v1/responses", &input).await;
    assert!(reply.body.contains("event: response.completed"), "{}", reply.body);
    let count = ask(
        &app,
        "/v1/messages/count_tokens",
        &json!({"model": "claude-sonnet-5", "messages": []}),
    )
    .await;
    assert!(count.json()["input_tokens"].is_u64(), "{}", count.body);
    assert_eq!(fake.last().unwrap().path, "/v1/messages/count_tokens");
    fake.stop().await;
}

#[tokio::test]
async fn an_upstreams_error_has_the_callers_shape_its_own_words_and_its_request_id() {
    let (fake, app) = scene().await;
    for (path, model) in [(CHAT, "gpt-4o"), ("/v1/messages", "claude-sonnet-5")] {
        let before = fake.came();
        fake.push(Script { retry_after: Some("60".into()), ..Script::error(429, "Slow down") });
        let reply = ask(&app, path, &body(model, false)).await;
        assert_eq!((reply.status.as_u16(), fake.came() - before), (429, 1), "{}", reply.body);
        assert_eq!(reply.header("retry-after"), Some("60"));
        assert_eq!(reply.json()["error"]["message"], "Slow down", "{}", reply.body);
        let shape = if path == CHAT { Value::Null } else { "error".into() };
        assert_eq!(reply.json()["type"], shape);
        let id = format!("req_fake_{before:08}");
        let named = reply.headers.values().any(|value| value.to_str().is_ok_and(|v| v == id));
        assert!(named || reply.body.contains(&id), "{:?} {}", reply.headers, reply.body);
    }
    let unknown = ask(&app, CHAT, &body("llama", false)).await;
    assert_eq!(unknown.error(), r#"404 "model" "model_not_found""#);
    fake.stop().await;
}

#[tokio::test]
async fn an_upstream_that_dies_in_the_middle_is_an_error_event() {
    let (fake, app) = scene().await;
    fake.always(Script { cut_after: Some(4), ..Script::default() });
    let reply = ask(&app, CHAT, &body("gpt-4o", true)).await;
    assert!(reply.body.contains("upstream_incomplete"), "{}", reply.body);
    assert!(!reply.body.contains("[DONE]"), "{}", reply.body);
    let reply = ask(&app, "/v1/messages", &body("claude-sonnet-5", true)).await;
    assert!(reply.body.contains("event: error"), "{}", reply.body);
    assert!(!reply.body.contains("message_stop"), "{}", reply.body);
    let reply = ask(&app, CHAT, &body("gpt-4o", false)).await;
    assert_eq!(reply.status, 502, "{}", reply.body);
    let metrics = send(app, get("/metrics")).await.body;
    for line in [
        r#"tapri_upstream_requests_total{model_name="",engine="0",upstream="openai",result="broken"} 2"#,
        r#"upstream="anthropic",result="broken"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    fake.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_mid_stream_cancels_the_upstream() {
    let (fake, app) = scene().await;
    fake.always(Script { stall_after: Some(3), ..Script::default() });
    let request = post(CHAT, &[], body("gpt-4o", true).to_string());
    let mut response = app.clone().oneshot(request).await.unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert!(frame.into_data().unwrap().starts_with(b"data: "));
    assert_eq!(fake.last().unwrap().ending, Ending::Running);
    drop(response);
    let start = Instant::now();
    while fake.last().unwrap().ending != Ending::ClientGone {
        assert!(start.elapsed() < Duration::from_secs(30), "the upstream was never told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    fake.stop().await;
}

#[tokio::test]
async fn cached_tokens_and_predictions_are_metrics() {
    let (fake, app) = scene().await;
    let file = "page ".repeat(2000);
    for n in 0..4 {
        let messages = json!([{"role": "system", "content": file}, {"role": "user", "content": format!("{n}?")}]);
        let reply = ask(&app, CHAT, &json!({"model": "gpt-4o", "messages": messages})).await;
        let cached = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert_eq!(cached.unwrap() > 2000, n > 0, "{}", reply.body);
    }
    let metrics = send(app, get("/metrics")).await.body;
    let value = |name: &str| -> f64 {
        let line =
            metrics.lines().find(|line| line.starts_with(name) && !line.contains("anthropic"));
        line.unwrap_or_else(|| panic!("{name} in {metrics}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let (predicted, cached) = (
        value("tapri_upstream_predicted_cached_tokens_total"),
        value("tapri_upstream_cached_tokens_total"),
    );
    assert!(
        predicted > 6000.0 && (predicted - cached).abs() < 0.1 * cached,
        "{predicted} {cached}"
    );
    assert_eq!(value("vllm:prefix_cache_hits_total"), cached);
    assert_eq!(value("tapri_upstream_running"), 0.0);
    assert_eq!(value("tapri_upstream_up"), 1.0);
    fake.stop().await;
}
