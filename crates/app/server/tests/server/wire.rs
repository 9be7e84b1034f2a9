//! The server in front of a backend that plays what it is told: statuses, headers and frames, and troubles that
//! the real engine gives only rarely. What the engine does over HTTP is tested with the engine (`engine.rs`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::CHAT;
use super::http::*;
use super::scripted::*;
use axum::body::Body;
use tapri_api::{ApiError, CallEvent, ErrorKind, ReuseStop};
use tapri_server::{BodyLimit, ServerConfig};

pub const HI: &str = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;
pub const HI_STREAM: &str = r#"{"stream": true, "messages": [{"role": "user", "content": "hi"}]}"#;

async fn chat(script: Vec<Step>, headers: &[(&str, &str)], body: &'static str) -> Reply {
    send(app(&Scripted::plays(script), ServerConfig::default()), post(CHAT, headers, body)).await
}

#[tokio::test]
async fn an_answer_and_its_headers() {
    let reply = chat(whole_call(), &[], HI).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-status"), Some(r#"tapri-prefix; fwd=partial; detail="96/100""#));
    assert_eq!(reply.header("x-tapri-template"), Some("chatml-fallback"));
    let json = reply.json();
    assert_eq!(json["id"], format!("chatcmpl-{}", reply.header("x-request-id").unwrap()));
    assert_eq!(json["choices"][0]["message"]["content"], "Hello there");
    assert_eq!(json["model"], "tiny");
    assert_eq!(json["system_fingerprint"], "fp_0123456789");
    assert_eq!(json["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
}

#[tokio::test]
async fn a_stream_has_the_same_headers_and_ends_with_done() {
    let reply = chat(whole_call(), &[], HI_STREAM).await;
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    assert_eq!(reply.header("cache-status"), Some(r#"tapri-prefix; fwd=partial; detail="96/100""#));
    let frames: Vec<&str> = reply.body.split_terminator("\n\n").collect();
    assert!(frames.iter().all(|frame| frame.starts_with("data: ")), "{frames:?}");
    assert_eq!(*frames.last().unwrap(), "data: [DONE]");
    assert_eq!(frames.len(), 5, "the role, two tokens, the end, [DONE]: {frames:?}");
}

#[tokio::test]
async fn a_short_hit_says_why_it_stopped_and_nothing_of_other_scopes() {
    let script = vec![admitted(16, ReuseStop::Difference { token: 21 }), finished()];
    let reply = chat(script, &[], HI).await;
    let expected = r#"tapri-prefix; fwd=partial; detail="16/100, first difference at token 21""#;
    assert_eq!(reply.header("cache-status"), Some(expected));
}

#[tokio::test]
async fn hidden_hits_are_in_neither_header_nor_usage() {
    let config = ServerConfig { hide_cached_tokens: true, ..ServerConfig::default() };
    for body in [
        HI,
        r#"{"stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "hi"}]}"#,
    ] {
        let reply =
            send(app(&Scripted::plays(whole_call()), config.clone()), post(CHAT, &[], body)).await;
        assert_eq!(reply.header("cache-status"), None);
        assert!(
            reply.body.contains(r#""prompt_tokens":100"#) && !reply.body.contains("cached"),
            "{}",
            reply.body
        );
    }
}

#[tokio::test]
async fn cache_control_reaches_the_call() {
    let backend = Scripted::plays(whole_call());
    let headers = [("cache-control", "no-cache, max-age=5"), ("cache-control", "no-store")];
    send(app(&backend, ServerConfig::default()), post(CHAT, &headers, HI)).await;
    let cache = backend.calls.lock().unwrap()[0].cache;
    assert!(cache.no_cache && cache.no_store && !cache.only_if_cached);
    assert_eq!(cache.max_age, Some(Duration::from_secs(5)));
}

#[tokio::test]
async fn only_if_cached_is_a_504_unless_everything_is() {
    let headers = [("cache-control", "only-if-cached")];
    assert_eq!(chat(whole_call(), &headers, HI).await.status, 200);
    let partly = vec![admitted(16, ReuseStop::Evicted), Step::Hang];
    let backend = Scripted::plays(partly);
    let reply = send(app(&backend, ServerConfig::default()), post(CHAT, &headers, HI_STREAM)).await;
    assert_eq!(reply.error(), r#"504 null "not_cached""#);
    assert!(reply.body.contains("16 of 100 prompt tokens are cached (evicted)"), "{}", reply.body);
    assert_eq!(backend.dropped.load(Ordering::SeqCst), 1, "the call is cancelled");
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let error = ApiError::new(ErrorKind::Busy, "Too many calls wait")
        .retry_after(Duration::from_millis(1200));
    let reply =
        send(app(&Scripted::refuses(error), ServerConfig::default()), post(CHAT, &[], HI_STREAM))
            .await;
    assert_eq!((reply.status.as_u16(), reply.header("retry-after")), (429, Some("2")));
    assert!(reply.header("x-request-id").is_some());
}

#[tokio::test]
async fn a_failure_before_the_first_token_has_a_status_and_later_ones_are_frames() {
    let failed =
        Step::Event(CallEvent::Failed(ApiError::new(ErrorKind::Unavailable, "Over").code("over")));
    for body in [HI, HI_STREAM] {
        let reply = chat(vec![failed.clone()], &[], body).await;
        assert_eq!(reply.error(), r#"503 null "over""#);
    }
    let late = vec![admitted(0, ReuseStop::NeverSeen), token("He"), failed];
    assert_eq!(chat(late.clone(), &[], HI).await.error(), r#"503 null "over""#);
    let reply = chat(late, &[], HI_STREAM).await;
    assert_eq!(reply.status, 200);
    let last = reply.body.trim_end().rsplit("\n\n").next().unwrap();
    assert_eq!(
        last,
        r#"data: {"error":{"message":"Over.","type":"server_error","param":null,"code":"over"}}"#
    );
    assert!(!reply.body.contains("[DONE]"), "what came is not a whole answer");
}

#[tokio::test]
async fn an_engine_that_dies_is_an_error_not_a_short_answer() {
    let script = vec![admitted(0, ReuseStop::NeverSeen), token("He"), Step::Die];
    assert_eq!(chat(script.clone(), &[], HI).await.error(), r#"500 null "engine_lost""#);
    assert!(chat(script, &[], HI_STREAM).await.body.contains("engine_lost"));
    assert_eq!(chat(vec![Step::Die], &[], HI_STREAM).await.error(), r#"500 null "engine_lost""#);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_shows_that_it_lives() {
    let backend = Scripted::plays(vec![admitted(0, ReuseStop::NeverSeen), Step::Hang]);
    let app = app(&backend, ServerConfig::default());
    let response = tower::ServiceExt::oneshot(app, post(CHAT, &[], HI_STREAM)).await.unwrap();
    let mut body = response.into_body();
    let frame =
        http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, ": still at it\n\n", "a comment, which clients skip");
    drop(body);
    assert_eq!(backend.dropped.load(Ordering::SeqCst), 1, "a client that leaves cancels its call");
}

#[tokio::test]
async fn requests_that_are_no_requests() {
    let app = |limit| {
        app(
            &Scripted::plays(whole_call()),
            ServerConfig {
                body_limit: BodyLimit { bytes: limit, ..Default::default() },
                ..Default::default()
            },
        )
    };
    let reply = send(app(1000), post(CHAT, &[("content-type", "text/plain")], HI)).await;
    assert_eq!(reply.error(), r#"415 null "unsupported_media_type""#);
    for allowed in ["application/json; charset=utf-8", "application/vnd.x+json"] {
        assert_eq!(send(app(1000), post(CHAT, &[("content-type", allowed)], HI)).await.status, 200);
    }
    // Announced, and not announced.
    let reply = send(app(20), post(CHAT, &[], HI)).await;
    assert_eq!(
        (reply.error().as_str(), reply.header("connection")),
        (r#"413 null "body_too_large""#, Some("close"))
    );
    let chunks = futures_util::stream::iter((0..10).map(|_| Ok::<_, std::io::Error>("xxxxxxxxxx")));
    let reply = send(app(20), post(CHAT, &[], Body::from_stream(chunks))).await;
    assert_eq!(reply.error(), r#"413 null "body_too_large""#);
    let broken = futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
    let reply = send(app(20), post(CHAT, &[], Body::from_stream(broken))).await;
    assert_eq!(reply.error(), r#"400 null "incomplete_body""#);

    assert_eq!(
        send(app(99), post(CHAT, &[], "{\"messages\": ")).await.error(),
        r#"400 "messages" "invalid_json""#
    );
    assert_eq!(
        send(app(99), post(CHAT, &[], &b"{\"a\": \"\xff\"}"[..])).await.error(),
        r#"400 null "invalid_utf8""#
    );
    assert_eq!(send(app(99), get(CHAT)).await.error(), r#"405 null "method_not_allowed""#);
    assert_eq!(
        send(app(99), post("/v1/models", &[], "")).await.error(),
        r#"405 null "method_not_allowed""#
    );
    assert_eq!(send(app(99), get("/v1/nothing")).await.error(), r#"404 null "path_not_found""#);
}

#[tokio::test]
async fn models_by_name_and_by_other_names() {
    let app = || app(&Scripted::plays(whole_call()), ServerConfig::default());
    let list = send(app(), get("/v1/models")).await.json();
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["tiny", "gpt-4o"]);
    assert_eq!(send(app(), get("/v1/models/gpt-4o")).await.json()["max_model_len"], 1000);
    assert_eq!(
        send(app(), get("/v1/models/some/other")).await.error(),
        r#"404 "model" "model_not_found""#
    );
    let named = r#"{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}"#;
    assert_eq!(send(app(), post(CHAT, &[], named)).await.json()["model"], "gpt-4o");
    let other = r#"{"model": "other", "messages": [{"role": "user", "content": "hi"}]}"#;
    let reply = send(app(), post(CHAT, &[], other)).await;
    assert_eq!(reply.error(), r#"404 "model" "model_not_found""#);
    assert!(reply.body.contains("Ask for `tiny`"), "{}", reply.body);
}

#[tokio::test]
async fn tokens_and_text() {
    let app = || app(&Scripted::plays(whole_call()), ServerConfig::default());
    let count = |reply: Reply| reply.json()["count"].clone();
    assert_eq!(count(send(app(), post("/tokenize", &[], HI)).await), 3);
    assert_eq!(count(send(app(), post("/tokenize", &[], r#"{"prompt": "x"}"#)).await), 2);
    let piece = r#"{"prompt": "x", "add_special_tokens": false}"#;
    assert_eq!(count(send(app(), post("/tokenize", &[], piece)).await), 1);
    let text = send(app(), post("/detokenize", &[], r#"{"tokens": [7]}"#)).await;
    assert_eq!(text.json()["prompt"], "[7]");
    let other = r#"{"model": "other", "tokens": [7]}"#;
    assert_eq!(send(app(), post("/detokenize", &[], other)).await.status, 404);
}

#[tokio::test]
async fn metrics_have_vllms_names() {
    let app = app(&Scripted::plays(whole_call()), ServerConfig::default());
    send(app.clone(), post(CHAT, &[], HI)).await;
    send(app.clone(), post(CHAT, &[], "[]")).await;
    let reply = send(app, get("/metrics")).await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let lines: Vec<&str> = reply
        .body
        .lines()
        .filter(|line| {
            !line.starts_with('#')
                && !line.contains("_bucket")
                && !line.contains("_sum")
                // They are counted on a thread of their own, when it comes to it.
                && !line.starts_with("tapri_hit_rate_")
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn health_is_ok() {
    assert_eq!(
        send(app(&Scripted::plays(Vec::new()), ServerConfig::default()), get("/health")).await.body,
        r#"{"status":"ok"}"#
    );
}
