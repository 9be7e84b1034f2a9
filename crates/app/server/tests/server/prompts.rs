//! What an answer tells of its prompt: `echo`, and the logprobs of the prompt's tokens.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{App, ServerConfig, router};
use tapri_upstream::Embedded;

use super::CHAT;
use super::http::*;

const TEXT: &str = "/v1/completions";
const PROMPT: &str = "the quick brown fox jumps over the lazy dog and naïve 漢 is";

fn app() -> axum::Router {
    let config = EngineConfig {
        threads: NonZeroUsize::MIN,
        kv_memory: 32 << 20,
        chunk: NonZeroUsize::new(64).unwrap(),
        ..EngineConfig::default()
    };
    let model = TinyModel::llama();
    let engine = Engine::start_from(&model.gguf(), PathBuf::from("tiny.gguf"), config).unwrap();
    let backend = Arc::new(Embedded::new(engine, "tiny", Vec::new()));
    router(App::new(&ServerConfig::default(), Pipeline::new(backend as Arc<dyn Backend>)))
}

async fn ask(app: &axum::Router, path: &str, body: Value) -> Reply {
    let reply = send(app.clone(), post(path, &[], body.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply
}

fn chunks(reply: &Reply) -> Vec<Value> {
    let data = reply.body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[tokio::test]
async fn an_echo_is_the_prompt_and_then_the_answer() {
    let app = app();
    let plain = json!({"prompt": PROMPT, "max_tokens": 6, "temperature": 0});
    let without = ask(&app, TEXT, plain.clone()).await.json();
    let body = json!({"prompt": PROMPT, "max_tokens": 6, "temperature": 0, "echo": true});
    let with = ask(&app, TEXT, body.clone()).await.json();
    let answer = without["choices"][0]["text"].as_str().unwrap();
    assert_eq!(with["choices"][0]["text"], format!("{PROMPT}{answer}"));
    assert_eq!(with["choices"][0]["logprobs"], Value::Null);
    assert_eq!(with["usage"]["completion_tokens"], without["usage"]["completion_tokens"]);
    // Nothing has to be scored, so the cache is used.
    assert!(with["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 0);
    let mut streamed = body;
    streamed["stream"] = true.into();
    let reply = ask(&app, TEXT, streamed).await;
    let text: String =
        chunks(&reply).iter().filter_map(|chunk| chunk["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, format!("{PROMPT}{answer}"));
}

#[tokio::test]
async fn an_echo_with_logprobs_scores_the_prompt() {
    let app = app();
    let body =
        json!({"prompt": PROMPT, "max_tokens": 5, "temperature": 0, "echo": true, "logprobs": 2});
    ask(&app, TEXT, body.clone()).await;
    let reply = ask(&app, TEXT, body.clone()).await;
    let status = reply.header("cache-status").unwrap();
    assert!(status.contains("bypass"), "{status}");
    let whole = reply.json();
    let (choice, usage) = (&whole["choices"][0], &whole["usage"]);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 0, "its scores are computed");
    let scores = &choice["logprobs"];
    let total = usage["total_tokens"].as_u64().unwrap() as usize;
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(&scores[name]).len(), total, "{name}");
    }
    assert_eq!(
        (&scores["token_logprobs"][0], &scores["top_logprobs"][0]),
        (&Value::Null, &Value::Null)
    );
    assert!(list(&scores["token_logprobs"])[1..].iter().all(|score| score.as_f64().unwrap() < 0.0));
    assert!(
        list(&scores["top_logprobs"])[1..]
            .iter()
            .all(|top| { (1..=3).contains(&top.as_object().unwrap().len()) })
    );
    let text: Vec<char> = choice["text"].as_str().unwrap().chars().collect();
    let offsets: Vec<usize> =
        list(&scores["text_offset"]).iter().map(|at| at.as_u64().unwrap() as usize).collect();
    assert!(offsets.is_sorted() && *offsets.last().unwrap() <= text.len());
    // Tokens that read the same stand once.
    // The answer's own logprobs are what they are without an echo.
    let mut plain = body.clone();
    plain["echo"] = false.into();
    let plain = ask(&app, TEXT, plain).await.json();
    let own = list(&plain["choices"][0]["logprobs"]["token_logprobs"]);
    assert_eq!(list(&scores["token_logprobs"])[total - own.len()..], *own);
    // Streamed it is the same, in pieces.
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let reply = ask(&app, TEXT, streamed).await;
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        let pieces: Vec<Value> = chunks(&reply)
            .iter()
            .flat_map(|chunk| list(&chunk["choices"][0]["logprobs"][name]).to_vec())
            .collect();
        assert_eq!(pieces, list(&scores[name]), "{name}");
    }
    // The prompt alone: no token of an answer, and the same scores.
    let mut alone = body;
    alone["max_tokens"] = 0.into();
    let alone = ask(&app, TEXT, alone).await.json();
    assert_eq!(alone["choices"][0]["text"], PROMPT);
    let alone = list(&alone["choices"][0]["logprobs"]["token_logprobs"]);
    assert_eq!(*alone, list(&scores["token_logprobs"])[..alone.len()]);
    assert_eq!(alone.len(), usage["prompt_tokens"].as_u64().unwrap() as usize);
}

#[tokio::test]
async fn prompt_logprobs_have_the_form_of_vllm() {
    let app = app();
    let ids: Vec<u32> = (100..140).collect();
    let body = json!({"prompt": ids, "max_tokens": 3, "temperature": 0, "prompt_logprobs": 2, "n": 2, "seed": 1});
    let whole = ask(&app, TEXT, body.clone()).await.json();
    let entries = list(&whole["choices"][0]["prompt_logprobs"]);
    assert_eq!((entries.len(), &entries[0]), (40, &Value::Null));
    for (entry, id) in entries.iter().zip(&ids).skip(1) {
        let entry = entry.as_object().unwrap();
        let (first, own) = entry.iter().next().unwrap();
        assert_eq!(*first, id.to_string(), "the prompt's own token comes first");
        assert!(own["logprob"].as_f64().unwrap() < 0.0 && own["decoded_token"].is_string());
        let rank = own["rank"].as_u64().unwrap();
        assert_eq!(entry.len(), if rank <= 2 { 2 } else { 3 });
        let ranks: Vec<u64> =
            entry.values().skip(1).map(|it| it["rank"].as_u64().unwrap()).collect();
        assert!(ranks.iter().all(|rank| *rank <= 2), "{ranks:?}");
    }
    assert_eq!(whole["choices"][1]["prompt_logprobs"], whole["choices"][0]["prompt_logprobs"]);
    assert!(whole["choices"][0]["logprobs"].is_null(), "the answer's weren't asked for");

    let chat = json!({
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": 3, "temperature": 0, "prompt_logprobs": 0,
    });
    let whole = ask(&app, CHAT, chat.clone()).await.json();
    let entries = list(&whole["prompt_logprobs"]);
    assert_eq!(entries.len() as u64, whole["usage"]["prompt_tokens"].as_u64().unwrap());
    assert!(entries[1..].iter().all(|entry| entry.as_object().unwrap().len() == 1));
    let mut streamed = chat;
    streamed["stream"] = true.into();
    let reply = ask(&app, CHAT, streamed).await;
    let pieces: Vec<Value> =
        chunks(&reply).iter().flat_map(|chunk| list(&chunk["prompt_logprobs"]).to_vec()).collect();
    assert_eq!(pieces, entries);
    let text: String = chunks(&reply)
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(text, whole["choices"][0]["message"]["content"]);
}

#[tokio::test]
async fn what_is_out_of_range_names_its_field() {
    let app = app();
    for (field, value) in [
        ("prompt_logprobs", json!(21)),
        ("prompt_logprobs", json!(-1)),
        ("repetition_penalty", json!(0)),
        ("repetition_penalty", json!(10.5)),
        ("echo", json!("yes")),
    ] {
        let mut body = json!({"prompt": "x", "max_tokens": 1});
        body[field] = value.clone();
        let reply = send(app.clone(), post(TEXT, &[], body.to_string())).await;
        assert_eq!(
            (reply.status.as_u16(), reply.json()["error"]["param"].as_str()),
            (400, Some(field)),
            "{value}"
        );
    }
}
