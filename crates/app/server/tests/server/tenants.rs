//! Keys, tenants, limits, routes, and who sees what.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use axum::http::StatusCode;
use tapri_api::{ApiError, ErrorKind, ReuseStop, TenantScope};
use tapri_server::tenants::key::KeyHash;
use tapri_server::tenants::limits::Limits;
use tapri_server::tenants::route::RouteConfig;
use tapri_server::tenants::secret::ServerSecret;
use tapri_server::{AccessConfig, ServerConfig, TenantConfig, Tenants};

use super::CHAT;
use super::http::{Reply, get, post, send};
use super::scripted::*;
use super::wire::{HI, HI_STREAM};

const RED: &str = "tapri_red_red_red_red";
const BLUE: &str = "tapri_blue_blue_blue_";
const ADMIN: &str = "tapri_admin_admin_admin";

fn tenant(name: &str, key: &str) -> TenantConfig {
    TenantConfig { name: name.into(), keys: vec![KeyHash::of(key)], ..TenantConfig::default() }
}

fn two() -> AccessConfig {
    AccessConfig {
        tenants: vec![tenant("red", RED), tenant("blue", BLUE)],
        secret: Some(ServerSecret::from_bytes([7; 32])),
        ..AccessConfig::default()
    }
}

fn config(access: AccessConfig) -> ServerConfig {
    ServerConfig { tenants: Arc::new(Tenants::new(access).unwrap()), ..ServerConfig::default() }
}

async fn ask(app: &axum::Router, key: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let bearer = format!("Bearer {key}");
    let mut all = vec![("authorization", bearer.as_str())];
    all.extend(headers);
    send(app.clone(), post(CHAT, &all, body.to_owned())).await
}

#[tokio::test]
async fn a_key_is_asked_for_and_names_the_tenant() {
    let backend = Scripted::plays(whole_call());
    let app = app(&backend, config(two()));
    let none = send(app.clone(), post(CHAT, &[], HI)).await;
    assert_eq!(none.error(), "401 null \"missing_api_key\"");
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    assert_eq!(ask(&app, "wrong", &[], HI).await.error(), "401 null \"invalid_api_key\"");
    // Anthropic's shape on Anthropic's path.
    let messages = send(app.clone(), post("/v1/messages", &[], HI)).await;
    assert_eq!(messages.status, StatusCode::UNAUTHORIZED);
    assert_eq!(messages.json()["error"]["type"], "authentication_error");
    assert_eq!(messages.json()["type"], "error");
    assert!(backend.calls.lock().unwrap().is_empty(), "nothing came past the gate");

    assert_eq!(ask(&app, RED, &[], HI).await.status, StatusCode::OK);
    let own = send(app.clone(), post(CHAT, &[("x-api-key", BLUE)], HI)).await;
    assert_eq!(own.status, StatusCode::OK);
    // An SDK's made-up key beside the real one.
    let beside =
        send(app.clone(), post(CHAT, &[("authorization", "Bearer none"), ("x-api-key", BLUE)], HI));
    assert_eq!(beside.await.status, StatusCode::OK);
    assert_eq!(send(app, get("/health")).await.status, StatusCode::OK, "has no key to show");
    let calls = backend.calls.lock().unwrap();
    let names: Vec<_> = calls.iter().map(|call| call.origin.tenant.as_ref()).collect();
    assert_eq!(names, ["red", "blue", "blue"]);
    let secret = ServerSecret::from_bytes([7; 32]);
    assert_eq!(calls[0].scope, secret.scope("red"));
    assert_eq!(calls[1].scope, secret.scope("blue"));
}

#[tokio::test]
async fn without_keys_there_is_one_tenant_and_a_key_is_not_looked_at() {
    let backend = Scripted::plays(whole_call());
    let app = app(&backend, ServerConfig::default());
    assert_eq!(ask(&app, "anything", &[], HI).await.status, StatusCode::OK);
    assert_eq!(send(app.clone(), post(CHAT, &[], HI)).await.status, StatusCode::OK);
    let calls = backend.calls.lock().unwrap();
    assert!(calls.iter().all(|call| call.origin.tenant == "default"));
    assert!(calls.iter().all(|call| call.scope == TenantScope::default()));
}

/// The salt that a client sends narrows within its tenant's scope: it can neither name a scope nor leave its own
/// (vllm#53347, tinfoil#386).
#[tokio::test]
async fn a_salt_made_by_the_client_never_becomes_the_scope() {
    let backend = Scripted::plays(whole_call());
    let app = app(&backend, config(two()));
    let red = ServerSecret::from_bytes([7; 32]).scope("red");
    let text: String = red.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let salted = HI.replacen('{', &format!("{{\"cache_salt\": \"{text}\", "), 1);
    assert_eq!(ask(&app, BLUE, &[], &salted).await.status, StatusCode::OK);
    let calls = backend.calls.lock().unwrap();
    assert_eq!(calls[0].scope, ServerSecret::from_bytes([7; 32]).scope("blue"));
    assert_eq!(calls[0].salt.as_ref().unwrap().as_str(), text);
}

#[tokio::test]
async fn limits_refuse_with_a_time_and_say_what_is_left() {
    let backend = Scripted::plays(whole_call());
    let mut access = two();
    access.tenants[0].limits = Limits {
        requests: NonZeroU32::new(3),
        tokens: NonZeroU32::new(1_000),
        ..Limits::default()
    };
    let app = app(&backend, config(access));
    let first = ask(&app, RED, &[], HI).await;
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("3"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("2"));
    // The script's usage: 100 of the prompt and 2 of the answer.
    assert_eq!(first.header("x-ratelimit-remaining-tokens"), Some("898"));
    let long = HI.replacen('{', "{\"max_tokens\": 950, ", 1);
    let refused = ask(&app, RED, &[], &long).await;
    assert_eq!(refused.error(), "429 null \"token_limit_exceeded\"");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(ask(&app, RED, &[], HI).await.status, StatusCode::OK, "a shorter one fits");
    let refused = ask(&app, RED, &[], HI).await;
    assert_eq!(refused.error(), "429 null \"rate_limit_exceeded\"");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"));
    let messages = send(app.clone(), post("/v1/messages", &[("x-api-key", RED)], HI)).await;
    assert_eq!(messages.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(messages.json()["error"]["type"], "rate_limit_error");
    assert_eq!(messages.header("anthropic-ratelimit-requests-remaining"), Some("0"));
    assert!(messages.header("anthropic-ratelimit-requests-reset").unwrap().ends_with('Z'));
    let other = ask(&app, BLUE, &[], HI).await;
    assert_eq!(other.status, StatusCode::OK, "one tenant's limits are its own");
    assert_eq!(other.header("x-ratelimit-limit-requests"), None);
}

/// A stream holds its place until it is dropped.
#[tokio::test]
async fn a_stream_counts_as_a_call_until_its_end() {
    use tower::ServiceExt;
    let backend = Scripted::plays(vec![admitted(0, ReuseStop::NeverSeen), token("He"), Step::Hang]);
    let mut access = two();
    access.tenants[0].limits = Limits { concurrent: NonZeroUsize::new(1), ..Limits::default() };
    let app = app(&backend, config(access));
    let bearer = format!("Bearer {RED}");
    let request = || post(CHAT, &[("authorization", &bearer)], HI_STREAM);
    let running = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(running.status(), StatusCode::OK);
    let refused = send(app.clone(), request()).await;
    assert_eq!(refused.error(), "429 null \"concurrency_limit_exceeded\"");
    drop(running);
    let again = app.clone().oneshot(request()).await.unwrap();
    assert_eq!(again.status(), StatusCode::OK, "the place is free");
}

#[tokio::test]
async fn routes_are_chosen_and_held_to() {
    let backend = Scripted::plays(whole_call());
    let mut access = two();
    access.routes = vec![
        RouteConfig { name: "legal".into(), models: vec!["gpt-*".into()] },
        RouteConfig { name: "rest".into(), models: vec![] },
    ];
    access.tenants[1].routes = Some(vec!["legal".into()]);
    let app = app(&backend, config(access));
    let model = |name: &str| HI.replacen('{', &format!("{{\"model\": \"{name}\", "), 1);
    assert_eq!(ask(&app, RED, &[], &model("gpt-4o")).await.status, StatusCode::OK);
    assert_eq!(ask(&app, RED, &[], &model("tiny")).await.status, StatusCode::OK);
    let named = ask(&app, RED, &[("x-tapri-route", "rest")], &model("gpt-4o")).await;
    assert_eq!(named.status, StatusCode::OK);
    let routes: Vec<String> =
        backend.calls.lock().unwrap().iter().map(|call| call.origin.route.to_string()).collect();
    assert_eq!(routes, ["legal", "rest", "rest"]);
    let refused = ask(&app, BLUE, &[], &model("tiny")).await;
    assert_eq!(refused.error(), "403 \"model\" \"model_not_allowed\"");
    let refused = ask(&app, BLUE, &[("x-tapri-route", "rest")], &model("gpt-4o")).await;
    assert_eq!(refused.error(), "403 null \"route_not_allowed\"");
    let list = |key: &'static str| {
        let request = axum::http::Request::builder().uri("/v1/models").header("x-api-key", key);
        send(app.clone(), request.body(axum::body::Body::empty()).unwrap())
    };
    assert_eq!(list(RED).await.json()["data"].as_array().unwrap().len(), 2);
    let blue = list(BLUE).await.json();
    assert_eq!(blue["data"].as_array().unwrap().len(), 1);
    assert_eq!(blue["data"][0]["id"], "gpt-4o");
}

#[tokio::test]
async fn a_tenant_may_be_kept_from_what_the_caches_had() {
    let backend = Scripted::plays(whole_call());
    let mut access = two();
    access.tenants[1].hides_hits = true;
    let app = app(&backend, config(access.clone()));
    let explain = [("x-tapri-explain", "1")];
    let sees = ask(&app, RED, &explain, HI).await;
    assert!(sees.header("cache-status").is_some() && sees.json()["tapri"].is_object());
    assert_eq!(sees.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
    let blind = ask(&app, BLUE, &explain, HI).await;
    assert_eq!(blind.status, StatusCode::OK);
    assert_eq!((blind.header("cache-status"), blind.header("age")), (None, None));
    assert!(!blind.body.contains("cached") && !blind.body.contains("tapri"), "{}", blind.body);
    // Nor does an error tell it.
    let told =
        ApiError::new(ErrorKind::NotCached, "96 of 100 prompt tokens are cached (never seen)");
    let app = super::scripted::app(&Scripted::refuses(told), config(access));
    assert!(ask(&app, RED, &[], HI).await.body.contains("96 of 100"));
    let blind = ask(&app, BLUE, &[], HI).await;
    assert_eq!(blind.status, StatusCode::GATEWAY_TIMEOUT);
    assert!(!blind.body.contains("96") && blind.body.contains("not cached"), "{}", blind.body);
}

#[tokio::test]
async fn the_operators_paths_need_the_operator() {
    let backend = Scripted::plays(whole_call());
    let open = app(&backend, ServerConfig::default());
    assert_eq!(send(open.clone(), get("/metrics")).await.status, StatusCode::OK);
    assert_eq!(send(open, get("/admin/tenants")).await.status, StatusCode::NOT_FOUND);
    let closed = app(&backend, config(two()));
    assert_eq!(send(closed.clone(), get("/metrics")).await.error(), "403 null \"admin_only\"");
    assert_eq!(send(closed, get("/admin/tenants")).await.status, StatusCode::NOT_FOUND);
    let keyed = AccessConfig { admin_key: Some(KeyHash::of(ADMIN)), ..two() };
    let keyed = app(&backend, config(keyed));
    let with = |path: &str, key: &str| {
        let request = axum::http::Request::builder().uri(path).header("x-api-key", key);
        send(keyed.clone(), request.body(axum::body::Body::empty()).unwrap())
    };
    for path in ["/metrics", "/admin/tenants"] {
        assert_eq!(with(path, RED).await.status, StatusCode::UNAUTHORIZED, "a tenant's key");
        assert_eq!(with(path, ADMIN).await.status, StatusCode::OK);
    }
    let listed = with("/admin/tenants", ADMIN).await;
    insta::assert_json_snapshot!(listed.json());
    assert!(!listed.body.contains("sha256") && !listed.body.contains(RED));
}

#[tokio::test]
async fn a_reload_takes_new_keys_and_an_error_changes_nothing() {
    let backend = Scripted::plays(whole_call());
    let next = Arc::new(std::sync::Mutex::new(Ok(two())));
    let access = AccessConfig { admin_key: Some(KeyHash::of(ADMIN)), ..two() };
    let read = Arc::clone(&next);
    let reload: tapri_server::Reload = Arc::new(move || read.lock().unwrap().clone());
    let app = app(&backend, ServerConfig { reload: Some(reload), ..config(access.clone()) });
    let reload = || send(app.clone(), post("/admin/reload", &[("x-api-key", ADMIN)], ""));
    let mut changed = access;
    changed.tenants[0].keys = vec![KeyHash::of("tapri_another_red_key")];
    *next.lock().unwrap() = Ok(changed);
    assert_eq!(reload().await.status, StatusCode::OK);
    assert_eq!(ask(&app, RED, &[], HI).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(ask(&app, "tapri_another_red_key", &[], HI).await.status, StatusCode::OK);
    *next.lock().unwrap() = Err("tapri.toml:3: no".to_owned());
    let failed = reload().await;
    assert_eq!(failed.status, StatusCode::BAD_REQUEST);
    assert!(failed.body.contains("tapri.toml:3: no"), "{}", failed.body);
    assert_eq!(ask(&app, "tapri_another_red_key", &[], HI).await.status, StatusCode::OK);
}
