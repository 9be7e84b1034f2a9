//! Help for the prefix caches of upstreams.

use serde_json::{Value, json};
use tapri_api::Format;
use tapri_fake_upstream::{CacheStyle, Script};
use tapri_upstream::prefix::markers::{Inject, Life, Place};
use tapri_upstream::{Api, Backend, Kind, Secret, ServedModel, UpstreamConfig};

use super::scene::*;

fn long(text: &str) -> Value {
    chat(&text.repeat(2000))
}

/// Complaint 21: a salt must be the gateway's, never the client's own.
#[tokio::test]
async fn vllm_gets_a_salt_that_only_the_gateway_can_make() {
    let fake = caching(CacheStyle::Vllm).await;
    let secret = Secret::new("secret");
    let up = UpstreamConfig {
        kind: Kind::Vllm,
        salt_secret: secret,
        ..upstream("v", &fake.url(), Api::OpenAi)
    };
    let fleet = fleet(vec![up]);
    let mut seen = Vec::new();
    let mut cached = Vec::new();
    for (scope, client) in [
        (&b"tenant-a"[..], None),
        (b"tenant-a", None),
        (b"tenant-b", None),
        (b"tenant-a", Some("session-1")),
        // Tenant b asks with the very salt that vLLM got for tenant a.
        (b"tenant-b", Some("78bb62a4bf377ced472f0c6e056ce69d36794abec538a911d77fa4a39833c6b5")),
    ] {
        let mut body = long("case ");
        if let Some(client) = client {
            body["cache_salt"] = client.into();
        }
        let call = tenant(scope, "t", call(Format::Chat, body));
        let answer = ask(&fleet, call).await.unwrap();
        cached.push(answer.finish().usage.cached().unwrap() > 0);
        seen.push(fake.last().unwrap().json()["cache_salt"].as_str().unwrap().to_owned());
    }
    // The published vectors.
    assert_eq!(seen[0], "78bb62a4bf377ced472f0c6e056ce69d36794abec538a911d77fa4a39833c6b5");
    assert_eq!(seen[3], "2b1fdc9e1e8ad9211df2a3c8f791ca84323bf49785822d3b64fa897552c3738b");
    assert_eq!(cached, [false, true, false, false, false], "only the same tenant and salt hit");
    fake.stop().await;
}

#[tokio::test]
async fn no_store_and_no_cache_hold_at_vllm() {
    let fake = caching(CacheStyle::Vllm).await;
    let up = UpstreamConfig { kind: Kind::Vllm, ..upstream("v", &fake.url(), Api::OpenAi) };
    let fleet = fleet(vec![up]);
    let mut cached = Vec::new();
    for directives in ["no-store", "", "", "no-cache", "no-store", ""] {
        let mut call = call(Format::Chat, long("case "));
        call.cache = tapri_api::CacheDirectives::parse(directives);
        let answer = ask(&fleet, call).await.unwrap();
        cached.push(answer.finish().usage.cached().unwrap() > 0);
    }
    assert_eq!(cached, [false, false, true, false, false, true]);
    fake.stop().await;
}

#[tokio::test]
async fn a_clients_salt_reaches_no_other_upstream() {
    let fake = fake(Script::default()).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    let mut body = chat("Hi");
    body["cache_salt"] = "mine".into();
    ask(&fleet, call(Format::Chat, body)).await.unwrap();
    assert_eq!(fake.last().unwrap().json(), chat("Hi"));
    fake.stop().await;
}

#[tokio::test]
async fn openai_gets_a_cache_key_from_the_prefix_unless_the_caller_set_one() {
    let fake = caching(CacheStyle::OpenAi).await;
    let fleet = fleet(vec![UpstreamConfig {
        kind: Kind::Hosted,
        ..upstream("openai", &fake.url(), Api::OpenAi)
    }]);
    let mut keys = Vec::new();
    for (scope, system, question, own) in [
        (b"a", "law ", "One?", None),
        (b"a", "law ", "Two?", None),
        (b"b", "law ", "One?", None),
        (b"a", "tax ", "One?", None),
        (b"a", "law ", "One?", Some("mine")),
    ] {
        let mut body = json!({"model": "gpt-4o", "messages": [
            {"role": "system", "content": system.repeat(2000)}, {"role": "user", "content": question}]});
        if let Some(own) = own {
            body["prompt_cache_key"] = own.into();
        }
        ask(&fleet, tenant(scope, "t", call(Format::Chat, body))).await.unwrap();
        keys.push(fake.last().unwrap().json()["prompt_cache_key"].as_str().unwrap().to_owned());
    }
    assert_eq!(keys[0], keys[1], "the same start, whatever the question");
    assert!(keys[0] != keys[2] && keys[0] != keys[3], "{keys:?}");
    assert_eq!(keys[4], "mine");
    let short = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]});
    ask(&fleet, call(Format::Chat, short)).await.unwrap();
    assert!(fake.last().unwrap().json().get("prompt_cache_key").is_none(), "below the minimum");
    let other = json!({"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "law ".repeat(2000)}]});
    ask(&fleet, call(Format::Chat, other)).await.unwrap();
    assert!(fake.last().unwrap().json().get("prompt_cache_key").is_none(), "no rule says so");
    fake.stop().await;
}

/// Complaint 13: markers are put where a route asks, and the second call reads what the first wrote.
#[tokio::test]
async fn anthropic_gets_cache_control_where_a_route_asks() {
    let fake = caching(CacheStyle::Anthropic).await;
    let mut up =
        UpstreamConfig { kind: Kind::Hosted, ..upstream("anthropic", &fake.url(), Api::Anthropic) };
    let inject = Some(Inject { places: vec![Place::System, Place::Document], life: Life::Short });
    up.models = vec![
        ServedModel { inject, ..ServedModel::named("claude-sonnet-5") },
        ServedModel::named("claude-opus-4-8"),
    ];
    let fleet = fleet(vec![up]);
    let body = |model: &str, question: &str| {
        json!({"model": model, "max_tokens": 9, "system": "You are a clerk.", "messages": [{"role": "user", "content": [
            {"type": "text", "text": "page ".repeat(4000)}, {"type": "text", "text": question}]}]})
    };
    for (model, question, cached) in [
        ("claude-sonnet-5", "One?", 0),
        ("claude-sonnet-5", "Two?", 5000),
        ("claude-opus-4-8", "One?", 0),
        ("claude-opus-4-8", "One?", 0),
    ] {
        let answer = ask(&fleet, call(Format::Messages, body(model, question))).await.unwrap();
        let usage = answer.finish().usage;
        assert!(
            usage.cached().unwrap() >= cached && (cached > 0 || usage.cached() == Some(0)),
            "{model} {usage:?}"
        );
        let sent = fake.last().unwrap().json();
        let marked = sent["messages"][0]["content"][0].get("cache_control").is_some();
        assert_eq!(marked, model == "claude-sonnet-5", "only where it is asked for");
        assert!(sent["system"].is_string(), "too short for a marker of its own");
    }
    // What is read is predicted by the markers that were sent: the second call's, and nothing of the model without.
    let sums = fleet.upstreams().remove(0).calibration;
    assert!(sums.realised > 4900 && sums.predicted.abs_diff(sums.realised) < 300, "{sums:?}");
    assert_eq!((sums.told, sums.surprises), (4, 0));
    fake.stop().await;
}

/// Complaint 19: what was predicted is held against what came, and a cache that never hits is said.
#[tokio::test]
async fn predictions_are_compared_with_what_comes_back() {
    let fake = caching(CacheStyle::Vllm).await;
    let up = UpstreamConfig { kind: Kind::Vllm, ..upstream("v", &fake.url(), Api::OpenAi) };
    let fleet = fleet(vec![up]);
    for n in 0..10 {
        let mut body = long("file ");
        let question = json!({"role": "user", "content": format!("Question {n}?")});
        body["messages"].as_array_mut().unwrap().push(question);
        ask(&fleet, call(Format::Chat, body)).await.unwrap();
    }
    let sums = fleet.upstreams().remove(0).calibration;
    assert_eq!((sums.told, sums.surprises), (10, 0));
    assert!(sums.predicted > 20_000, "{sums:?}");
    let error = sums.error as f64 / sums.realised as f64;
    assert!(error < 0.1, "predictions are within a tenth: {sums:?}");
    // An upstream that keeps nothing: nine calls of which much was expected.
    let forgetful = super::scene::fake(Script::default()).await;
    let fleet = super::scene::fleet(vec![upstream("f", &forgetful.url(), Api::OpenAi)]);
    for _ in 0..10 {
        ask(&fleet, call(Format::Chat, long("file "))).await.unwrap();
    }
    assert_eq!(fleet.upstreams()[0].calibration.surprises, 9);
    fake.stop().await;
    forgetful.stop().await;
}
