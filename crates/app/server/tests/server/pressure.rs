//! More callers than there is room for, and readers that don't read: with the real engine, on a tiny random model.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::tenants::key::KeyHash;
use tapri_server::{AccessConfig, App, ServerConfig, Tenants, bind, router};
use tapri_upstream::Embedded;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::http::*;

const TEXT: &str = "/v1/completions";
const ADMIN: &str = "tapri_admin_admin_admin";
const PROMPT: usize = 60;
const ANSWER: usize = 60;

fn embedded(config: EngineConfig) -> Arc<Embedded> {
    let model = TinyModel::llama();
    let engine = Engine::start_from(&model.gguf(), "tiny.gguf".into(), config).unwrap();
    Arc::new(Embedded::new(engine, "tiny", Vec::new()))
}

/// Room for four calls of a prompt and an answer.
fn for_four(max_waiting: usize) -> Arc<Embedded> {
    let block = embedded(EngineConfig::default()).stats().unwrap().block_bytes;
    let kv_memory = ((1 + 4 * (PROMPT + ANSWER).div_ceil(16)) * block) as u64;
    embedded(EngineConfig { kv_memory, max_waiting, ..EngineConfig::default() })
}

fn config() -> ServerConfig {
    let access = AccessConfig { admin_key: Some(KeyHash::of(ADMIN)), ..AccessConfig::default() };
    ServerConfig { tenants: Arc::new(Tenants::new(access).unwrap()), ..ServerConfig::default() }
}

fn app(backend: &Arc<Embedded>) -> axum::Router {
    router(App::new(&config(), Pipeline::new(Arc::clone(backend) as Arc<dyn Backend>)))
}

/// A prompt that no other begins as.
fn body(number: usize) -> String {
    let ids: Vec<usize> =
        (0..PROMPT).map(|at| 20 + (number + at * (number / 200 + 7)) % 200).collect();
    json!({"prompt": ids, "max_tokens": ANSWER, "temperature": 0, "ignore_eos": true}).to_string()
}

async fn operator(app: &axum::Router, path: &str) -> Reply {
    let mut request = get(path);
    request.headers_mut().insert("x-api-key", ADMIN.parse().unwrap());
    let reply = send(app.clone(), request).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

/// The value of the metric whose line has all of these in it.
async fn metric(app: &axum::Router, parts: &[&str]) -> f64 {
    let metrics = operator(app, "/metrics").await.body;
    let line = metrics.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    let line = line.unwrap_or_else(|| panic!("{parts:?} in {metrics}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

async fn nothing_is_held(app: &axum::Router) {
    let held = operator(app, "/admin/engine").await.json();
    assert_eq!(held["kv_blocks"]["in_use"], 0, "{held}");
    assert_eq!((&held["kv_blocks"]["leaked"], &held["calls_lost"]), (&json!(0), &json!(0)));
    assert_eq!(held["calls"], json!([]));
    for state in ["running", "joining", "waiting"] {
        let gauge = metric(app, &["tapri_engine_calls{", &format!("state=\"{state}\"")]).await;
        assert_eq!((gauge, held[state].as_u64()), (0.0, Some(0)), "{state}");
    }
    assert_eq!(metric(app, &["tapri_kv_blocks{", "state=\"used\""]).await, 0.0);
    assert_eq!(metric(app, &["tapri_kv_blocks_leaked{"]).await, 0.0);
}

/// 200 clients at once: each is answered, or told at once to come back, and none is lost. Whoever comes back is answered.
#[tokio::test]
async fn two_hundred_clients_where_four_have_room() {
    let backend = for_four(60);
    let app = app(&backend);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (app, request) = (app.clone(), post(TEXT, &[], body(number)));
        calls.spawn(async move { (number, send(app, request).await) });
    }
    let (mut texts, mut refused) = (vec![None; 200], Vec::new());
    let mut seen_waiting = false;
    while let Some(ended) = calls.join_next().await {
        let (number, reply) = ended.unwrap();
        if reply.status == 200 {
            texts[number] = Some(reply.json()["choices"][0]["text"].clone());
        } else {
            assert_eq!(reply.error(), r#"429 null "queue_full""#, "{}", reply.body);
            assert_eq!(reply.header("retry-after"), Some("1"));
            refused.push(number);
        }
        if !seen_waiting {
            let held = operator(&app, "/admin/engine").await.json();
            assert_eq!(held["kv_blocks"]["leaked"], 0, "{held}");
            assert!(held["running"].as_u64().unwrap() <= 4, "{held}");
            let of = |state: &str| -> Vec<u64> {
                let calls = held["calls"].as_array().unwrap().iter();
                let calls = calls.filter(|call| call["state"] == state);
                calls.map(|call| call["id"].as_u64().unwrap()).collect()
            };
            if let (Some(newest), Some(first)) = (of("running").last(), of("waiting").first()) {
                assert!(newest < first, "first come, first served: {held}");
                assert!(of("waiting").is_sorted());
                seen_waiting = true;
            }
        }
    }
    assert!(seen_waiting, "nobody was seen waiting");
    let answered = texts.iter().flatten().count();
    assert_eq!(answered + refused.len(), 200);
    assert!(answered >= 60 && !refused.is_empty(), "{answered} were answered");
    for number in refused {
        let reply = send(app.clone(), post(TEXT, &[], body(number))).await;
        texts[number] = Some(reply.json()["choices"][0]["text"].clone());
    }
    let alone =
        self::app(&embedded(EngineConfig { prefix_cache: false, ..EngineConfig::default() }));
    for number in (0..200).step_by(7) {
        let reply = send(alone.clone(), post(TEXT, &[], body(number))).await;
        assert_eq!(texts[number], Some(reply.json()["choices"][0]["text"].clone()), "{number}");
    }
    nothing_is_held(&app).await;
}

/// Only the operator sees it, and a server without an engine says so.
#[tokio::test]
async fn who_holds_what_is_the_operators_to_see() {
    let backend = for_four(10);
    let with_key = app(&backend);
    let refused = send(with_key, get("/admin/engine")).await;
    assert_eq!(refused.status, 401, "{}", refused.body);
    let without = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
    let without = router(App::new(&ServerConfig::default(), without));
    assert_eq!(send(without, get("/admin/engine")).await.status, 404);
    let scripted = super::scripted::Scripted::plays(super::scripted::whole_call());
    let scripted = super::scripted::app(&scripted, config());
    let mut request = get("/admin/engine");
    request.headers_mut().insert("x-api-key", ADMIN.parse().unwrap());
    assert_eq!(send(scripted, request).await.error(), r#"404 null "no_engine""#);
}

async fn connect(address: SocketAddr, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST {TEXT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    stream
}

async fn read(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(300), "waited five minutes for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Clients that ask for long streams and read nothing: the engine goes on to the end of their answers, others are
/// served beside them, and the answers are whole for whoever reads them later.
#[tokio::test]
async fn a_slow_reader_holds_up_no_one() {
    let backend = embedded(EngineConfig { threads: NonZeroUsize::MIN, ..EngineConfig::default() });
    let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
    let bound = bind(ServerConfig { port: 0, ..config() }).await.unwrap();
    let address = bound.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(bound.run_until(pipeline, async { stopped.await.unwrap() }));
    let long = json!({"prompt": "a", "max_tokens": 1500, "ignore_eos": true, "stream": true, "temperature": 0});
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(connect(address, &long).await);
    }
    until("the long calls to run", || backend.stats().unwrap().running == 3).await;
    let short = json!({"prompt": "b", "max_tokens": 5, "ignore_eos": true, "temperature": 0});
    let first = read(connect(address, &short).await).await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    until("the long answers to end unread", || backend.stats().unwrap().running == 0).await;
    let stats = backend.stats().unwrap();
    assert_eq!((stats.answer_tokens, stats.blocks_used), (3 * 1500 + 5, 0));
    let again = read(connect(address, &short).await).await;
    let text = |answer: &str| -> Value {
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str::<Value>(body).unwrap()["choices"].clone()
    };
    assert_eq!(text(&again), text(&first));
    drop(slow.pop());
    for stream in slow {
        let answer = read(stream).await;
        assert!(answer.contains("data: [DONE]"), "it is whole: {} bytes", answer.len());
    }
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}
