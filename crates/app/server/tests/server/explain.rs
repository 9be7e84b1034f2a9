//! `x-tapri-explain`: why a call reused less than it could, on the answer itself, with the real engine behind it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::{ExplainConfig, Explainer, Pipeline};
use tapri_server::{App, ServerConfig, router};
use tapri_upstream::Embedded;

use super::CHAT;
use super::http::*;

fn start(values: bool, hide_cached_tokens: bool) -> axum::Router {
    let config =
        EngineConfig { threads: NonZeroUsize::MIN, kv_memory: 32 << 20, ..EngineConfig::default() };
    let engine =
        Engine::start_from(&TinyModel::llama().gguf(), PathBuf::from("tiny.gguf"), config).unwrap();
    let backend = Arc::new(Embedded::new(engine, "tiny", vec!["alias".into()]));
    let explainer = Explainer::new(ExplainConfig { values, ..ExplainConfig::default() });
    let pipeline = Pipeline::new(backend).explained(explainer);
    router(App::new(&ServerConfig { hide_cached_tokens, ..ServerConfig::default() }, pipeline))
}

fn system(time: &str) -> Value {
    json!(format!("It is {time}. {}", "Answer from the file alone, briefly. ".repeat(6)))
}

fn body(system: Value, question: &str) -> Value {
    json!({
        "max_tokens": 2, "temperature": 0,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
    })
}

const ASK: (&str, &str) = ("x-tapri-explain", "1");

async fn send_with(app: &axum::Router, headers: &[(&str, &str)], body: &Value) -> Reply {
    let reply = send(app.clone(), post(CHAT, headers, body.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

async fn ask(app: &axum::Router, body: Value) -> Value {
    send_with(app, &[ASK], &body).await.json()
}

#[tokio::test]
async fn a_time_in_the_instructions_is_named_where_it_stands() {
    let app = start(true, false);
    let first = ask(&app, body(system("10:41:55"), "Who signed?")).await;
    assert_eq!(first["tapri"]["explanation"]["reason"], "never_seen");
    let second = ask(&app, body(system("10:42:07"), "Who signed?")).await;
    let id = first["id"].as_str().unwrap().trim_start_matches("chatcmpl-").to_owned();
    let said = &second["tapri"]["explanation"];
    assert_eq!(said["reason"], "time_changed", "{second}");
    assert_eq!(said["nearest"], id);
    assert_eq!(
        said["place"],
        json!({"path": "messages[0].content", "character": 10, "page": null})
    );
    assert_eq!((&said["old"], &said["new"]), (&json!("10:41:55"), &json!("10:42:07")));
    assert_eq!(said["looks_like"], "looks like a time of day");
    assert_eq!(said["estimated"], false);
    // The engine's own count of the same thing.
    let stop = second["tapri"]["stop"].as_str().unwrap();
    assert!(matches!(stop, "first_difference" | "never_seen"), "{stop}");
    assert!(said["shared_tokens"].as_u64().unwrap() < 64, "{said}");
    // A whole repeat has nothing to explain.
    let third = ask(&app, body(system("10:42:07"), "Who signed?")).await;
    assert_eq!(third["tapri"]["explanation"], Value::Null, "{third}");
    assert!(third["tapri"]["cached_tokens"].as_u64().unwrap() > 100);
}

#[tokio::test]
async fn values_are_shown_only_where_they_are_allowed() {
    let app = start(false, false);
    ask(&app, body(system("10:41:55"), "Who signed?")).await;
    let reply = send_with(&app, &[ASK], &body(system("10:42:07"), "Who signed?")).await;
    let said = &reply.json()["tapri"]["explanation"];
    assert_eq!(
        (&said["reason"], &said["new"], &said["old"]),
        (&json!("time_changed"), &Value::Null, &Value::Null)
    );
    assert!(!reply.body.contains("10:4"), "{}", reply.body);
}

#[tokio::test]
async fn only_who_asks_is_told_and_nobody_where_hits_are_hidden() {
    let app = start(true, false);
    let plain = send_with(&app, &[], &body(system("10:41:55"), "Who signed?")).await;
    assert!(plain.json().get("tapri").is_none());
    let hidden = start(true, true);
    assert!(ask(&hidden, body(system("10:41:55"), "Who signed?")).await.get("tapri").is_none());
}

#[tokio::test]
async fn a_stream_says_it_in_its_last_chunk() {
    let app = start(true, false);
    ask(&app, body(system("10:41:55"), "Who signed?")).await;
    let mut streamed = body(system("10:42:07"), "Who signed?");
    streamed["stream"] = true.into();
    let reply = send_with(&app, &[ASK], &streamed).await;
    let chunks: Vec<Value> = reply
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let (last, before) = chunks.split_last().unwrap();
    assert_eq!(last["tapri"]["explanation"]["reason"], "time_changed");
    assert!(before.iter().all(|chunk| chunk.get("tapri").is_none()));
}

#[tokio::test]
async fn a_new_question_a_salt_a_bypass_and_a_short_prompt_each_have_their_reason() {
    let app = start(true, false);
    let reason = |answer: &Value| answer["tapri"]["explanation"]["reason"].clone();
    ask(&app, body(system("10:41:55"), "Who signed the compact of 1978?")).await;
    let other = ask(&app, body(system("10:41:55"), "What is a lease?")).await;
    assert_eq!(reason(&other), "last_message_differs", "{other}");

    let mut salted = body(system("10:41:55"), "What is a lease?");
    salted["cache_salt"] = "mine".into();
    let salted = ask(&app, salted).await;
    assert_eq!(salted["tapri"]["cached_tokens"], 0);
    assert_eq!(reason(&salted), "salt_changed", "{salted}");

    let no_cache = [ASK, ("cache-control", "no-cache")];
    let bypassed = send_with(&app, &no_cache, &body(system("10:41:55"), "What is a lease?")).await;
    assert_eq!(reason(&bypassed.json()), "bypassed");

    let short = json!({"max_tokens": 1, "prompt": "a"}).to_string();
    let short = send(app.clone(), post("/v1/completions", &[ASK], short)).await;
    assert_eq!(reason(&short.json()), "below_one_block", "{}", short.body);
}

#[tokio::test]
async fn a_value_at_the_very_top_is_found_all_the_same() {
    let app = start(true, false);
    let rest = "Answer from the file alone, briefly. ".repeat(6);
    let at = |id: &str| json!(format!("{id}\n{rest}"));
    ask(&app, body(at("4b1c8f1e-5f0a-4c57-9d0e-0f9f2a3b4c5d"), "Who signed?")).await;
    let second = ask(&app, body(at("e7a90c2d-1b3f-4e8a-8c6d-5a4b3c2d1e0f"), "Who signed?")).await;
    let said = &second["tapri"]["explanation"];
    assert_eq!(said["reason"], "uuid_changed", "{second}");
    assert_eq!(said["place"]["character"], 0);
}

#[tokio::test]
async fn what_must_not_be_stored_is_not_compared_with() {
    let app = start(true, false);
    let secret = body(system("10:41:55"), "Who signed?");
    send_with(&app, &[ASK, ("cache-control", "no-store")], &secret).await;
    let next = ask(&app, body(system("10:42:07"), "Who signed?")).await;
    assert_eq!(next["tapri"]["explanation"]["reason"], "never_seen");
    assert!(next["tapri"]["explanation"]["nearest"].is_null());
}

#[tokio::test]
async fn plain_text_that_begins_with_the_time() {
    let app = start(true, false);
    let rest = "Answer from the file alone, briefly. ".repeat(12);
    for (n, time) in ["10:00", "11:00", "11:17", "23:59"].into_iter().enumerate() {
        let body = json!({"max_tokens": 1, "prompt": format!("{time} {rest}")}).to_string();
        let said = send(app.clone(), post("/v1/completions", &[ASK], body)).await.json();
        let reason = said["tapri"]["explanation"]["reason"].clone();
        assert_eq!(reason, if n == 0 { "never_seen" } else { "time_changed" }, "{said}");
    }
}
