//! `/cache/pins` and `/cache/reset`, with the engine on a tiny model.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{App, ServerConfig, router};
use tapri_upstream::Embedded;

use super::CHAT;
use super::http::*;

const PINS: &str = "/cache/pins";
const TEXT: &str = "/v1/completions";

fn app() -> axum::Router {
    let config = EngineConfig {
        threads: NonZeroUsize::MIN,
        // Some 60 blocks.
        kv_memory: 2 << 20,
        pin_limit: 0.5,
        ..EngineConfig::default()
    };
    let model = TinyModel::llama();
    let engine = Engine::start_from(&model.gguf(), PathBuf::from("tiny.gguf"), config).unwrap();
    let backend = Arc::new(Embedded::new(engine, "tiny", Vec::new()));
    router(App::new(&ServerConfig::default(), Pipeline::new(backend as Arc<dyn Backend>)))
}

async fn ask(app: &axum::Router, path: &str, body: Value) -> Reply {
    send(app.clone(), post(path, &[], body.to_string())).await
}

async fn delete(app: &axum::Router, name: &str) -> Reply {
    let request = Request::builder().method(Method::DELETE).uri(format!("{PINS}/{name}"));
    send(app.clone(), request.body(Body::empty()).unwrap()).await
}

fn cached(reply: &Reply) -> u64 {
    reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

fn gauge(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_start_is_pinned_listed_used_and_taken_away() {
    let app = app();
    let document = "the quick brown fox jumps over the lazy dog, ".repeat(3);
    let start = json!({"messages": [{"role": "system", "content": document}]});
    let made = ask(&app, PINS, start).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let made = made.json();
    assert_eq!(
        (&made["object"], &made["tenant"], &made["model"]),
        (&json!("pin"), &json!("default"), &json!("tiny"))
    );
    let tokens = made["tokens"].as_u64().unwrap();
    assert!(tokens > 64 && tokens.is_multiple_of(16), "{made}");
    assert!(made["prompt_tokens"].as_u64().unwrap() >= tokens && made["cached_tokens"] == 0);
    let list = send(app.clone(), get(PINS)).await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    for field in ["id", "tokens", "blocks", "bytes", "tenant"] {
        assert_eq!(list["data"][0][field], made[field], "{field}");
    }
    let metrics = send(app.clone(), get("/metrics")).await.body;
    assert_eq!(gauge(&metrics, "tapri_kv_pins"), 1.0);
    assert_eq!(gauge(&metrics, "tapri_kv_pinned_bytes"), made["bytes"].as_f64().unwrap());
    // Other prompts fill the memory several times over.
    for number in 0..30 {
        let other = format!("{number} {}", "unlike anything before it ".repeat(12));
        let reply = ask(&app, TEXT, json!({"prompt": other, "max_tokens": 1})).await;
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    let metrics = send(app.clone(), get("/metrics")).await.body;
    assert!(gauge(&metrics, "tapri_kv_blocks_evicted_total") > 60.0);
    let question = json!({
        "messages": [
            {"role": "system", "content": document},
            {"role": "user", "content": "what does the fox do?"},
        ],
        "max_tokens": 2,
    });
    let hit = ask(&app, CHAT, question).await;
    assert!(cached(&hit) + 32 >= tokens, "{}", hit.body);
    let id = made["id"].as_str().unwrap();
    assert_eq!(delete(&app, id).await.json(), json!({"id": id, "object": "pin", "deleted": true}));
    for gone in [id, "pin_999", "pin_x", "nonsense"] {
        assert_eq!(delete(&app, gone).await.error(), "404 null \"pin_not_found\"");
    }
    assert_eq!(send(app.clone(), get(PINS)).await.json()["data"], json!([]));
}

#[tokio::test]
async fn a_prompt_of_text_or_ids_is_pinned_and_a_reset_says_what_went() {
    let app = app();
    let ids: Vec<u32> = (0..64).map(|n| 100 + n % 90).collect();
    let made =
        ask(&app, PINS, json!({"prompt": ids, "max_tokens": 50, "temperature": 0})).await.json();
    assert_eq!((&made["tokens"], &made["prompt_tokens"]), (&json!(64), &json!(64)));
    let mut longer = ids.clone();
    longer.extend([7, 8, 9]);
    let hit = ask(&app, TEXT, json!({"prompt": longer, "max_tokens": 1})).await;
    assert_eq!(cached(&hit), 64);
    let report = ask(&app, "/cache/reset", json!({})).await.json();
    assert_eq!((&report["reset"], &report["pins_dropped"]), (&json!(true), &json!(1)));
    assert!(report["blocks_dropped"].as_u64().unwrap() >= 4 && report["blocks_in_use"] == 0);
    let cold = ask(&app, TEXT, json!({"prompt": longer, "max_tokens": 1})).await;
    assert_eq!(cached(&cold), 0);
    assert_eq!(send(app.clone(), get(PINS)).await.json()["data"], json!([]));
}

#[tokio::test]
async fn what_can_not_be_pinned_says_why() {
    let app = app();
    for (body, error) in [
        (json!({}), "400 null \"missing_field\""),
        (json!({"prompt": "x"}), "400 \"prompt\" \"nothing_to_pin\""),
        (json!({"prompt": "x".repeat(3000)}), "400 \"prompt\" \"pins_full\""),
        (json!({"messages": []}), "400 \"messages\" \"invalid_value\""),
        (json!({"prompt": "x", "model": "another"}), "404 \"model\" \"model_not_found\""),
    ] {
        let reply = ask(&app, PINS, body.clone()).await;
        assert_eq!(reply.error(), error, "{}", reply.body);
    }
    let reply = send(app.clone(), get("/cache/reset")).await;
    assert_eq!(reply.status, 405);
}

#[tokio::test]
async fn a_prompt_alone_warms_the_cache() {
    let app = app();
    let text = "the quick brown fox jumps over the lazy dog, ".repeat(2);
    let warmed = ask(&app, TEXT, json!({"prompt": text, "max_tokens": 0})).await;
    assert_eq!(warmed.json()["usage"]["completion_tokens"], 0);
    assert_eq!(cached(&warmed), 0);
    let after = cached(&ask(&app, TEXT, json!({"prompt": text, "max_tokens": 1})).await);
    assert!(after >= 32, "{after} of {}", warmed.json()["usage"]);
    let chat = json!({"messages": [{"role": "user", "content": text}], "max_completion_tokens": 0});
    assert_eq!(ask(&app, CHAT, chat.clone()).await.status, 200);
    assert!(cached(&ask(&app, CHAT, chat).await) >= 32);
}

#[tokio::test]
async fn each_tenant_has_its_own_pins() {
    let secret = tapri_server::tenants::secret::ServerSecret::from_bytes([7; 32]);
    let tenant = |name: &str, key: &str| tapri_server::TenantConfig {
        name: name.into(),
        keys: vec![tapri_server::tenants::key::KeyHash::of(key)],
        ..tapri_server::TenantConfig::default()
    };
    let (red, blue) = ("tapri_red_red_red_red", "tapri_blue_blue_blue_");
    let access = tapri_server::AccessConfig {
        tenants: vec![tenant("red", red), tenant("blue", blue)],
        secret: Some(secret),
        ..tapri_server::AccessConfig::default()
    };
    let tenants = Arc::new(tapri_server::Tenants::new(access).unwrap());
    let model = TinyModel::llama();
    let config =
        EngineConfig { threads: NonZeroUsize::MIN, kv_memory: 2 << 20, ..EngineConfig::default() };
    let engine = Engine::start_from(&model.gguf(), PathBuf::from("tiny.gguf"), config).unwrap();
    let backend = Arc::new(Embedded::new(engine, "tiny", Vec::new()));
    let config = ServerConfig { tenants, ..ServerConfig::default() };
    let app = router(App::new(&config, Pipeline::new(backend as Arc<dyn Backend>)));
    let to = |method: Method, path: &str, key: &str, body: Value| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {key}"));
        send(app.clone(), request.body(Body::from(body.to_string())).unwrap())
    };
    let start = json!({"prompt": (100..180).collect::<Vec<u32>>()});
    let made = to(Method::POST, PINS, red, start.clone()).await;
    assert_eq!(made.status, 200, "{}", made.body);
    assert_eq!(made.json()["tenant"], "red");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("{PINS}/{id}");
    assert_eq!(to(Method::GET, PINS, blue, Value::Null).await.json()["data"], json!([]));
    assert_eq!(to(Method::DELETE, &path, blue, Value::Null).await.status, 404);
    // The same start is another tenant's own: it is computed anew, and a reset takes that one alone.
    let own = to(Method::POST, PINS, blue, start).await.json();
    assert_eq!((&own["cached_tokens"], &own["tenant"]), (&json!(0), &json!("blue")));
    let report = to(Method::POST, "/cache/reset", blue, json!({})).await.json();
    assert_eq!((&report["pins_dropped"], &report["blocks_dropped"]), (&json!(1), &json!(5)));
    assert_eq!(
        to(Method::GET, PINS, red, Value::Null).await.json()["data"].as_array().unwrap().len(),
        1
    );
    assert_eq!(to(Method::DELETE, &path, red, Value::Null).await.status, 200);
    assert_eq!(send(app.clone(), get(PINS)).await.status, 401);
}
