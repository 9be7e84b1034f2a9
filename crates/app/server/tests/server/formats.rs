//! Every format through the server: answers, streams, errors, and what an upstream says on its way to the caller.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tapri_api::convert::Dropped;
use tapri_api::decode::{self, Decoder, Options};
use tapri_api::{Admission, CallEvent, Format, Prompt, ReuseStop};
use tapri_pipeline::cache::exact::{ExactCache, ExactConfig};
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{App, ServerConfig, router};

use super::CHAT;
use super::http::*;
use super::scripted::*;

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const MESSAGE: &str = r#"{"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}"#;

/// A request of each format, whole and streamed.
fn asked(path: &str, stream: bool) -> String {
    let mut body = match path {
        RESPONSES => json!({"input": "hi"}),
        _ => json!({"max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}),
    };
    body["stream"] = stream.into();
    if path == CHAT && stream {
        body["stream_options"] = json!({"include_usage": true});
    }
    body.to_string()
}

async fn ask(backend: &Arc<Scripted>, path: &str, body: String) -> Reply {
    send(app(backend, ServerConfig::default()), post(path, &[], body)).await
}

#[tokio::test]
async fn a_message_and_its_stream() {
    let backend = Scripted::plays(whole_call());
    let reply = ask(&backend, MESSAGES, MESSAGE.into()).await;
    let json = reply.json();
    assert_eq!(json["id"], format!("msg_{}", reply.header("request-id").unwrap()));
    assert_eq!(json["content"], json!([{"type": "text", "text": "Hello there"}]));
    assert_eq!(json["stop_reason"], "end_turn");
    assert_eq!(json["usage"]["input_tokens"], 4, "what was cached is counted apart");
    assert_eq!(json["usage"]["cache_read_input_tokens"], 96);
    let call = backend.calls.lock().unwrap()[0].clone();
    let Prompt::Request(inbound) = &call.prompt else { panic!("{call:?}") };
    assert_eq!((inbound.format, &*call.origin.route), (Format::Messages, MESSAGES));

    let reply = ask(&backend, MESSAGES, asked(MESSAGES, true)).await;
    let names: Vec<&str> =
        reply.body.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    assert!(!reply.body.contains("[DONE]"));
    let begun = first(&reply.body)["message"]["usage"].clone();
    assert_eq!(
        begun,
        json!({"input_tokens": 4, "cache_read_input_tokens": 96, "output_tokens": 0}),
        "clients read the prompt's tokens where the message begins"
    );
    // Where hits are hidden, so they are here.
    let hidden = ServerConfig { hide_cached_tokens: true, ..ServerConfig::default() };
    let request = post(MESSAGES, &[], asked(MESSAGES, true));
    let reply = send(app(&backend, hidden), request).await;
    let begun = first(&reply.body)["message"]["usage"].clone();
    assert_eq!(begun, json!({"input_tokens": 100, "output_tokens": 0}));
}

/// The data of a stream's first event.
fn first(body: &str) -> Value {
    let data = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str(data).unwrap()
}

/// A stored answer's tokens are known as well.
#[tokio::test]
async fn a_replayed_message_begins_with_its_tokens() {
    let backend = Scripted::plays(whole_call());
    let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
    let pipeline = pipeline.cached(ExactCache::new(ExactConfig::default()));
    let app = router(App::new(&ServerConfig::default(), pipeline));
    for _ in 0..2 {
        let reply = send(app.clone(), post(MESSAGES, &[], asked(MESSAGES, true))).await;
        let usage = &first(&reply.body)["message"]["usage"];
        let tokens = |name: &str| usage[name].as_u64().unwrap();
        assert_eq!(tokens("input_tokens") + tokens("cache_read_input_tokens"), 100, "{usage}");
    }
    assert_eq!(backend.calls.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_response_and_its_stream() {
    let backend = Scripted::plays(whole_call());
    let reply = ask(&backend, RESPONSES, asked(RESPONSES, false)).await;
    let json = reply.json();
    assert_eq!(json["output"][0]["content"][0]["text"], "Hello there");
    assert_eq!(json["usage"]["input_tokens_details"]["cached_tokens"], 96);
    let reply = ask(&backend, RESPONSES, asked(RESPONSES, true)).await;
    assert!(reply.body.starts_with("event: response.created\n"), "{}", reply.body);
    assert!(reply.body.contains("event: response.completed\n"), "{}", reply.body);
}

/// maximhq/bifrost#3049, BerriAI/litellm#8570: what the cache did was missing on hits, and null in streams.
#[tokio::test]
async fn every_format_says_what_the_caches_did_on_hits_and_in_streams() {
    for path in [CHAT, MESSAGES, RESPONSES] {
        let backend = Scripted::plays(whole_call());
        let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
        let pipeline = pipeline.cached(ExactCache::new(ExactConfig::default()));
        let app = router(App::new(&ServerConfig::default(), pipeline));
        for (stream, expected) in [(false, "tapri-exact; fwd=miss"), (false, "hit"), (true, "hit")]
        {
            let headers = [("x-tapri-explain", "1")];
            let request = post(path, &headers, asked(path, stream));
            let reply = send(app.clone(), request).await;
            let status = reply.header("cache-status").unwrap();
            assert!(status.contains(expected), "{path} {stream}: {status}");
            let last: Value = match stream {
                false => reply.json(),
                true => reply
                    .body
                    .lines()
                    .filter_map(|line| {
                        serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok()
                    })
                    .find(|event| event.to_string().contains("\"tapri\""))
                    .unwrap_or_else(|| panic!("no note: {}", reply.body)),
            };
            let note = last.get("tapri").or_else(|| last["response"].get("tapri")).unwrap();
            let outcome = if expected == "hit" { "hit" } else { "miss" };
            assert_eq!(note["exact"], outcome, "{path} {stream}");
        }
        assert_eq!(
            backend.calls.lock().unwrap().len(),
            1,
            "{path}: streams and bodies share an answer"
        );
    }
}

#[tokio::test]
async fn errors_have_the_shape_of_the_callers_api() {
    let backend = Scripted::plays(whole_call());
    let reply = ask(&backend, MESSAGES, "[]".into()).await;
    let json = reply.json();
    assert_eq!((reply.status.as_u16(), &json["type"]), (400, &json!("error")));
    assert_eq!(json["error"]["type"], "invalid_request_error");
    assert_eq!(json["request_id"], reply.header("request-id").unwrap());
    let reply = send(app(&backend, ServerConfig::default()), get(MESSAGES)).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["type"]), (405, &json!("error")));

    // An upstream's, with its own status, words and name for the request.
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_up"}"#;
    let error = decode::error(Format::Messages, 529, body, None);
    let backend = Scripted::refuses(error);
    let reply = ask(&backend, MESSAGES, MESSAGE.into()).await;
    assert_eq!(reply.status.as_u16(), 529);
    assert_eq!(reply.json()["error"]["type"], "overloaded_error");
    assert_eq!(reply.json()["request_id"], "req_up");
    assert_eq!(reply.header("x-tapri-upstream-request-id"), Some("req_up"));
    let reply = ask(&backend, CHAT, asked(CHAT, true)).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["error"]["type"]),
        (529, &json!("server_error"))
    );
}

#[tokio::test]
async fn an_upstreams_stream_goes_through_as_it_came_and_says_what_was_left_out() {
    let lines = [
        r#"{"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","content":[],"new":1,"usage":{"input_tokens":3,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let dropped = Dropped {
        field: "tools[0].cache_control".into(),
        why: "has no place in the upstream's API",
    };
    let mut script = vec![Step::Event(CallEvent::Admitted(Admission {
        reuse: None,
        queued: Duration::ZERO,
        template: None,
        prompt_ids: None,
        dropped: vec![dropped],
    }))];
    let mut decoder = Decoder::new(Format::Messages, Options::default());
    script
        .extend(lines.iter().flat_map(|line| decoder.event(None, line).unwrap()).map(Step::Event));
    let backend = Scripted::plays(script);
    let reply = ask(&backend, MESSAGES, asked(MESSAGES, true)).await;
    let data: Vec<&str> =
        reply.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data, lines);
    let warning = "tools[0].cache_control has no place in the upstream's API";
    assert_eq!(reply.header("x-tapri-warning"), Some(warning));
}

#[tokio::test]
async fn tokens_of_a_message_are_counted() {
    let backend = Scripted::plays(Vec::new());
    let body = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;
    let reply = ask(&backend, "/v1/messages/count_tokens", body.into()).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"input_tokens": 2})));
    let reply = ask(&backend, "/v1/messages/count_tokens", r#"{"model": "none"}"#.into()).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
}

#[tokio::test]
async fn a_message_stream_shows_that_it_lives_with_pings() {
    tokio::time::pause();
    let backend = Scripted::plays(vec![admitted(0, ReuseStop::NeverSeen), token("He"), Step::Hang]);
    let app = app(&backend, ServerConfig::default());
    let request = post(MESSAGES, &[], asked(MESSAGES, true));
    let mut body = tower::ServiceExt::oneshot(app, request).await.unwrap().into_body();
    for expected in ["event: message_start", "event: ping"] {
        let frame =
            http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(expected.as_bytes()), "{frame:?}");
    }
}
