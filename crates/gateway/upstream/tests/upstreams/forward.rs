//! What an upstream gets, and what its answer becomes.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tapri_api::{CallEvent, Format};
use tapri_fake_upstream::{Fake, FakeConfig, Script, UsageScript};
use tapri_upstream::{Api, Backend, Credential, Fleet, FleetConfig, Kind, Secret, ServedModel};

use super::scene::*;

#[tokio::test]
async fn a_body_of_the_same_format_goes_on_as_it_came() {
    let fake = fake(Script::text("Hello there, caller")).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    let text = r#"{ "model":"m","messages":[{"role":"user","content":"Hi"}], "temperature": 1.0, "new_field": {"a": 12345678901234567890} }"#;
    let inbound = tapri_api::Inbound::read(Format::Chat, text.into(), Vec::new()).unwrap();
    let answer = ask(&fleet, tapri_api::Call::request(inbound.into())).await.unwrap();
    assert_eq!(answer.text, "Hello there, caller");
    let seen = fake.last().unwrap();
    assert_eq!((seen.path.as_str(), &seen.bytes[..]), ("/v1/chat/completions", text.as_bytes()));
    let usage = answer.finish().usage;
    assert_eq!((usage.answer(), usage.cached()), (Some(3), Some(0)));
    let timings = answer.finish().timings;
    assert!(timings.total >= timings.queued && timings.first_token.is_some());
    fake.stop().await;
}

#[tokio::test]
async fn every_format_as_body_and_stream_on_its_own_path() {
    let fake = fake(Script::text("One two three")).await;
    let mut openai = upstream("openai", &fake.url(), Api::OpenAi);
    openai.formats.push(Format::Responses);
    openai.models = vec![ServedModel::named("m")];
    let mut anthropic = upstream("anthropic", &format!("{}/v1/", fake.url()), Api::Anthropic);
    anthropic.models = vec![ServedModel::named("claude")];
    anthropic.credential = Credential::Shared(Secret::new("key-1"));
    let fleet = fleet(vec![openai, anthropic]);
    for stream in [false, true] {
        for (format, body) in [
            (Format::Chat, chat("Hi")),
            (Format::Completion, json!({"model": "m", "prompt": "Hi"})),
            (Format::Responses, json!({"model": "m", "input": "Hi"})),
            (
                Format::Messages,
                json!({"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
            ),
        ] {
            let body = if stream { streamed(body) } else { body };
            let answer = ask(&fleet, call(format, body)).await.unwrap();
            assert_eq!(answer.text, "One two three", "{format:?} {stream}");
            assert_eq!(answer.finish().usage.answer(), Some(3), "{format:?} {stream}");
            let seen = fake.last().unwrap();
            assert_eq!(seen.path, format.path());
            if format == Format::Messages {
                assert_eq!(seen.header("x-api-key"), Some("key-1"));
                assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
                assert_eq!(seen.header("anthropic-beta"), Some("tools-2026"));
            } else {
                assert_eq!(seen.header("anthropic-beta"), None, "another API's header");
            }
        }
    }
    let answer = ask(&fleet, call(Format::Embeddings, json!({"model": "m", "input": ["a", "b"]})))
        .await
        .unwrap();
    let CallEvent::Piece(piece) = &answer.events[1] else { panic!("{:?}", answer.events) };
    let raw: Value = serde_json::from_str(&piece.raw.as_ref().unwrap().data).unwrap();
    assert_eq!(raw["data"].as_array().unwrap().len(), 2);
    assert!(answer.finish().usage.prompt().unwrap() > 0);
    fake.stop().await;
}

#[tokio::test]
async fn usage_of_a_stream_is_asked_for_and_hidden_from_who_did_not() {
    let fake = fake(Script::default()).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    let answer = ask(&fleet, call(Format::Chat, streamed(chat("Hi")))).await.unwrap();
    assert_eq!(fake.last().unwrap().json()["stream_options"]["include_usage"], true);
    assert!(answer.finish().usage.prompt().unwrap() > 0);
    for event in &answer.events {
        if let CallEvent::Piece(piece) = event {
            let data = &piece.raw.as_ref().unwrap().data;
            assert!(!data.contains("\"usage\""), "the client did not ask: {data}");
        }
    }
    let mut plain = upstream("old", &fake.url(), Api::OpenAi);
    plain.usage_in_streams = false;
    let fleet = super::scene::fleet(vec![plain]);
    let answer = ask(&fleet, call(Format::Chat, streamed(chat("Hi")))).await.unwrap();
    assert!(fake.last().unwrap().json().get("stream_options").is_none());
    assert!(answer.finish().usage.is_unknown());
    fake.stop().await;
}

/// Complaint 11: cached tokens that nobody reported are not zero.
#[tokio::test]
async fn absent_usage_is_unknown_and_zero_is_zero() {
    let fake = fake(Script::default()).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    let mut told = Vec::new();
    for usage in [
        UsageScript::Honest,
        UsageScript::NoDetails,
        UsageScript::Absent,
        UsageScript::Null,
        UsageScript::Negative,
        UsageScript::Inconsistent,
    ] {
        for stream in [false, true] {
            fake.push(Script { usage: usage.clone(), ..Script::default() });
            let body = if stream { streamed(chat("Hi")) } else { chat("Hi") };
            let usage = ask(&fleet, call(Format::Chat, body)).await.unwrap().finish().usage;
            told.push((usage.cached(), usage.prompt().is_some()));
            assert!(usage.cached() <= usage.prompt(), "a part is no more than the whole");
        }
    }
    let pairs: Vec<_> = told.chunks(2).map(|pair| (pair[0].0, pair[1].0)).collect();
    assert_eq!(pairs[..4], [(Some(0), Some(0)), (None, None), (None, None), (None, None)]);
    assert_eq!(pairs[4], (None, None), "negative counts tell nothing");
    let stats = fleet.upstreams().remove(0).calibration;
    assert_eq!((stats.told, stats.untold), (4, 8));
    fake.stop().await;
}

#[tokio::test]
async fn models_are_mapped_listed_and_refused() {
    let fake = fake(Script::default()).await;
    let mut up = upstream("up", &fake.url(), Api::OpenAi);
    up.models = vec![
        ServedModel {
            upstream_name: Some("org/small-v2".into()),
            aliases: vec!["fast".into()],
            ..ServedModel::named("small")
        },
        ServedModel::named("gpt-*"),
    ];
    let fleet = fleet(vec![up]);
    for (asked, sent) in [("small", "org/small-v2"), ("fast", "org/small-v2"), ("gpt-4o", "gpt-4o")]
    {
        let body = json!({"model": asked, "messages": []});
        ask(&fleet, call(Format::Chat, body)).await.unwrap();
        assert_eq!(fake.last().unwrap().json()["model"], sent);
    }
    let refused = ask(&fleet, call(Format::Chat, json!({"model": "other"}))).await.unwrap_err();
    assert_eq!((refused.status(), refused.code.as_deref()), (404, Some("model_not_found")));
    assert!(refused.to_string().contains("`small`"), "{refused}");
    let unnamed = ask(&fleet, call(Format::Chat, json!({"messages": []}))).await.unwrap();
    assert!(unnamed.end.is_ok() && fake.last().unwrap().json()["model"] == "org/small-v2");
    assert_eq!(fleet.models().len(), 1);
    fake.stop().await;
}

#[tokio::test]
async fn a_route_has_its_own_upstreams() {
    let (one, two) = (fake(Script::text("one")).await, fake(Script::text("two")).await);
    let upstreams =
        vec![upstream("one", &one.url(), Api::OpenAi), upstream("two", &two.url(), Api::OpenAi)];
    let routes = [("second".to_owned(), vec!["two".to_owned()]), ("none".to_owned(), Vec::new())];
    let config = FleetConfig { upstreams, routes: routes.into(), ..FleetConfig::default() };
    let fleet = Fleet::new(config).unwrap();
    let on = |route: &'static str| {
        let mut call = call(Format::Chat, chat("Hi"));
        call.origin.route = route.into();
        call
    };
    for _ in 0..5 {
        assert_eq!(ask(&fleet, on("second")).await.unwrap().text, "two");
    }
    assert_eq!(ask(&fleet, on("none")).await.unwrap_err().status(), 404);
    assert!(ask(&fleet, on("another")).await.is_ok());
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn an_upstreams_list_of_models_is_taken_over() {
    let models = vec!["one".to_owned(), "two".to_owned()];
    let fake = Fake::start(FakeConfig { models, ..FakeConfig::default() }).await.unwrap();
    let gone = upstream("gone", "http://127.0.0.1:9", Api::OpenAi);
    let upstreams = vec![upstream("up", &fake.url(), Api::OpenAi), gone];
    let mut config = FleetConfig { upstreams, ..FleetConfig::default() };
    Fleet::discover(&mut config).await;
    let fleet = Fleet::new(config).unwrap();
    let names: Vec<String> = fleet.models().iter().map(|card| card.id.clone()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(fleet.model(None).unwrap_err().to_string().contains("`two`"));
    fake.stop().await;
}

#[tokio::test]
async fn each_tenant_has_its_own_credential() {
    let fake = fake(Script::default()).await;
    let mut up = upstream("up", &fake.url(), Api::OpenAi);
    let keys = [("a".to_owned(), Secret::new("key-a")), ("b".to_owned(), Secret::new("key-b"))];
    up.credential = Credential::PerTenant(BTreeMap::from(keys));
    assert!(!format!("{up:?}").contains("key-a"), "a secret never shows");
    assert!(up.warnings().is_empty());
    let fleet = fleet(vec![up.clone()]);
    for (name, key) in [("a", "Bearer key-a"), ("b", "Bearer key-b")] {
        ask(&fleet, tenant(b"s", name, call(Format::Chat, chat("Hi")))).await.unwrap();
        assert_eq!(fake.last().unwrap().header("authorization"), Some(key));
    }
    let refused = ask(&fleet, tenant(b"s", "c", call(Format::Chat, chat("Hi")))).await.unwrap_err();
    assert_eq!(refused.status(), 403);
    assert!(!refused.to_string().contains("key-"), "{refused}");
    up.credential = Credential::Shared(Secret::new("key"));
    up.kind = Kind::Hosted;
    assert!(up.warnings()[0].contains("shared by all tenants"), "{:?}", up.warnings());
    fake.stop().await;
}
