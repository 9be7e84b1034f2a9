//! A caller of one API, and an upstream that speaks another.

use serde_json::{Value, json};
use tapri_api::{CallEvent, FinishReason, Format, Says};
use tapri_fake_upstream::{CacheStyle, Fake, Script, ToolScript};
use tapri_upstream::{Api, Fleet, Kind, ServedModel, UpstreamConfig};

use super::scene::*;

fn only(fake: &Fake, api: Api, model: &str) -> Fleet {
    let mut up = upstream("up", &fake.url(), api);
    up.models = vec![ServedModel::named(model)];
    fleet(vec![up])
}

fn tool_script() -> Script {
    Script {
        text: Some("Let me look".into()),
        tool_calls: vec![ToolScript { name: "look".into(), arguments: r#"{"page":3}"#.into() }],
        ..Script::default()
    }
}

/// Name and arguments of the tool that an answer calls.
fn called(answer: &Answer) -> (String, Value) {
    let (mut name, mut arguments) = (String::new(), String::new());
    for event in &answer.events {
        let CallEvent::Piece(piece) = event else { continue };
        for delta in &piece.deltas {
            match &delta.says {
                Says::ToolCall { name: called, .. } => name.clone_from(called),
                Says::ToolArguments { json, .. } => arguments.push_str(json),
                _ => {}
            }
        }
    }
    (name, serde_json::from_str(&arguments).unwrap())
}

#[tokio::test]
async fn chat_completions_at_anthropic() {
    let fake = fake(tool_script()).await;
    let fleet = only(&fake, Api::Anthropic, "claude");
    let body = json!({"model": "claude", "max_tokens": 99, "messages": [
        {"role": "system", "content": "You are a clerk."}, {"role": "user", "content": "What is on page 3?"}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]});
    for stream in [false, true] {
        let body = if stream { streamed(body.clone()) } else { body.clone() };
        let answer = ask(&fleet, call(Format::Chat, body)).await.unwrap();
        let seen = fake.last().unwrap();
        assert_eq!(
            (seen.path.as_str(), seen.header("anthropic-version")),
            ("/v1/messages", Some("2023-06-01"))
        );
        assert_eq!(seen.json()["tools"][0]["name"], "look");
        assert!(seen.json()["system"].to_string().contains("clerk"), "{}", seen.json());
        assert_eq!(seen.json()["stream"] == true, stream);
        assert_eq!(answer.text, "Let me look");
        assert_eq!(called(&answer), ("look".to_owned(), json!({"page": 3})));
        assert_eq!(answer.finish().reason, FinishReason::ToolCalls);
        assert!(answer.finish().usage.total().is_some());
    }
    fake.stop().await;
}

#[tokio::test]
async fn messages_at_an_openai_compatible_server() {
    let fake = caching(CacheStyle::Vllm).await;
    fake.always(tool_script());
    let mut up = UpstreamConfig { kind: Kind::Vllm, ..upstream("up", &fake.url(), Api::OpenAi) };
    up.models = vec![ServedModel::named("m")];
    let fleet = fleet(vec![up]);
    let body = json!({"model": "m", "max_tokens": 99, "system": "law ".repeat(400),
        "messages": [{"role": "user", "content": "What is on page 3?"}],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}]});
    for (n, stream) in [false, true].into_iter().enumerate() {
        let body = if stream { streamed(body.clone()) } else { body.clone() };
        let answer = ask(&fleet, call(Format::Messages, body)).await.unwrap();
        let seen = fake.last().unwrap();
        assert_eq!(seen.path, "/v1/chat/completions");
        assert_eq!(seen.json()["messages"][0]["role"], "system");
        assert!(seen.json()["cache_salt"].is_string(), "help comes after the conversion");
        assert_eq!(seen.header("anthropic-beta"), None, "another API's header");
        if stream {
            assert_eq!(seen.json()["stream_options"]["include_usage"], true);
        }
        assert_eq!(called(&answer), ("look".to_owned(), json!({"page": 3})));
        assert_eq!(answer.finish().usage.cached().unwrap() > 300, n > 0);
    }
    fake.stop().await;
}

#[tokio::test]
async fn an_error_keeps_its_words_across_formats_and_what_cant_be_said_is_a_400() {
    let fake = fake(Script::default()).await;
    let fleet = only(&fake, Api::Anthropic, "claude");
    fake.push(Script::error(400, "max_tokens is too large"));
    let body = json!({"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let error = ask(&fleet, call(Format::Chat, body)).await.unwrap_err();
    assert_eq!((error.status(), error.message.as_str()), (400, "max_tokens is too large"));
    assert!(error.upstream.unwrap().request_id.is_some());
    let before = fake.came();
    let body = json!({"model": "claude", "prompt": "Once upon a time"});
    let error = ask(&fleet, call(Format::Completion, body)).await.unwrap_err();
    assert_eq!(
        (error.status(), fake.came()),
        (400, before),
        "there is no such thing as a bare prompt there"
    );
    fake.stop().await;
}
