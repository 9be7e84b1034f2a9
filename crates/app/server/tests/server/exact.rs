//! The exact cache, as clients and operators see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tapri_pipeline::cache::exact::{ExactCache, ExactConfig};
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::tenants::key::KeyHash;
use tapri_server::tenants::secret::ServerSecret;
use tapri_server::{AccessConfig, App, ServerConfig, TenantConfig, Tenants, router};

use super::CHAT;
use super::http::*;
use super::scripted::*;
use super::wire::{HI, HI_STREAM};

const RED: &str = "tapri_red_red_red_red";
const BLUE: &str = "tapri_blue_blue_blue_";
const ADMIN: &str = "tapri_admin_admin_admin";

fn cached(backend: &Arc<Scripted>, config: &ServerConfig) -> axum::Router {
    let pipeline = Pipeline::new(Arc::clone(backend) as Arc<dyn Backend>);
    let exact = ExactCache::new(ExactConfig::default());
    router(App::new(config, pipeline.cached(exact)))
}

/// The JSON of a streamed answer's frames.
fn frames(reply: &Reply) -> Vec<Value> {
    let data = reply.body.split("\n\n").filter_map(|frame| frame.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn streamed(reply: &Reply) -> String {
    let text =
        |frame: &Value| frame["choices"][0]["delta"]["content"].as_str().unwrap_or("").to_owned();
    frames(reply).iter().map(text).collect()
}

/// Complaint 22: a header that says what the cache did was missing on hits, and null in streams.
#[tokio::test]
async fn every_answer_says_what_the_cache_did() {
    let backend = Scripted::plays(whole_call());
    let app = cached(&backend, &ServerConfig::default());
    let miss = send(app.clone(), post(CHAT, &[], HI)).await;
    assert_eq!(
        miss.header("cache-status"),
        Some(r#"tapri-prefix; fwd=partial; detail="96/100", tapri-exact; fwd=miss"#)
    );
    assert_eq!(miss.header("age"), None);
    for body in [HI, HI_STREAM] {
        let hit = send(app.clone(), post(CHAT, &[], body)).await;
        let status = hit.header("cache-status").unwrap();
        assert!(
            status == "tapri-exact; hit; ttl=86400" || status == "tapri-exact; hit; ttl=86399",
            "{status}"
        );
        assert!(matches!(hit.header("age"), Some("0" | "1")));
    }
    let anew = send(app.clone(), post(CHAT, &[("cache-control", "no-cache")], HI)).await;
    assert!(anew.header("cache-status").unwrap().ends_with("tapri-exact; fwd=request"));
    assert_eq!(backend.calls.lock().unwrap().len(), 2, "the miss, and the one that asked for it");
}

#[tokio::test]
async fn a_stored_answer_is_sent_either_way_with_an_id_of_its_own() {
    let backend = Scripted::plays(whole_call());
    let app = cached(&backend, &ServerConfig::default());
    let usage = r#"{"stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "hi"}]}"#;
    let first = send(app.clone(), post(CHAT, &[], HI_STREAM)).await;
    let whole = send(app.clone(), post(CHAT, &[], HI)).await;
    let again = send(app.clone(), post(CHAT, &[], usage)).await;
    assert_eq!(backend.calls.lock().unwrap().len(), 1);

    let json = whole.json();
    assert_eq!(json["choices"][0]["message"]["content"], "Hello there");
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    assert_eq!((streamed(&first), streamed(&again)), ("Hello there".into(), "Hello there".into()));
    assert_eq!(json["usage"], frames(&again).last().unwrap()["usage"], "as it was counted");
    assert_eq!(json["usage"]["prompt_tokens"], 100);
    let ids = [&frames(&first)[0]["id"], &json["id"], &frames(&again)[0]["id"]];
    assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
    assert_eq!(json["id"], format!("chatcmpl-{}", whole.header("x-request-id").unwrap()));
}

#[tokio::test]
async fn only_if_cached_is_met_by_a_stored_answer_alone() {
    let script = vec![admitted(0, tapri_api::ReuseStop::NeverSeen), token("x"), finished()];
    let backend = Scripted::plays(script);
    let app = cached(&backend, &ServerConfig::default());
    let only = [("cache-control", "only-if-cached")];
    assert_eq!(send(app.clone(), post(CHAT, &only, HI)).await.status, 504);
    assert_eq!(send(app.clone(), post(CHAT, &[], HI)).await.status, 200);
    assert_eq!(send(app.clone(), post(CHAT, &only, HI)).await.status, 200);
}

#[tokio::test]
async fn hidden_hits_are_in_no_header() {
    let config = ServerConfig { hide_cached_tokens: true, ..ServerConfig::default() };
    let app = cached(&Scripted::plays(whole_call()), &config);
    for _ in 0..2 {
        let reply = send(app.clone(), post(CHAT, &[], HI)).await;
        assert_eq!((reply.header("cache-status"), reply.header("age")), (None, None));
    }
}

#[tokio::test]
async fn who_asks_is_told_whether_the_answer_was_kept() {
    let backend = Scripted::plays(whole_call());
    let app = cached(&backend, &ServerConfig::default());
    let explain = [("x-tapri-explain", "1")];
    let first = send(app.clone(), post(CHAT, &explain, HI)).await.json();
    assert_eq!(first["tapri"]["stored"], true, "{first}");
    assert_eq!(first["tapri"]["exact"], "miss");
    let second = send(app.clone(), post(CHAT, &explain, HI)).await.json();
    assert_eq!(second["tapri"]["exact"], "hit");
}

/// The client of a stream leaves, and the model is told to stop; with someone else waiting it goes on.
#[tokio::test]
async fn a_client_that_leaves_mid_stream_cancels_unless_others_wait() {
    let script = vec![admitted(0, tapri_api::ReuseStop::NeverSeen), token("He"), Step::Hang];
    for others in [false, true] {
        let backend = Scripted::plays(script.clone());
        let app = cached(&backend, &ServerConfig::default());
        let first =
            tower::ServiceExt::oneshot(app.clone(), post(CHAT, &[], HI_STREAM)).await.unwrap();
        let second =
            tower::ServiceExt::oneshot(app.clone(), post(CHAT, &[], HI_STREAM)).await.unwrap();
        let status = second.headers()["cache-status"].to_str().unwrap().to_owned();
        assert_eq!(status, "tapri-exact; fwd=miss; collapsed");
        drop(first);
        if !others {
            drop(second);
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(backend.dropped.load(Ordering::SeqCst), 1, "nobody waits");
        } else {
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(backend.dropped.load(Ordering::SeqCst), 0, "someone waits");
            drop(second);
        }
        assert_eq!(backend.calls.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn metrics_say_what_was_looked_up_and_kept() {
    let app = cached(&Scripted::plays(whole_call()), &ServerConfig::default());
    for body in [HI, HI, HI_STREAM].map(str::to_owned) {
        send(app.clone(), post(CHAT, &[], body)).await;
    }
    let metrics = send(app, get("/metrics")).await.body;
    let value = |start: &str| {
        let line = metrics.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let lookups = |outcome: &str| {
        let label = format!("outcome=\"{outcome}\"");
        let of =
            |line: &&str| line.starts_with("tapri_exact_lookups_total{") && line.contains(&label);
        metrics.lines().find(of).and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert_eq!(lookups("hit"), Some(2.0), "{metrics}");
    assert_eq!(lookups("miss"), Some(1.0));
    assert_eq!(value("tapri_exact_stored_total"), Some(1.0));
    assert_eq!(value("tapri_exact_entries"), Some(1.0));
    assert!(
        metrics.contains("tapri_exact_rejected_total{") && metrics.contains("reason=\"length\"")
    );
}

fn tenants(admin: bool) -> ServerConfig {
    let tenant = |name: &str, key: &str| TenantConfig {
        name: name.into(),
        keys: vec![KeyHash::of(key)],
        ..TenantConfig::default()
    };
    let access = AccessConfig {
        tenants: vec![tenant("red", RED), tenant("blue", BLUE)],
        secret: Some(ServerSecret::from_bytes([7; 32])),
        admin_key: admin.then(|| KeyHash::of(ADMIN)),
        ..AccessConfig::default()
    };
    ServerConfig { tenants: Arc::new(Tenants::new(access).unwrap()), ..ServerConfig::default() }
}

async fn asked(app: &axum::Router, key: &str) -> String {
    let reply = send(app.clone(), post(CHAT, &[("x-api-key", key)], HI)).await;
    reply.header("cache-status").unwrap().to_owned()
}

/// Complaint 1, over HTTP: what one tenant asked is nothing to another, stored or under way.
#[tokio::test]
async fn one_tenants_answers_are_never_anothers() {
    let backend = Scripted::plays(whole_call());
    let app = cached(&backend, &tenants(false));
    for key in [RED, BLUE] {
        assert!(asked(&app, key).await.ends_with("tapri-exact; fwd=miss"), "{key}");
        assert!(asked(&app, key).await.starts_with("tapri-exact; hit"), "{key}");
    }
    let hangs = vec![admitted(0, tapri_api::ReuseStop::NeverSeen), token("He"), Step::Hang];
    let backend = Scripted::plays(hangs);
    let app = cached(&backend, &tenants(false));
    let stream = |key| {
        let request = post(CHAT, &[("x-api-key", key)], HI_STREAM);
        tower::ServiceExt::oneshot(app.clone(), request)
    };
    let _red = stream(RED).await.unwrap();
    let blue = stream(BLUE).await.unwrap();
    let status = blue.headers()["cache-status"].to_str().unwrap();
    assert!(status.ends_with("tapri-exact; fwd=miss"), "{status}");
    assert_eq!(backend.calls.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn operators_see_and_erase_what_is_kept() {
    let app = cached(&Scripted::plays(whole_call()), &tenants(true));
    for key in [RED, BLUE] {
        asked(&app, key).await;
    }
    let purge = |key: &'static str, body: &'static str| {
        send(app.clone(), post("/admin/cache/purge", &[("x-api-key", key)], body))
    };
    assert_eq!(purge(RED, r#"{"all": true}"#).await.status, 401, "a tenant's key");
    for (body, why) in [
        ("{}", "Nothing is named"),
        (r#"{"tenant": "red", "all": true}"#, "something else"),
        (r#"{"tenent": "red"}"#, "tenent"),
    ] {
        let reply = purge(ADMIN, body).await;
        assert!(reply.status == 400 && reply.body.contains(why), "{body}: {}", reply.body);
    }
    let stats = || {
        let request = axum::http::Request::builder().uri("/admin/cache").header("x-api-key", ADMIN);
        send(app.clone(), request.body(axum::body::Body::empty()).unwrap())
    };
    assert_eq!(stats().await.json()["exact"]["memory"]["entries"], 2);
    assert_eq!(purge(ADMIN, r#"{"tenant": "red"}"#).await.json()["answers"], 1);
    assert_eq!(stats().await.json()["exact"]["memory"]["entries"], 1);
    assert!(asked(&app, RED).await.ends_with("tapri-exact; fwd=miss"));
    assert!(asked(&app, BLUE).await.starts_with("tapri-exact; hit"));
    let older = purge(ADMIN, r#"{"older_than_seconds": 3600}"#).await.json();
    assert_eq!((&older["answers"], &older["kv_blocks"]), (&json!(0), &Value::Null));
}
